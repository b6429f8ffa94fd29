#include "gpu_backend/executor.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <mutex>
#include <set>
#include <stdexcept>
#include <utility>

#include <fmt/format.h>

#include "core/program/body.hpp"
#include "core/units/error.hpp"
#include "gpu_backend/collective_work.hpp"
#include "gpu_backend/counted_exchange.hpp"
#include "gpu_backend/initial.hpp"
#include "gpu_backend/inputs.hpp"
#include "gpu_backend/out_of_memory.hpp"
#include "gpu_backend/plan.hpp"
#include "gpu_backend/repeats.hpp"

namespace rehearse {

namespace {

constexpr std::string_view kZeros = "fill.zeros";
constexpr int kWarmUp = 2;   // Steps before one is recorded: libraries choose, connect and take memory in the first of their calls.

const ComputeTask* compute_of(const Task& task) { return std::get_if<ComputeTask>(&task.kind); }

/// Whether this rank is the first of those that hold the same elements of a tensor within its stage.
bool first_replica(const Program& p, const Tensor& t, const ExprContext& at) {
  for (int a = 0; a < 7; ++a) {
    const auto axis = static_cast<Axis>(a);
    const auto i = static_cast<std::size_t>(a);
    if (axis == Axis::pp || at.extent[i] == 1 || at.coord[i] == 0) continue;
    const AxisLayout l = layout_on(t.layout, axis);
    if (!std::holds_alternative<Shard>(l) && !std::holds_alternative<Halo>(l)) return false;
  }
  (void)p;
  return true;
}

/// Device memory in the Program's types, allocated and freed in order of issue.
class MemoryBook {
 public:
  void add(const Tensor& t, double bytes) {
    if (t.space != MemorySpace::device) return;
    now_[static_cast<std::size_t>(t.category)] += Bytes{bytes};
    total_ += bytes;
    if (total_ > peak_) {
      peak_ = total_;
      at_peak_ = now_;
    }
  }
  void remove(const Tensor& t, double bytes) {
    if (t.space != MemorySpace::device) return;
    now_[static_cast<std::size_t>(t.category)] += Bytes{-bytes};
    total_ -= bytes;
  }
  [[nodiscard]] const CategoryBytes& now() const { return now_; }
  [[nodiscard]] const CategoryBytes& at_peak() const { return at_peak_; }
  [[nodiscard]] Bytes peak() const { return Bytes{peak_}; }

 private:
  CategoryBytes now_{}, at_peak_{};
  double total_ = 0, peak_ = 0;
};

}  // namespace

std::vector<std::string> missing_operators(const Program& program, const ComputeDevice& device) {
  return missing_operators(program, [&](std::string_view name) { return device.find(name) != nullptr; });
}

std::vector<std::string> missing_operators(const Program& program, const std::function<bool(std::string_view)>& has) {
  std::set<std::string> out;
  for (const Body& body : program.bodies)
    for (const auto v : boost::make_iterator_range(boost::vertices(body.graph)))
      if (const ComputeTask* c = compute_of(body.graph[v]); c != nullptr) {
        if (!has(operator_name(*c))) out.insert(operator_name(*c));
        if (c->accumulates && c->accumulate_if != ExprPool::kOne && !has(kZeros)) out.insert(std::string(kZeros));
      }
  return {out.begin(), out.end()};
}

Error lacks(const std::string& device, const std::vector<std::string>& operators) {
  return {ErrorKind::unavailable, fmt::format("device '{}' has no operator {}", device, fmt::join(operators, ", ")), "--device",
          "'rehearse simulate' plays this plan; 'rehearse list strategies' says what runs for real"};
}

struct Executor::Impl {
  const Program& program;
  ComputeDevice& device;
  Transport& transport;
  const DataSource& data;
  ExecutorOptions options;
  RankPlan plan;
  std::vector<std::shared_ptr<Storage>> storage;  ///< By slot; null while it has none.
  MemoryBook memory;
  Observations observed;
  std::int64_t next_step = 0;
  double last_end = 0, moved_before = 0;
  std::unique_ptr<Communicator> control;
  std::array<double, 2> sums{};                   ///< Loss and tokens.
  std::vector<EventPtr> events, events_before;    ///< By instruction, of this step and the one before.
  std::map<std::pair<int, int>, std::unique_ptr<Communicator>> communicators;  ///< By group and stream.
  std::map<std::string, std::unique_ptr<Channel>> channels;
  /// What an instruction does on this device, made once.
  struct Prepared {
    std::string name;   ///< As in traces: body and task.
    const Operator* op = nullptr;
    const Operator* clear = nullptr;   ///< Runs first on what the task would add to, where it overwrites.
    OperatorCall call;
    // What is in flight outlives an executor that fails.
    std::shared_ptr<CollectiveWork> collective;
    std::shared_ptr<CountedExchange> exchange;
    Channel* channel = nullptr;
  };
  std::vector<Prepared> prepared;
  std::string not_replayed;                       ///< Why not, where it was asked for.
  int issued = 0;                                 ///< Steps that were issued task by task.
  std::map<int, std::shared_ptr<Storage>> inputs; ///< By slot, while there is a recording: it reads them where they are.
  std::unique_ptr<Recording> recording;           ///< Goes first: it calls communicators.

