#include "gpu_backend/execute/prepared.hpp"

#include <fmt/format.h>

#include "core/base/index.hpp"
#include "core/program/body.hpp"
#include "gpu_backend/execute/missing_operators.hpp"
#include "gpu_backend/train/inputs.hpp"

namespace rehearse {

namespace {

/// Whether this rank is the first of those that hold the same elements of a tensor within its stage.
bool first_replica(const Tensor& t, const ExprContext& at) {
  for (const Axis axis : {Axis::dp_replicate, Axis::dp_shard, Axis::cp, Axis::tp, Axis::tile_h, Axis::tile_w}) {
    if (nth(at.coord, axis) == 0) continue;
    const AxisLayout l = layout_on(t.layout, axis);
    if (!std::holds_alternative<Shard>(l) && !std::holds_alternative<Halo>(l)) return false;
  }
  return true;
}

}  // namespace

void number_values(const RankPlan& plan, std::span<Prepared> prepared) {
  std::vector<int> held(plan.slots().size(), -1);
  int next = 0;
  for (std::size_t i = 0; i < prepared.size(); ++i) {
    const std::vector<PlannedOperand>& operands = plan.step()[i].operands;
    for (std::size_t o = 0; o < operands.size(); ++o)
      if (operands[o].access == Access::read) prepared[i].call.operands[o].value = nth(held, operands[o].slot);
    for (const PlannedOperand& o : operands)
      if (o.access != Access::read) nth(held, o.slot) = next++;
  }
}

Prepared Preparation::prepare(const Instruction& in) {
  Prepared out;
  out.name = name_of(in);
  for (const PlannedOperand& o : in.operands)
    out.call.operands.push_back(
        {nullptr, stored_as(tensor(o.tensor).dtype, device_.numerics()), o.access, &tensor(o.tensor), o.held, o.layer});
  out.call.first_sample = program_.exprs.evaluate(program_.first_sample, in.at);
  if (const auto* c = std::get_if<ComputeTask>(&in.task->kind)) prepare_compute(in, *c, out);
  if (const auto* c = std::get_if<CollectiveTask>(&in.task->kind)) {
    Communicator* who = communicator(c->group, in.task->stream);
    if (in.values.empty())
      out.collective = std::make_shared<CollectiveWork>(plan_, in, who, device_.numerics());
    else
      out.exchange = std::make_shared<CountedExchange>(plan_, in, who, device_.numerics());
  }
  if (const auto* m = std::get_if<P2pTask>(&in.task->kind)) out.channel = channel(*m, in.at);
  if (const auto* task = std::get_if<InputTask>(&in.task->kind)) check_input(program_, data_, *task);
  if (std::holds_alternative<ScalarTask>(in.task->kind))
    throw Error(ErrorKind::unavailable, fmt::format("task '{}' cannot be executed yet", in.task->name), "program");
  return out;
}

void Preparation::prepare_compute(const Instruction& in, const ComputeTask& c, Prepared& out) const {
  out.op = device_.find(operator_name(c));
  out.call.task = &c;
  // The first of those that would add to their results overwrites them.
  if (c.accumulates && program_.exprs.evaluate(c.accumulate_if, in.at) == 0) out.clear = device_.find(kZeros);
  for (const ExprId e : c.dims) out.call.dims.push_back(program_.exprs.evaluate(e, in.at));
  for (const ExprId e : c.offsets) out.call.offsets.push_back(program_.exprs.evaluate(e, in.at));
  out.call.observed = &observed_;
  out.call.any_step = {RandomKey(program_.seed).with(c.random), static_cast<std::uint64_t>(in.at.layer),
                       static_cast<std::uint64_t>(in.at.pass)};
  if (!in.operands.empty()) out.call.first_replica = first_replica(tensor(in.operands[0].tensor), in.at);
}

Communicator* Preparation::communicator(int group, StreamId stream) {
  const GroupSpec& spec = nth(program_.groups, group);
  const std::vector<int> members = program_.mesh.members(spec, plan_.rank(), program_.exprs);
  if (members.size() < 2) return nullptr;
  auto& out = communicators_[{group, stream}];
  if (!out)
    out =
        transport_.communicator(fmt::format("{}#{}@{}", spec.name, group, nth(program_.streams, stream).name), members);
  return out.get();
}

Channel* Preparation::channel(const P2pTask& m, const ExprContext& at) {
  const GroupSpec& spec = nth(program_.groups, m.group);
  const std::vector<int> members = program_.mesh.members(spec, plan_.rank(), program_.exprs);
  const int peer = members.at(static_cast<std::size_t>(program_.exprs.evaluate(m.peer, at)));
  const bool sends = m.direction == P2pTask::Direction::send;
  const int from = sends ? plan_.rank() : peer, to = sends ? peer : plan_.rank();
  const std::string name = fmt::format("{}#{}.{}:{}>{}", spec.name, m.group, m.edge, from, to);
  auto& out = channels_[name];
  if (!out) out = transport_.channel(name, from, to);
  return out.get();
}

}  // namespace rehearse
