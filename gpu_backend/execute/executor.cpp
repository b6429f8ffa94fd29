#include "gpu_backend/execute/executor.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <stdexcept>
#include <utility>

#include <fmt/format.h>

#include "core/base/index.hpp"
#include "core/program/body.hpp"
#include "gpu_backend/communicate/message.hpp"
#include "gpu_backend/execute/fuse/onto_zeros.hpp"
#include "gpu_backend/execute/fuse/side_by_side.hpp"
#include "gpu_backend/execute/memory_book.hpp"
#include "gpu_backend/execute/missing_operators.hpp"
#include "gpu_backend/execute/out_of_memory.hpp"
#include "gpu_backend/execute/plan.hpp"
#include "gpu_backend/execute/prepared.hpp"
#include "gpu_backend/execute/repeats.hpp"
#include "gpu_backend/train/initial.hpp"
#include "gpu_backend/train/inputs.hpp"

namespace rehearse {

namespace {

// Steps before one is recorded: libraries choose, connect and take memory in the first of their calls.
constexpr int kWarmUp = 2;

/// By number of the parameter: the view of the slice that a rank's optimizer updates.
std::map<int, int> updated_slices(const Program& program) {
  std::map<int, int> out;
  for (std::size_t i = 0; i < program.tensors.size(); ++i) {
    const Tensor& t = program.tensors[i];
    if (t.alias_of >= 0 && t.lifetime == Lifetime::persistent && t.category == MemoryCategory::weights)
      out.emplace(t.alias_of, static_cast<int>(i));
  }
  return out;
}

}  // namespace

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
  ReadByHost read_by_host;
  std::int64_t next_step = 0;
  double last_end = 0, moved_before = 0;
  std::unique_ptr<Communicator> control;
  std::array<double, 2> sums{};                 ///< Loss and tokens.
  std::vector<EventPtr> events, events_before;  ///< By instruction, of this step and the one before.
  Preparation preparation;
  std::vector<Prepared> prepared;
  std::vector<FusedGroup> groups;
  std::vector<int> group_of;  ///< By instruction; -1: done by itself.
  SideBySideStorage beside;
  std::string not_replayed;  ///< Why not, where it was asked for.
  int issued = 0;            ///< Steps that were issued task by task.
  /// By slot, while there is a recording: it reads them where they are.
  std::map<int, std::shared_ptr<Storage>> inputs;
  std::unique_ptr<Recording> recording;  ///< Goes first: it calls communicators.

  Impl(const Program& p, ComputeDevice& d, Transport& t, const DataSource& source, ExecutorOptions o)
      : program(p),
        device(d),
        transport(t),
        data(source),
        options(std::move(o)),
        plan(p, t.rank()),
        preparation(plan, d, t, source, observed) {
    if (const auto missing = missing_operators(p, d); !missing.empty()) throw lacks(d.name(), missing);
    storage.resize(plan.slots().size());
    initialise();
    for (const Instruction& in : plan.step()) prepared.push_back(preparation.prepare(in));
    number_values(plan, prepared);
    for (Prepared& task : prepared) task.call.read = &read_by_host;
    find_groups();
    for (Prepared& task : prepared)
      if (task.op != nullptr) device.prepare(*task.op, task.call);
    if (transport.ranks() > 1) control = transport.control("losses");
    transport.ready();
    if (options.replay)
      not_replayed = not_repeated_because(plan, {.records_nothing_because = device.records_nothing_because(),
                                                 .transport_enqueues = transport.enqueues(),
                                                 .ranks = transport.ranks(),
                                                 .observed_on_host = options.on_update || options.on_route});
  }

  [[nodiscard]] const Tensor& tensor(int id) const { return nth(program.tensors, id); }
  [[nodiscard]] ElementType type_of(const StorageSlot& s) const {
    return stored_as(tensor(s.tensor).dtype, device.numerics());
  }