  Impl(const Program& p, ComputeDevice& d, Transport& t, const DataSource& source, ExecutorOptions o)
      : program(p), device(d), transport(t), data(source), options(std::move(o)), plan(p, t.rank()) {
    if (const auto missing = missing_operators(p, d); !missing.empty()) throw lacks(d.name(), missing);
    storage.resize(plan.slots().size());
    initialise();
    for (const Instruction& in : plan.step()) prepared.push_back(prepare(in));
    if (transport.ranks() > 1) control = transport.control("losses");
    transport.ready();
    if (options.replay)
      not_replayed = not_repeated_because(plan, {.records_nothing_because = device.records_nothing_because(), .transport_enqueues = transport.enqueues(), .ranks = transport.ranks(),
                                                 .observed_on_host = options.on_update || options.on_route});
  }

  [[nodiscard]] const Tensor& tensor(int id) const { return program.tensors[static_cast<std::size_t>(id)]; }
  [[nodiscard]] ElementType type_of(const StorageSlot& s) const { return stored_as(tensor(s.tensor).dtype, device.numerics()); }

  void take(int slot) {
    const StorageSlot& s = plan.slots()[static_cast<std::size_t>(slot)];
    storage[static_cast<std::size_t>(slot)] = device.allocate(static_cast<std::size_t>(s.elements) * size_of(type_of(s)), tensor(s.tensor).space);
    memory.add(tensor(s.tensor), s.bytes);
  }

  void initialise() {
    const ExprContext at = program.mesh.context(plan.rank());
    for (std::size_t i = 0; i < plan.slots().size(); ++i) {
      const StorageSlot& s = plan.slots()[i];
      if (!s.persistent) continue;
      take(static_cast<int>(i));
      const Tensor& t = tensor(s.tensor);
      try {
        if (begins_as_zeros(t)) device.clear(*storage[i], static_cast<std::size_t>(s.elements) * size_of(type_of(s)));
        else device.write(*storage[i], 0, encoded(initial_values(t, *plan.held_by(s.tensor, at), s.layer, program.seed), type_of(s)));
      } catch (const OutOfMemory& e) {
        throw explained(e, program, plan.rank(), memory.now(), t.name);
      }
    }
  }

  // ---- preparation

  Prepared prepare(const Instruction& in) {
    Prepared out;
    out.name = in.body->name + "/" + in.task->name;
    for (const PlannedOperand& o : in.operands)
      out.call.operands.push_back({nullptr, stored_as(tensor(o.tensor).dtype, device.numerics()), o.access, &tensor(o.tensor), o.held, o.layer});
    out.call.first_sample = program.exprs.evaluate(program.first_sample, in.at);
    if (const ComputeTask* c = compute_of(*in.task)) prepare_compute(in, *c, out);
    if (const auto* c = std::get_if<CollectiveTask>(&in.task->kind)) {
      Communicator* who = communicator(c->group, in.task->stream);
      if (in.values.empty()) out.collective = std::make_shared<CollectiveWork>(plan, in, who, device.numerics());
      else out.exchange = std::make_shared<CountedExchange>(plan, in, who, device.numerics());
    }
    if (const auto* m = std::get_if<P2pTask>(&in.task->kind)) {
      out.channel = channel(*m, in.at);
    }
    if (const auto* task = std::get_if<InputTask>(&in.task->kind)) check_input(program, *task);
    if (std::holds_alternative<ScalarTask>(in.task->kind))
      throw Error(ErrorKind::unavailable, fmt::format("task '{}' cannot be executed yet", in.task->name), "program");
    return out;
  }

