#include "gpu_backend/communicate/counted_exchange.hpp"

#include <algorithm>
#include <numeric>
#include <stdexcept>

#include <fmt/format.h>

#include "core/base/error.hpp"
#include "core/base/index.hpp"
#include "core/program/body.hpp"

namespace rehearse {

CountedExchange::CountedExchange(const RankPlan& plan, const Instruction& task, Communicator* communicator,
                                 Numerics numerics)
    : program_(plan.program()),
      rank_(plan.rank()),
      task_(std::get<CollectiveTask>(task.task->kind)),
      at_(task.at),
      communicator_(communicator),
      name_(name_of(task)) {
  members_ = program_.mesh.group_size(nth(program_.groups, task_.group), plan.rank(), program_.exprs);
  const auto& o = task.operands;
  for (std::size_t i = 0; i + 1 < o.size(); i += 2) {
    const Held &in = *o[i].held, &out = *o[i + 1].held;
    const Tensor& t = nth(program_.tensors, o[i].tensor);
    const std::int64_t width = in.elements() / std::max<std::int64_t>(1, in.extents.at(0));
    parts_.push_back(
        {i, i + 1, width, in.extents[0], out.extents.at(0), static_cast<double>(width) * size_of(t.dtype)});
    const ElementType type = stored_as(t.dtype, numerics);
    if (i > 0 && type != type_) throw std::logic_error(name_ + ": operands of different types in one exchange");
    type_ = type;
  }
}

/// The Program counts elements of the first tensor.
std::vector<std::int64_t> CountedExchange::rows(ExprId count, const Values& values) const {
  ExprContext at = at_;
  at.dynamic = &values;
  std::vector<std::int64_t> out;
  for (at.peer = 0; at.peer < members_; ++at.peer)
    out.push_back(program_.exprs.evaluate(count, at) / parts_.front().width);
  return out;
}

void CountedExchange::check(const std::vector<std::int64_t>& rows, bool sends) const {
  std::int64_t sum = 0;
  for (const std::int64_t n : rows) {
    sum += n;
    for (const Part& p : parts_) {
      if (n < 0 || sum > (sends ? p.sent_room : p.received_room)) {
        throw Error(ErrorKind::check_failed,
                    fmt::format("rank {} {} {} rows, with room for {}", rank_, sends ? "sends" : "receives", sum,
                                sends ? p.sent_room : p.received_room),
                    name_,
                    "counts that ranks exchanged disagree with the plan's bounds: a mistake of the plan or of its "
                    "routing, not of the scenario; '--device cpu --numerics fp64' says whether it is the device's");
      }
    }
  }
}

void CountedExchange::start(ComputeDevice& device, const std::vector<std::byte*>& data, const Values& values,
                            Done done) const {
  const std::vector<std::int64_t> to = rows(task_.count_to_peer, values), from = rows(task_.count_from_peer, values);
  check(to, true);
  check(from, false);
  const std::size_t size = size_of(type_);
  struct Buffers {
    std::shared_ptr<Storage> send, receive;
  };
  CollectiveCall call;
  call.op = CollectiveOp::all_to_all;
  call.type = type_;
  call.name = name_;
  const std::int64_t row = std::accumulate(parts_.begin(), parts_.end(), std::int64_t{0},
                                           [](std::int64_t n, const Part& p) { return n + p.width; });
  for (const std::int64_t n : to) call.send_counts.push_back(n * row);
  for (const std::int64_t n : from) call.receive_counts.push_back(n * row);
  const std::int64_t sent = std::accumulate(to.begin(), to.end(), std::int64_t{0}),
                     received = std::accumulate(from.begin(), from.end(), std::int64_t{0});
  const Buffers buffers{device.allocate(static_cast<std::size_t>(sent * row) * size),
                        device.allocate(static_cast<std::size_t>(received * row) * size)};
  for (const Part& p : parts_) moved_->store(moved_->load() + static_cast<double>(std::max(sent, received)) * p.bytes);
  std::byte* at = buffers.send->data();
  std::int64_t first = 0;
  for (const std::int64_t n : to) {
    for (const Part& p : parts_) {
      const std::size_t bytes = static_cast<std::size_t>(n * p.width) * size;
      device.copy(at, data[p.in] + static_cast<std::size_t>(first * p.width) * size, bytes);
      at += bytes;
    }
    first += n;
  }
  const auto unpack = [this, &device, buffers, data, from, size](const std::byte* next) {
    std::int64_t begin = 0;
    for (const std::int64_t n : from) {
      for (const Part& p : parts_) {
        const std::size_t bytes = static_cast<std::size_t>(n * p.width) * size;
        device.copy(data[p.out] + static_cast<std::size_t>(begin * p.width) * size, next, bytes);
        next += bytes;
      }
      begin += n;
    }
  };
  if (communicator_ == nullptr) {
    unpack(buffers.send->data());
    return done(nullptr);
  }
  call.send = buffers.send->data();
  call.receive = buffers.receive->data();
  communicator_->start(std::move(call), [unpack, buffers, done = std::move(done)](const std::exception_ptr& failed) {
    if (failed == nullptr) unpack(buffers.receive->data());
    done(failed);
  });
}

}  // namespace rehearse
