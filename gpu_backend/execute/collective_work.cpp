#include "gpu_backend/execute/collective_work.hpp"

#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "core/base/error.hpp"
#include "core/base/index.hpp"
#include "core/program/body.hpp"

namespace rehearse {

namespace {

constexpr std::int64_t kCollectiveWorkPiece = 16384;  // Elements: their bytes fit into any core's own cache.

Blocks whole(const Held& h) { return {{0, h.elements()}}; }

/// Whether every rank of a group numbers the elements for itself.
bool ragged(const Program& p, int tensor, int group) {
  for (const auto& [axis, l] : nth(p.tensors, tensor).layout)
    if (std::holds_alternative<Ragged>(l) && nth(p.groups, group).axes.contains(axis)) return true;
  return false;
}

}  // namespace

CollectiveWork::CollectiveWork(RankPlan& plan, const Instruction& task, Communicator* communicator, Numerics numerics)
    : communicator_(communicator) {
  const Program& p = plan.program();
  const auto& c = std::get<CollectiveTask>(task.task->kind);
  // A hop is an exchange in which all but one part is empty.
  call_.op = c.op == CollectiveOp::send_recv ? CollectiveOp::all_to_all : c.op;
  call_.reduce = c.reduce;
  call_.root = std::max(0, c.root);
  call_.name = name_of(task);
  call_.type = stored_as(nth(p.tensors, task.operands.at(0).tensor).dtype, numerics);
  divisor_ = static_cast<double>(p.exprs.evaluate(c.divisor, task.at));
  const std::vector<int> members = p.mesh.members(nth(p.groups, c.group), plan.rank(), p.exprs);
  list_pairs(task);
  for (const Pair& pair : pairs_) {
    if (stored_as(nth(p.tensors, task.operands[pair.in].tensor).dtype, numerics) != call_.type)
      throw std::logic_error(call_.name + ": operands of different types in one collective");
    out_elements_.push_back(task.operands[pair.out].held->elements());
  }
  if (c.op == CollectiveOp::halo_exchange)
    list_halo(plan, task, members);
  else
    list_parts(plan, task, members);
  count_bytes(plan, task);
}

void CollectiveWork::list_pairs(const Instruction& task) {
  const auto& o = task.operands;
  for (std::size_t i = 0; i < o.size(); ++i) {
    const bool paired = i + 1 < o.size() && o[i].access != Access::write && o[i + 1].access == Access::write;
    if (!paired && o[i].access != Access::update)
      throw std::logic_error(call_.name + ": operands are neither pairs nor in place");
    pairs_.push_back({i, paired ? i + 1 : i});
    if (paired) ++i;
  }
  in_place_ = pairs_.size() == 1 && o[pairs_[0].in].slot == o[pairs_[0].out].slot &&
              o[pairs_[0].in].first == o[pairs_[0].out].first;
}

void CollectiveWork::list_parts(RankPlan& plan, const Instruction& task, const std::vector<int>& members) {
  const Program& p = plan.program();
  const auto& c = std::get<CollectiveTask>(task.task->kind);
  send_.resize(members.size());
  receive_.resize(members.size());
  for (std::size_t m = 0; m < members.size(); ++m) {
    for (const Pair& pair : pairs_) {
      const PlannedOperand &in = task.operands[pair.in], &out = task.operands[pair.out];
      const ExprContext there = p.mesh.context(members[m]);
      const Held *in_there = plan.held_by(in.tensor, there), *out_there = plan.held_by(out.tensor, there);
      if (ragged(p, in.tensor, c.group) && ragged(p, out.tensor, c.group)) {
        list_local(in, out, m, members.size());
        continue;
      }
      switch (call_.op) {
        case CollectiveOp::reduce_scatter: send_[m].push_back(common(*in.held, *out_there)); break;
        case CollectiveOp::all_gather: receive_[m].push_back(common(*out.held, *in_there)); break;
        case CollectiveOp::all_to_all:
          send_[m].push_back(common(*in.held, *out_there));
          receive_[m].push_back(common(*out.held, *in_there));
          break;
        default: break;
      }
      (void)in_there;
    }
  }
  const auto whole_of = [&](bool inputs) {
    std::vector<Blocks> out;
    for (const Pair& pair : pairs_) out.push_back(whole(*task.operands[inputs ? pair.in : pair.out].held));
    return out;
  };
  if (call_.op == CollectiveOp::all_reduce || call_.op == CollectiveOp::broadcast) {
    send_ = {whole_of(true)};
    receive_ = {whole_of(false)};
  }
  if (call_.op == CollectiveOp::all_gather) send_ = {whole_of(true)};
  if (call_.op == CollectiveOp::reduce_scatter) receive_ = {whole_of(false)};
  const auto counts = [](const Parts& parts) {
    std::vector<std::int64_t> out;
    for (const auto& of_member : parts) {
      std::int64_t n = 0;
      for (const Blocks& b : of_member) n += total(b);
      out.push_back(n);
    }
    return out;
  };
  call_.send_counts = counts(send_);
  call_.receive_counts = counts(receive_);
}

/// Tensors that every rank numbers for itself are exchanged in equal parts, and gathered one after the other.
void CollectiveWork::list_local(const PlannedOperand& in, const PlannedOperand& out, std::size_t member,
                                std::size_t members) {
  const auto part = [](std::int64_t n, std::size_t i, std::size_t k) {
    const std::int64_t length = n / static_cast<std::int64_t>(k);
    return Blocks{{static_cast<std::int64_t>(i) * length, length}};
  };
  if (call_.op == CollectiveOp::all_to_all)
    send_[member].push_back(part(in.held->elements(), member, members));
  else if (call_.op != CollectiveOp::all_gather)
    throw std::logic_error(call_.name + ": a reduction of tensors that every rank numbers for itself");
  receive_[member].push_back(part(out.held->elements(), member, members));
}

/// Neighbours lend each other what lies at their edges; axes that an earlier exchange has filled are sent with their
/// halos.
void CollectiveWork::list_halo(RankPlan& plan, const Instruction& task, const std::vector<int>& members) {
  const Program& p = plan.program();
  const PlannedOperand &in = task.operands[pairs_[0].in], &out = task.operands[pairs_[0].out];
  const Tensor& tensor = nth(p.tensors, out.tensor);
  const AxisSet axes = nth(p.groups, std::get<CollectiveTask>(task.task->kind).group).axes;
  std::vector<bool> filled(out.held->extents.size(), false);
  std::size_t dim = filled.size();
  for (const auto& [axis, l] : tensor.layout) {
    if (const auto* h = std::get_if<Halo>(&l); h != nullptr && dim == filled.size()) {
      if (axes.contains(axis))
        dim = static_cast<std::size_t>(h->dim);
      else
        nth(filled, h->dim) = true;
    }
  }
  if (dim == filled.size()) throw std::logic_error(call_.name + ": no halo along the group");
  call_.op = CollectiveOp::all_to_all;
  for (const int m : members) {
    const Held* there = plan.held_by(out.tensor, p.mesh.context(m));
    const bool self = m == plan.rank();
    send_.push_back({self ? Blocks{} : halo_part(*out.held, *there, dim, filled, true)});
    receive_.push_back({self ? Blocks{} : halo_part(*out.held, *there, dim, filled, false)});
    call_.send_counts.push_back(total(send_.back()[0]));
    call_.receive_counts.push_back(total(receive_.back()[0]));
  }
  if (in_place_) return;
  own_from_ = common(*in.held, *out.held);
  own_to_ = common(*out.held, *in.held);
  own_ = pairs_[0];
  pairs_[0].in = pairs_[0].out;
}

/// What is sent is read where the halo will be, so that a rank's own elements come first.
void CollectiveWork::copy_own(ComputeDevice& device, const std::vector<std::byte*>& data) const {
  if (own_from_.empty()) return;
  const std::shared_ptr<Storage> buffer =
      device.allocate(static_cast<std::size_t>(total(own_from_)) * size_of(call_.type));
  device.pack_blocks(data[own_.in], own_from_, call_.type, buffer->data());
  device.unpack_blocks(buffer->data(), own_to_, call_.type, data[own_.out]);
}

void CollectiveWork::count_bytes(const RankPlan& plan, const Instruction& task) {
  double in = 0, out = 0;
  const auto bytes = [&](const Parts& parts, std::size_t pair, std::size_t operand) {
    double n = 0;
    for (const auto& of_member : parts) n += static_cast<double>(total(of_member[pair]));
    return n * size_of(nth(plan.program().tensors, task.operands[operand].tensor).dtype);
  };
  for (std::size_t i = 0; i < pairs_.size(); ++i) {
    in += bytes(send_, i, pairs_[i].in);
    out += bytes(receive_, i, pairs_[i].out);
  }
  bytes_ = std::max(in, out);
}

CollectiveWork::Buffer CollectiveWork::room(ComputeDevice& device, const Parts& parts,
                                            const std::vector<std::byte*>& data, bool inputs) const {
  Buffer out;
  std::int64_t n = 0, first = 0;
  // Parts exchanged in place would be overwritten before they are sent.
  bool in_line = pairs_.size() == 1 && !(in_place_ && call_.op == CollectiveOp::all_to_all);
  for (const auto& of_member : parts) {
    for (const Blocks& blocks : of_member)
      for (const Block& b : blocks) {
        if (n == 0) first = b.first;
        in_line = in_line && b.first == first + n;
        n += b.length;
      }
  }
  if (in_line) {
    out.data = data[inputs ? pairs_[0].in : pairs_[0].out] + static_cast<std::size_t>(first) * size_of(call_.type);
  } else {
    out.storage = device.allocate(static_cast<std::size_t>(n) * size_of(call_.type));
    out.data = out.storage->data();
  }
  return out;
}

void CollectiveWork::pack_inputs(ComputeDevice& device, const std::vector<std::byte*>& data, std::byte* to) const {
  for (const auto& of_member : send_)
    for (std::size_t i = 0; i < of_member.size(); ++i)
      to = device.pack_blocks(data[pairs_[i].in], of_member[i], call_.type, to);
}

CollectiveWork::Buffer CollectiveWork::packed_inputs(ComputeDevice& device, const std::vector<std::byte*>& data) const {
  Buffer out = room(device, send_, data, true);
  if (out.storage) pack_inputs(device, data, out.data);
  return out;
}

void CollectiveWork::unpack_into(ComputeDevice& device, const std::vector<std::byte*>& data,
                                 const Buffer& buffer) const {
  if (!buffer.storage) return;
  const std::byte* from = buffer.data;
  for (const auto& of_member : receive_)
    for (std::size_t i = 0; i < of_member.size(); ++i)
      from = device.unpack_blocks(from, of_member[i], call_.type, data[pairs_[i].out]);
}

/// A mean is divided piece by piece on a processor, while what was just unpacked is in its cache.
void CollectiveWork::finish(ComputeDevice& device, const std::vector<std::byte*>& data, const Buffer& buffer) const {
  if (buffer.storage == nullptr || receive_.size() != 1 || divisor_ == 1 || device.queues()) {
    unpack_into(device, data, buffer);
    for (std::size_t i = 0; i < pairs_.size(); ++i) divide(device, data[pairs_[i].out], out_elements_[i]);
    return;
  }
  const std::byte* from = buffer.data;
  for (std::size_t i = 0; i < pairs_.size(); ++i) {
    for (const Block& block : receive_[0][i]) {
      for (std::int64_t at = 0; at < block.length; at += kCollectiveWorkPiece) {
        const Block piece{block.first + at, std::min(kCollectiveWorkPiece, block.length - at)};
        std::byte* const to = data[pairs_[i].out];
        from = device.unpack_blocks(from, {piece}, call_.type, to);
        divide(device, to + static_cast<std::size_t>(piece.first) * size_of(call_.type), piece.length);
      }
    }
  }
}

void CollectiveWork::divide(ComputeDevice& device, std::byte* data, std::int64_t n) const {
  if (divisor_ == 1) return;
  if (call_.type == ElementType::int64 || call_.type == ElementType::byte)
    throw std::logic_error(call_.name + ": a mean of integers");
  device.divide(data, n, call_.type, divisor_);
}

/// A group of one: its members' part is all there is.
void CollectiveWork::copy_through(ComputeDevice& device, const std::vector<std::byte*>& data) const {
  if (in_place_) return divide(device, data[pairs_[0].out], out_elements_[0]);
  const Buffer from = packed_inputs(device, data), to = room(device, receive_, data, false);
  std::int64_t n = 0;
  for (const std::int64_t c : call_.receive_counts) n += c;
  device.copy(to.data, from.data, static_cast<std::size_t>(n) * size_of(call_.type));
  finish(device, data, to);
}

void CollectiveWork::start(ComputeDevice& device, const std::vector<std::byte*>& data, Done done) const {
  copy_own(device, data);
  if (communicator_ == nullptr) {
    copy_through(device, data);
    done(nullptr);
    return;
  }
  CollectiveCall call = call_;
  const bool reduces_in_place = call.op == CollectiveOp::all_reduce || call.op == CollectiveOp::broadcast;
  struct Buffers {
    Buffer send, receive;
  };
  auto buffers = std::make_shared<Buffers>();
  if (reduces_in_place && in_place_) {
    call.receive = data[pairs_[0].in];
  } else if (reduces_in_place) {
    buffers->receive = room(device, receive_, data, false);
    call.receive = buffers->receive.data;
    pack_inputs(device, data, call.receive);
  } else {
    buffers->send = packed_inputs(device, data);
    buffers->receive = room(device, receive_, data, false);
    call.send = buffers->send.data;
    call.receive = buffers->receive.data;
  }
  communicator_->start(std::move(call),
                       [this, &device, buffers, data, done = std::move(done)](const std::exception_ptr& failed) {
                         if (failed == nullptr) finish(device, data, buffers->receive);
                         done(failed);
                       });
}

}  // namespace rehearse