  /// Whether a task that adds to its results overwrites them here: the first of those that would.
  [[nodiscard]] bool overwrites(const ComputeTask& c, const ExprContext& at) const { return c.accumulates && program.exprs.evaluate(c.accumulate_if, at) == 0; }

  void prepare_compute(const Instruction& in, const ComputeTask& c, Prepared& out) {
    out.op = device.find(operator_name(c));
    out.call.task = &c;
    if (overwrites(c, in.at)) out.clear = device.find(kZeros);
    for (const ExprId e : c.dims) out.call.dims.push_back(program.exprs.evaluate(e, in.at));
    for (const ExprId e : c.offsets) out.call.offsets.push_back(program.exprs.evaluate(e, in.at));
    out.call.observed = &observed;
    out.call.any_step = {RandomKey(program.seed).with(c.random), static_cast<std::uint64_t>(in.at.layer), static_cast<std::uint64_t>(in.at.pass)};
    if (!in.operands.empty()) out.call.first_replica = first_replica(program, tensor(in.operands[0].tensor), in.at);
  }

  Communicator* communicator(int group, StreamId stream) {
    const GroupSpec& spec = program.groups[static_cast<std::size_t>(group)];
    const std::vector<int> members = program.mesh.members(spec, plan.rank(), program.exprs);
    if (members.size() < 2) return nullptr;
    auto& out = communicators[{group, stream}];
    if (!out) out = transport.communicator(fmt::format("{}#{}@{}", spec.name, group, program.streams[static_cast<std::size_t>(stream)]), members);
    return out.get();
  }

  Channel* channel(const P2pTask& m, const ExprContext& at) {
    const GroupSpec& spec = program.groups[static_cast<std::size_t>(m.group)];
    const std::vector<int> members = program.mesh.members(spec, plan.rank(), program.exprs);
    const int peer = members.at(static_cast<std::size_t>(program.exprs.evaluate(m.peer, at)));
    const bool sends = m.direction == P2pTask::Direction::send;
    const int from = sends ? plan.rank() : peer, to = sends ? peer : plan.rank();
    const std::string name = fmt::format("{}#{}.{}:{}>{}", spec.name, m.group, m.edge, from, to);
    auto& out = channels[name];
    if (!out) out = transport.channel(name, from, to);
    return out.get();
  }

  /// The same number at both ends of a message.
  [[nodiscard]] std::uint64_t label(const P2pTask& m, const Instruction& in) const {
    const MessageEdge& edge = program.edges[static_cast<std::size_t>(m.edge)];
    const auto number = [](std::int64_t x) { return static_cast<std::uint64_t>(x); };
    return RandomKey(number(m.edge)).with(number(in.at.chunk + m.chunk_delta)).with(number(in.at.microbatch + m.microbatch_delta)).with(number(in.at.pass))
        .with(number(edge.per_layer ? in.at.layer + m.layer_delta : 0)).with(number(program.exprs.evaluate(m.tag, in.at))).bits(number(next_step + m.step_delta));
  }

  // ---- a step

  void issue(std::size_t i) {
    const Instruction& in = plan.step()[i];
    for (const int slot : in.allocates) take(slot);
    std::vector<EventPtr> after;
    for (const int a : in.after) after.push_back(events[static_cast<std::size_t>(a)]);
    if (!events_before.empty())
      for (const int a : in.after_previous) after.push_back(events_before[static_cast<std::size_t>(a)]);
    Work work = work_of(in, prepared[i]);
    work.name = prepared[i].name;
    try {
      events[i] = device.submit(in.task->stream, after, std::move(work));
    } catch (const OutOfMemory& e) {
      throw explained(e, program, plan.rank(), memory.now(), prepared[i].name);
    }
    for (const int slot : in.frees) {
      const StorageSlot& s = plan.slots()[static_cast<std::size_t>(slot)];
      storage[static_cast<std::size_t>(slot)].reset();
      memory.remove(tensor(s.tensor), s.bytes);
    }
  }
  void issue_all() {
    for (std::size_t i = 0; i < plan.step().size(); ++i) issue(i);
    ++issued;
  }

