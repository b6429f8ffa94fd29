// Bodies that send and receive what crosses a boundary between pipeline stages.

#include <fmt/format.h>

#include "core/base/index.hpp"
#include "core/strategy/bodies/step_bodies.hpp"

namespace rehearse {

namespace {

std::string message_key(const std::string& name, const StepBodies::Passing& what, ExprId peer, bool scatter,
                        StreamId stream) {
  std::string key = fmt::format("{} {} {} {} {}", name, what.edge, peer.index, scatter, stream);
  for (const auto& s : what.skips) key += fmt::format(" {}.{}.{}", s.tensor, s.delta, s.release);
  return key;
}

/// Halos stay where they are: neighbours of the receiving stage fill their own.
int own_part(BodyBuilder& body, int formal) {
  const Tensor& whole = body.tensor(formal);
  if (without_halos(whole.layout) == whole.layout) return formal;
  Tensor own = whole;
  own.name += "@own";
  own.layout = without_halos(own.layout);
  own.alias_of = body.tensor_id(formal);
  own.lifetime = Lifetime::scratch;
  own.per_layer = own.per_microbatch = false;
  const std::string name = own.name;
  return body.scratch(name, body.frame().add_tensor(std::move(own)));
}

}  // namespace

StepBodies::Made StepBodies::send(bool forward, const Passing& what, ExprId peer, bool scatter, StreamId stream) {
  const std::string name = forward ? "send.activations" : "send.gradients";
  const std::string key = message_key(name, what, peer, scatter, stream);
  if (const auto at = made_.find(key); at != made_.end()) return at->second;
  BodyBuilder body(frame_, name, Phase::other);
  const ProgramFrame::Edge& edge = nth(frame_.edges, what.edge);
  int message = body.bound("message", forward ? edge.value : edge.grad, {{}, false, true});
  std::vector<Operand> operands;
  for (const Passing::Carried& s : what.skips)
    operands.push_back(read(own_part(body, body.bound("skip", s.tensor, {{s.delta, 0, 0}, false, s.release}))));
  if (scatter) {
    message =
        body.redistribute(message, with_axis(body.tensor(message).layout, Axis::tp, shard_flat()), name, Phase::other);
  }
  operands.insert(operands.begin(), read(own_part(body, message)));
  P2pTask p2p;
  p2p.direction = P2pTask::Direction::send;
  p2p.group = frame_.group(forward ? "pp.forward" : "pp.backward", {Axis::pp});
  p2p.peer = peer;
  p2p.edge = 2 * what.edge + (forward ? 0 : 1);
  Task task{.name = name,
            .kind = p2p,
            .operands = std::move(operands),
            .stream = stream,
            .phase = Phase::other,
            .predicate = ExprPool::kOne};
  body.add(std::move(task));
  return made_[key] = body.finish();
}

StepBodies::Made StepBodies::receive(bool forward, const Passing& what, ExprId peer, bool scatter, StreamId stream) {
  const std::string name = forward ? "receive.activations" : "receive.gradients";
  const std::string key = message_key(name, what, peer, scatter, stream);
  if (const auto at = made_.find(key); at != made_.end()) return at->second;
  BodyBuilder body(frame_, name, Phase::other);
  const ProgramFrame::Edge& edge = nth(frame_.edges, what.edge);
  const int target = body.bound("message", forward ? edge.value : edge.grad, {{}, true, false});
  int message = own_part(body, target);
  std::vector<Operand> operands;
  for (const Passing::Carried& s : what.skips)
    operands.push_back(write(own_part(body, body.bound("skip", s.tensor, {{s.delta, 0, 0}, true, false}))));
  if (scatter) {
    Tensor slice = body.tensor(target);
    slice.name += "@scattered";
    slice.layout = with_axis(slice.layout, Axis::tp, shard_flat());
    slice.lifetime = Lifetime::scratch;
    slice.per_layer = slice.per_microbatch = false;
    slice.category = MemoryCategory::communication;
    message = body.scratch("message.slice", frame_.add_tensor(std::move(slice)));
  }
  P2pTask p2p;
  p2p.direction = P2pTask::Direction::receive;
  p2p.group = frame_.group(forward ? "pp.forward" : "pp.backward", {Axis::pp});
  p2p.peer = peer;
  operands.insert(operands.begin(), write(message));
  p2p.edge = 2 * what.edge + (forward ? 0 : 1);
  p2p.chunk_delta = forward ? -1 : 1;
  Task task{.name = name,
            .kind = p2p,
            .operands = std::move(operands),
            .stream = stream,
            .phase = Phase::other,
            .predicate = ExprPool::kOne};
  body.add(std::move(task));
  if (scatter) {
    CollectiveTask c;
    c.op = CollectiveOp::all_gather;
    c.group = frame_.group("tp", {Axis::tp});
    Task gather{.name = name + ".all_gather",
                .kind = c,
                .operands = {read(message), write(target)},
                .stream = frame_.tp,
                .phase = Phase::other,
                .predicate = ExprPool::kOne};
    body.add(std::move(gather));
  }
  return made_[key] = body.finish();
}

}  // namespace rehearse
