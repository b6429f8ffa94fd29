#include "gpu_backend/execute/spans.hpp"

#include "core/base/index.hpp"
#include "core/price/cost_model.hpp"
#include "core/program/body.hpp"

namespace rehearse {

namespace {

void describe_communication(Span& span, const RankPlan& plan, const Instruction& in) {
  const Program& p = plan.program();
  if (const auto* c = std::get_if<CollectiveTask>(&in.task->kind)) {
    const GroupSpec& group = nth(p.groups, c->group);
    span.kind = SpanKind::collective;
    span.group = group.name;
    span.collective = name_of(c->op);
    span.group_size = p.mesh.group_size(group, plan.rank(), p.exprs);
    span.bytes = CostModel::collective_bytes(p, *in.task, *in.body, in.at);
  } else if (const auto* m = std::get_if<P2pTask>(&in.task->kind)) {
    const bool sends = m->direction == P2pTask::Direction::send;
    span.kind = sends ? SpanKind::send : SpanKind::receive;
    span.group = "pp";
    span.collective = sends ? "send" : "recv";
    span.group_size = 2;
    span.peer = p.mesh.members(nth(p.groups, m->group), plan.rank(), p.exprs)
                    .at(static_cast<std::size_t>(p.exprs.evaluate(m->peer, in.at)));
    span.bytes = Bytes{p.local_bytes(nth(p.tensors, in.operands.at(0).tensor), in.at)};
  }
  span.category = category_of_stream(p, in.task->stream);
}

}  // namespace

Span span_of(const RankPlan& plan, const Instruction& in, const Interval& when) {
  const Program& p = plan.program();
  Span span;
  span.rank = plan.rank();
  span.stream = in.task->stream;
  span.name = name_of(in);
  span.begin = Seconds{when.begin};
  span.end = Seconds{when.end};
  span.layer = in.entry->layer;
  span.chunk = in.entry->chunk;
  if (in.body->phase != Phase::optimizer) span.microbatch = in.entry->microbatch;
  span.backward =
      in.body->phase == Phase::input_grad || in.body->phase == Phase::weight_grad || in.body->phase == Phase::recompute;
  span.weight_gradients = in.body->phase == Phase::weight_grad;
  if (std::holds_alternative<ComputeTask>(in.task->kind)) {
    span.category = in.body->phase == Phase::optimizer ? TimeCategory::optimizer : TimeCategory::matmul;
  } else if (std::holds_alternative<InputTask>(in.task->kind) || std::holds_alternative<CopyTask>(in.task->kind)) {
    span.kind = std::holds_alternative<InputTask>(in.task->kind) ? SpanKind::input : SpanKind::copy;
    span.category = category_of_stream(p, in.task->stream);
  } else {
    describe_communication(span, plan, in);
  }
  return span;
}

}  // namespace rehearse