  // ---- replaying

  [[nodiscard]] static bool reads_input(const Instruction& in) { return std::holds_alternative<InputTask>(in.task->kind); }

  /// Everything but the inputs, whose storage stays for good: the host writes it before each replay.
  void record() {
    const MemoryBook counted = memory;
    const std::vector<EventPtr> none(plan.step().size());
    events = none, events_before.clear();
    for (const Instruction& in : plan.step())
      if (reads_input(in))
        for (const int slot : in.allocates) {
          take(slot);
          inputs[slot] = storage[static_cast<std::size_t>(slot)];
          (void)inputs[slot]->data();
        }
    recording = device.record([this] {
      for (std::size_t i = 0; i < plan.step().size(); ++i)
        if (!reads_input(plan.step()[i])) issue(i);
    });
    memory = counted;
    events = none;
  }

  /// The step as one piece of work, which every instruction's event stands for.
  void replay() {
    for (const auto& [slot, kept] : inputs) storage[static_cast<std::size_t>(slot)] = kept;
    for (std::size_t i = 0; i < plan.step().size(); ++i)
      if (const Instruction& in = plan.step()[i]; reads_input(in)) {
        Work work = work_of(in, prepared[i]);
        work.name = prepared[i].name;
        (void)device.submit(in.task->stream, {}, std::move(work));
      }
    for (const auto& [slot, kept] : inputs) storage[static_cast<std::size_t>(slot)].reset();
    events.assign(plan.step().size(), device.replay(*recording, next_step));
  }

  /// Storage of the operands, kept alive by whoever holds the list.
  struct Placed {
    std::vector<std::shared_ptr<Storage>> owners;
    std::vector<std::size_t> offsets;
    [[nodiscard]] std::byte* data(std::size_t i) const { return owners[i]->data() + offsets[i]; }
    [[nodiscard]] std::vector<std::byte*> all() const {
      std::vector<std::byte*> out;
      for (std::size_t i = 0; i < owners.size(); ++i) out.push_back(data(i));
      return out;
    }
  };
  Placed placed(const Instruction& in) const {
    Placed out;
    for (const PlannedOperand& o : in.operands) {
      out.owners.push_back(storage[static_cast<std::size_t>(o.slot)]);
      if (!out.owners.back()) throw std::logic_error(fmt::format("rank {}: {}/{} uses '{}' after it was freed", plan.rank(), in.body->name, in.task->name, tensor(o.tensor).name));
      out.offsets.push_back(static_cast<std::size_t>(o.first) * size_of(stored_as(tensor(o.tensor).dtype, device.numerics())));
    }
    return out;
  }

  Work work_of(const Instruction& in, const Prepared& what) {
    Placed at = placed(in);
    const std::int64_t step = next_step;
    if (what.op != nullptr) return {.run = [this, &what, at = std::move(at), step] { compute(what, at, step); }, .start = {}};
    if (what.collective)
      return {.run = {}, .start = [&on = device, made = what.collective, at = std::move(at)](Done done) { made->start(on, at.all(), [made, at, done](std::exception_ptr e) { done(e); }); }};
    if (what.exchange) return exchange(in, what, std::move(at));
    if (what.channel != nullptr) return message(in, what, std::move(at));
    if (std::holds_alternative<InputTask>(in.task->kind)) return {.run = [this, &in, &what, at = std::move(at), step] { input(in, what, at, step); }, .start = {}};
    if (std::holds_alternative<HostTask>(in.task->kind)) return {.run = [] {}, .start = {}};  // A data source hands out what is decoded.
    return {.run = [this, &what, at = std::move(at)] { copy(what, at); }, .start = {}};  // CopyTask
  }

  void compute(const Prepared& what, const Placed& at, std::int64_t step) const {
    OperatorCall call = what.call;
    for (std::size_t i = 0; i < call.operands.size(); ++i) call.operands[i].data = at.data(i);
    call.step = step;
    call.random = call.any_step.at(step);
    if (call.task->op == ComputeOp::optimizer && options.on_update) options.on_update(call);
    if (what.clear != nullptr) {
      OperatorCall fresh = call;
      std::erase_if(fresh.operands, [](const TensorView& x) { return x.access != Access::update; });
      device.execute(*what.clear, fresh);
    }
    device.execute(*what.op, call);
    if (call.task->op == ComputeOp::route && options.on_route) options.on_route(call);
  }