  void find_groups() {
    group_of.assign(plan.step().size(), -1);
    if (!options.fuse || device.fusions().empty()) return;
    const std::vector<bool> fresh = adds_to_zeros(plan);
    for (std::size_t i = 0; i < prepared.size(); ++i) prepared[i].call.onto_zeros = fresh[i];
    groups = fused_groups(plan, prepared, device.fusions());
    if (options.on_update) std::erase_if(groups, [&](const FusedGroup& g) { return updates(g); });
    for (std::size_t g = 0; g < groups.size(); ++g)
      for (const int m : groups[g].members) nth(group_of, m) = static_cast<int>(g);
    beside = SideBySideStorage(side_by_side(plan, prepared, groups));
    for (std::size_t i = 0; i < prepared.size(); ++i)
      for (std::size_t o = 0; o < prepared[i].call.operands.size(); ++o)
        prepared[i].call.operands[o].apart = beside.apart(plan.step()[i].operands[o].slot);
  }
  /// Whether somebody wants to see the operands of one of its tasks.
  [[nodiscard]] bool updates(const FusedGroup& g) const {
    return std::any_of(g.members.begin(), g.members.end(),
                       [&](int m) { return nth(prepared, m).call.task->op == ComputeOp::optimizer; });
  }

  void take(int slot) {
    const StorageSlot& s = nth(plan.slots(), slot);
    const std::size_t each = size_of(type_of(s));
    nth(storage, slot) = beside.apart(slot) > 0
                             ? beside.take(slot, each, device)
                             : device.allocate(static_cast<std::size_t>(s.elements) * each, tensor(s.tensor).space);
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
        if (begins_as_zeros(t))
          device.clear(*storage[i], static_cast<std::size_t>(s.elements) * size_of(type_of(s)));
        else
          write_initial_values(
              t, *plan.held_by(s.tensor, at), s.layer, program.seed, type_of(s),
              [&](std::size_t offset, std::span<const std::byte> bytes) { device.write(*storage[i], offset, bytes); });
      } catch (const OutOfMemory& e) {
        throw explained(e, program, plan.rank(), memory.now(), t.name);
      }
    }
  }

  /// The same number at both ends of a message.
  [[nodiscard]] std::uint64_t label(const Instruction& in) const {
    const auto& m = std::get<P2pTask>(in.task->kind);
    const MessageEdge& edge = nth(program.edges, m.edge);
    const auto number = [](std::int64_t x) { return static_cast<std::uint64_t>(x); };
    return RandomKey(number(m.edge))
        .with(number(in.at.chunk + m.chunk_delta))
        .with(number(in.at.microbatch + m.microbatch_delta))
        .with(number(in.at.pass))
        .with(number(edge.per_layer ? in.at.layer + m.layer_delta : 0))
        .with(number(program.exprs.evaluate(m.tag, in.at)))
        .bits(number(next_step + m.step_delta));
  }

  // ---- a step

  void issue(std::size_t i) {
    const Instruction& in = plan.step()[i];
    for (const int slot : in.allocates) take(slot);
    std::vector<EventPtr> after;
    for (const int a : in.after) after.push_back(nth(events, a));
    if (!events_before.empty())
      for (const int a : in.after_previous) after.push_back(nth(events_before, a));
    if (group_of[i] < 0)
      events[i] = submit(i, after, work_of(in, prepared[i]));
    else
      issue_in_group(i, after);
    for (const int slot : in.frees) {
      const StorageSlot& s = nth(plan.slots(), slot);
      nth(storage, slot).reset();
      memory.remove(tensor(s.tensor), s.bytes);
    }
  }
  EventPtr submit(std::size_t i, const std::vector<EventPtr>& after, Work work) {
    work.name = prepared[i].name;
    try {
      return device.submit(plan.step()[i].task->stream, after, std::move(work));
    } catch (const OutOfMemory& e) {
      throw explained(e, program, plan.rank(), memory.now(), prepared[i].name);
    }
  }

  /// Kept until the last of the group comes, with the storage that the task would have used by now.
  void issue_in_group(std::size_t i, const std::vector<EventPtr>& after) {
    const FusedGroup& group = nth(groups, group_of[i]);
    if (static_cast<int>(i) == group.members.front()) late[group_of[i]] = {};
    Late& tasks = late.at(group_of[i]);
    for (const EventPtr& e : after)
      if (e) tasks.after.push_back(e);
    tasks.at.push_back(placed(plan.step()[i]));
    if (static_cast<int>(i) != group.members.back()) return;
    const std::int64_t step = next_step;
    const EventPtr done =
        submit(static_cast<std::size_t>(group.members.front()), tasks.after,
               {.run = [this, &group, at = std::move(tasks.at), step] { compute(group, at, step); }, .start = {}});
    for (const int m : group.members) nth(events, m) = done;
    late.erase(group_of[i]);
  }

  void issue_all() {
    late.clear();
    read_by_host.clear();
    for (std::size_t i = 0; i < plan.step().size(); ++i) issue(i);
    ++issued;
  }

  // ---- replaying

  /// Everything but the inputs, whose storage stays for good: the host writes it before each replay.
  void record() {
    const MemoryBook counted = memory;
    const std::vector<EventPtr> none(plan.step().size());
    events = none, events_before.clear();
    for (const Instruction& in : plan.step()) {
      if (reads_input(in))
        for (const int slot : in.allocates) {
          take(slot);
          inputs[slot] = nth(storage, slot);
          (void)inputs[slot]->data();
        }
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
    for (const auto& [slot, kept] : inputs) nth(storage, slot) = kept;
    for (std::size_t i = 0; i < plan.step().size(); ++i)
      if (const Instruction& in = plan.step()[i]; reads_input(in)) {
        Work work = work_of(in, prepared[i]);
        work.name = prepared[i].name;
        (void)device.submit(in.task->stream, {}, std::move(work));
      }
    for (const auto& [slot, kept] : inputs) nth(storage, slot).reset();
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
  /// Tasks of groups whose last has not come yet, by group.
  struct Late {
    std::vector<Placed> at;
    std::vector<EventPtr> after;
  };
  std::map<int, Late> late;

  Placed placed(const Instruction& in) const {
    Placed out;
    for (const PlannedOperand& o : in.operands) {
      out.owners.push_back(nth(storage, o.slot));
      if (!out.owners.back())
        throw std::logic_error(
            fmt::format("rank {}: {} uses '{}' after it was freed", plan.rank(), name_of(in), tensor(o.tensor).name));
      out.offsets.push_back(static_cast<std::size_t>(o.first) *
                            size_of(stored_as(tensor(o.tensor).dtype, device.numerics())));
    }
    return out;
  }

  Work work_of(const Instruction& in, const Prepared& what) {
    Placed at = placed(in);
    const std::int64_t step = next_step;
    if (what.op != nullptr)
      return {.run = [this, &what, at = std::move(at), step] { compute(what, at, step); }, .start = {}};
    if (what.collective)
      return {.run = {}, .start = [&on = device, made = what.collective, at = std::move(at)](const Done& done) {
                made->start(on, at.all(), [made, at, done](std::exception_ptr e) { done(std::move(e)); });
              }};
    if (what.exchange) return exchange(in, what, std::move(at));
    if (what.channel != nullptr) return message(in, what, std::move(at));
    if (std::holds_alternative<InputTask>(in.task->kind))
      return {.run = [this, &in, &what, at = std::move(at), step] { input(in, what, at, step); }, .start = {}};
    // A data source hands out what is decoded.
    if (std::holds_alternative<HostTask>(in.task->kind)) return {.run = [] {}, .start = {}};
    return {.run = [this, &what, at = std::move(at)] { copy(what, at); }, .start = {}};  // CopyTask
  }

  void compute(const FusedGroup& group, const std::vector<Placed>& at, std::int64_t step) const {
    std::vector<FusedCall> calls = group.calls(prepared);
    for (std::size_t m = 0; m < calls.size(); ++m) {
      FusedCall& one = calls[m];
      for (std::size_t i = 0; i < one.call.operands.size(); ++i)
        if (!one.unseen[i]) one.call.operands[i].data = at[m].data(i);
      one.call.step = step;
      one.call.random = one.call.any_step.at(step);
    }
    device.execute(*group.how, calls);
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
    for (const PlannedOperand& v : in.values) counts.push_back(v.slot < 0 ? nullptr : nth(storage, v.slot));
    return {
        .run = {},
        .start = [this, &in, made = what.exchange, counts = std::move(counts), at = std::move(at)](const Done& done) {
          CountedExchange::Values values(counts.size());
          for (std::size_t d = 0; d < counts.size(); ++d)
            if (counts[d]) {
              values[d].resize(static_cast<std::size_t>(in.values[d].held->elements()));
              device.peek(counts[d]->data(), std::as_writable_bytes(std::span(values[d])));
            }
          made->start(device, at.all(), values, [made, at, done](std::exception_ptr e) { done(std::move(e)); });
        }};
  }

  Work message(const Instruction& in, const Prepared& what, Placed at) {
    const bool sends = std::get<P2pTask>(in.task->kind).direction == P2pTask::Direction::send;
    return {.run = {}, .start = [&on = device, &in, &what, sends, name = label(in), at = std::move(at)](Done done) {
              std::vector<MessagePart> parts;
              for (std::size_t i = 0; i < what.call.operands.size(); ++i)
                parts.push_back({at.data(i), &what.call.operands[i], &in.operands[i].within});
              start_message(on, *what.channel, sends, parts, name,
                            [at, done = std::move(done)](std::exception_ptr e) { done(std::move(e)); });
            }};
  }

  /// Copies between memory spaces: pairs of what is read and written, or one that is divided among several in their
  /// order.
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
    device.put(at.data(0), input_values(program, data, std::get<InputTask>(in.task->kind), what.call.operands.at(0),
                                        what.call.first_sample, step));
  }

  [[nodiscard]] double bytes_of(const Prepared& what, const Instruction& in) const {
    if (what.collective) return what.collective->bytes();
    const auto* m = std::get_if<P2pTask>(&in.task->kind);
    if (m == nullptr || m->direction != P2pTask::Direction::send) return 0;
    double bytes = 0;
    for (const PlannedOperand& o : in.operands)
      bytes += static_cast<double>(o.held->elements()) * size_of(tensor(o.tensor).dtype);
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
      device.wait(
          device.submit(static_cast<int>(program.streams.size()), {},
                        {.run = {}, .start = [this, call](Done done) { control->start(call, std::move(done)); }}));
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
    for (std::size_t i = 0; i < plan.step().size(); ++i)
      out.communicated += Bytes{bytes_of(prepared[i], plan.step()[i])};
    for (std::size_t i = plan.step().size(); i-- > 0;)
      if (computes(plan.step()[i])) {
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

Executor::Executor(const Program& program, ComputeDevice& device, Transport& transport, const DataSource& data,
                   ExecutorOptions options)
    : impl_(std::make_unique<Impl>(program, device, transport, data, std::move(options))) {}
Executor::~Executor() = default;

StepResult Executor::step(bool one_by_one) { return impl_->step(one_by_one); }
const std::string& Executor::not_replayed_because() const { return impl_->not_replayed; }
void Executor::drain() { impl_->drain(); }
std::int64_t Executor::next_step() const { return impl_->next_step; }
const std::vector<FusedGroup>& Executor::groups() const { return impl_->groups; }
const std::vector<SlotsSideBySide>& Executor::beside() const { return impl_->beside.all(); }
void Executor::set_next_step(std::int64_t step) { impl_->next_step = step; }

std::vector<Executor::Persistent> Executor::persistent() {
  std::vector<Persistent> out;
  const ExprContext at = impl_->program.mesh.context(impl_->plan.rank());
  const std::map<int, int> slices = updated_slices(impl_->program);
  for (std::size_t i = 0; i < impl_->plan.slots().size(); ++i) {
    const StorageSlot& s = impl_->plan.slots()[i];
    if (!s.persistent) continue;
    const Tensor& t = impl_->tensor(s.tensor);
    const Held* held = impl_->plan.held_by(s.tensor, at);
    const auto slice = slices.find(s.tensor);
    const Run own = slice == slices.end() ? Run{0, held->elements()} : impl_->plan.held_by(slice->second, at)->flat;
    out.push_back({instance_name(t.name, s.layer), &t, s.layer, held, own, impl_->type_of(s), impl_->storage[i].get()});
  }
  return out;
}

std::vector<Interval> Executor::intervals() const {
  std::vector<Interval> out;
  for (const EventPtr& e : impl_->events) out.push_back(impl_->device.times(e).value_or(Interval{}));
  for (const FusedGroup& g : impl_->groups)
    for (const int m : g.members)
      if (m != g.members.front()) nth(out, m).begin = nth(out, m).end;
  return out;
}

}  // namespace rehearse