  Work exchange(const Instruction& in, const Prepared& what, Placed at) {
    std::vector<std::shared_ptr<Storage>> counts;
    for (const PlannedOperand& v : in.values) counts.push_back(v.slot < 0 ? nullptr : storage[static_cast<std::size_t>(v.slot)]);
    return {.run = {}, .start = [this, &in, made = what.exchange, counts = std::move(counts), at = std::move(at)](Done done) {
              CountedExchange::Values values(counts.size());
              for (std::size_t d = 0; d < counts.size(); ++d)
                if (counts[d]) {
                  values[d].resize(static_cast<std::size_t>(in.values[d].held->elements()));
                  device.peek(counts[d]->data(), std::as_writable_bytes(std::span(values[d])));
                }
              made->start(device, at.all(), values, [made, at, done](std::exception_ptr e) { done(e); });
            }};
  }

  Work message(const Instruction& in, const Prepared& what, Placed at) {
    const auto& m = std::get<P2pTask>(in.task->kind);
    return {.run = {}, .start = [&on = device, &m, &in, &what, name = label(m, in), at = std::move(at)](Done done) {
              const Done keep = all_of(what.call.operands.size(), [at, done = std::move(done)](std::exception_ptr e) { done(e); });
              for (std::size_t i = 0; i < what.call.operands.size(); ++i) {
                const TensorView& view = what.call.operands[i];
                const std::size_t bytes = static_cast<std::size_t>(view.elements()) * size_of(view.type);
                const bool sends = m.direction == P2pTask::Direction::send;
                if (!in.operands[i].within.empty()) message_inside(on, *what.channel, sends, at.data(i), in.operands[i].within, view, name + i, keep);
                else if (sends) what.channel->send(at.data(i), bytes, name + i, keep);
                else what.channel->receive(at.data(i), bytes, name + i, keep);
              }
            }};
  }

  /// A message of a part of a storage, by way of a buffer.
  static void message_inside(ComputeDevice& device, Channel& channel, bool sends, std::byte* data, const Blocks& blocks, const TensorView& view, std::uint64_t name, const Done& done) {
    const std::size_t bytes = static_cast<std::size_t>(view.elements()) * size_of(view.type);
    const std::shared_ptr<Storage> buffer = device.allocate(bytes);
    if (sends) {
      device.pack_blocks(data, blocks, view.type, buffer->data());
      return channel.send(buffer->data(), bytes, name, [buffer, done](std::exception_ptr failed) { done(failed); });
    }
    channel.receive(buffer->data(), bytes, name, [&device, buffer, data, blocks, type = view.type, done](std::exception_ptr failed) {
      if (failed == nullptr) device.unpack_blocks(buffer->data(), blocks, type, data);
      done(failed);
    });
  }

  /// To be called `n` times: calls `done` with the last, or with the first failure.
  static Done all_of(std::size_t n, Done done) {
    struct Left { std::mutex mutex; std::size_t calls; std::exception_ptr failed; };
    auto left = std::make_shared<Left>();
    left->calls = n;
    return [left, done = std::move(done)](std::exception_ptr failed) {
      {
        const std::lock_guard lock(left->mutex);
        if (!left->failed) left->failed = failed;
        if (--left->calls > 0) return;
      }
      done(left->failed);
    };
  }

  /// Copies between memory spaces: pairs of what is read and written, or one that is divided among several in their order.
  void copy(const Prepared& what, const Placed& at) const {
    const auto& o = what.call.operands;
    const auto bytes = [](const TensorView& x) { return static_cast<std::size_t>(x.elements()) * size_of(x.type); };
    const bool pairs = o.size() < 3 || o[2].access == Access::read;
    const std::byte* from = at.data(0);
    for (std::size_t i = 1; i < o.size(); ++i) {
      if (o[i].access == Access::read) continue;
      if (pairs) from = at.data(i - 1);
      device.copy(at.data(i), from, bytes(o[i]));
      from += bytes(o[i]);
    }
  }

  void input(const Instruction& in, const Prepared& what, const Placed& at, std::int64_t step) const {
    device.put(at.data(0), input_values(program, data, std::get<InputTask>(in.task->kind), what.call.operands.at(0), what.call.first_sample, step));
  }

  [[nodiscard]] double bytes_of(const Prepared& what, const Instruction& in) const {
    if (what.collective) return what.collective->bytes();
    const auto* m = std::get_if<P2pTask>(&in.task->kind);
    if (m == nullptr || m->direction != P2pTask::Direction::send) return 0;
    double bytes = 0;
    for (const PlannedOperand& o : in.operands) bytes += static_cast<double>(o.held->elements()) * size_of(tensor(o.tensor).dtype);
    return bytes;
  }

  /// Over all ranks, while whatever the step left in flight goes on.
  double mean_loss() {
    if (transport.ranks() > 1) {
      sums = {observed.loss_sum, static_cast<double>(observed.tokens)};
      CollectiveCall call;
      call.type = ElementType::real64;
      call.receive = reinterpret_cast<std::byte*>(sums.data());
      call.receive_counts = {static_cast<std::int64_t>(sums.size())};
      call.name = "losses";
      device.wait(device.submit(static_cast<int>(program.streams.size()), {}, {.run = {}, .start = [this, call](Done done) { control->start(call, std::move(done)); }}));
    } else {
      sums = {observed.loss_sum, static_cast<double>(observed.tokens)};
    }
    return sums[1] > 0 ? sums[0] / sums[1] : 0;
  }

  StepResult step(bool one_by_one) {
    StepResult out;
    out.step = next_step;
    observed = {};
    const double begin = last_end > 0 ? last_end : device.now();
    out.replayed = recording != nullptr && !one_by_one;
    if (out.replayed) {
      replay();
    } else {
      events_before = std::move(events);
      events.assign(plan.step().size(), nullptr);
      issue_all();
    }
    for (std::size_t i = 0; i < plan.step().size(); ++i) out.communicated += Bytes{bytes_of(prepared[i], plan.step()[i])};
    for (std::size_t i = plan.step().size(); i-- > 0;)
      if (compute_of(*plan.step()[i].task) != nullptr) {
        device.wait(events[i]);
        break;
      }
    out.loss = mean_loss();
    double moved = 0;
    for (const Prepared& p : prepared)
      if (p.exchange) moved += p.exchange->moved();
    out.communicated += Bytes{moved - std::exchange(moved_before, moved)};
    last_end = device.now();
    out.gradient_norm = std::sqrt(observed.norm_squared);
    out.seconds = last_end - begin;
    out.peak = memory.at_peak();
    out.peak_bytes = memory.peak();
    ++next_step;
    if (options.replay && not_replayed.empty() && !recording && issued >= kWarmUp) {
      drain();
      record();
      last_end = device.now();
    }
    return out;
  }

  void drain() {
    for (const EventPtr& e : events)
      if (e) device.wait(e);
  }
};

Executor::Executor(const Program& program, ComputeDevice& device, Transport& transport, const DataSource& data, ExecutorOptions options)
    : impl_(std::make_unique<Impl>(program, device, transport, data, std::move(options))) {}
Executor::~Executor() = default;

StepResult Executor::step(bool one_by_one) { return impl_->step(one_by_one); }
const std::string& Executor::not_replayed_because() const { return impl_->not_replayed; }
void Executor::drain() { impl_->drain(); }
std::int64_t Executor::next_step() const { return impl_->next_step; }
void Executor::set_next_step(std::int64_t step) { impl_->next_step = step; }

std::vector<Executor::Persistent> Executor::persistent() {
  std::vector<Persistent> out;
  const ExprContext at = impl_->program.mesh.context(impl_->plan.rank());
  for (std::size_t i = 0; i < impl_->plan.slots().size(); ++i) {
    const StorageSlot& s = impl_->plan.slots()[i];
    if (!s.persistent) continue;
    const Tensor& t = impl_->tensor(s.tensor);
    out.push_back({instance_name(t.name, s.layer), &t, impl_->plan.held_by(s.tensor, at), impl_->type_of(s), impl_->storage[i].get()});
  }
  return out;
}

std::vector<Interval> Executor::intervals() const {
  std::vector<Interval> out;
  for (const EventPtr& e : impl_->events) out.push_back(impl_->device.times(e).value_or(Interval{}));
  return out;
}

}  // namespace rehearse
