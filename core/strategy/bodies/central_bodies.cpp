#include "core/strategy/bodies/central_bodies.hpp"

#include <fmt/format.h>

#include "core/base/index.hpp"
#include "core/config/settings/strategy.hpp"

namespace rehearse {

CentralBodies::CentralBodies(ProgramFrame& frame, StepBodies& step, const RolePlan& plan)
    : frame_(frame),
      step_(step),
      plan_(plan),
      ranks_(plan.settings.dp),
      group_(frame.group("dp", {Axis::dp_replicate})) {
  for (const BlockTensors& block : plan.blocks) {
    for (const OpSpec& op : block.spec->ops) {
      if (op.kind != OpKind::cross_entropy) continue;
      Tensor slice = nth(frame_.program.tensors, nth(block.value, op.inputs.at(0)));
      slice.name = "outputs";
      slice.lifetime = Lifetime::scratch;
      slice.per_layer = slice.per_microbatch = false;
      slice.alias_of = -1;
      outputs_ = frame_.add_tensor(slice);
      slice.name = "outputs.gathered";
      slice.layout.clear();
      slice.lifetime = Lifetime::step;
      slice.per_microbatch = true;
      gathered_ = frame_.add_tensor(slice);
    }
  }
}

Task CentralBodies::task(const char* name, TaskKind kind, std::vector<Operand> operands, StreamId stream) {
  return {.name = name,
          .kind = std::move(kind),
          .operands = std::move(operands),
          .stream = stream,
          .phase = Phase::other,
          .predicate = ExprPool::kOne};
}

P2pTask CentralBodies::message(bool sends, int peer, int edge, int tag) {
  P2pTask m;
  m.direction = sends ? P2pTask::Direction::send : P2pTask::Direction::receive;
  m.group = group_;
  m.peer = frame_.constant(peer);
  m.edge = edge;
  m.tag = frame_.constant(tag);
  return m;
}

int CentralBodies::edge(MessageKind kind, int tensor) {
  auto& edges = frame_.program.edges;
  for (std::size_t i = 0; i < edges.size(); ++i)
    if (edges[i].kind == kind) return static_cast<int>(i);
  edges.push_back({std::string(name_of(kind)), tensor, false, false, kind});
  return static_cast<int>(edges.size()) - 1;
}

/// In turn after `rank`, so that not all begin with the same one.
std::vector<int> CentralBodies::others(int rank) const {
  std::vector<int> out;
  for (int i = 1; i < ranks_; ++i) out.push_back((rank + i) % ranks_);
  return out;
}

std::vector<Operand> CentralBodies::bound(BodyBuilder& body, const CentralBucket& bucket, bool gradients, Access access,
                                          bool allocate, bool release) {
  std::vector<Operand> out;
  for (const ParamRef& p : bucket.params)
    out.push_back({body.bound(gradients ? "grad" : "param", gradients ? step_.grad_tensor(p) : step_.param_tensor(p),
                              {{p.position - bucket.base, 0, 0}, allocate, release}),
                   access});
  return out;
}

CentralBodies::Made CentralBodies::broadcast(const CentralBucket& bucket, int number, bool owns) {
  const std::string key = fmt::format("broadcast {} {}", number, owns);
  if (const auto at = made_.find(key); at != made_.end()) return at->second;
  BodyBuilder body(frame_, "parameters.broadcast", Phase::optimizer);
  CollectiveTask c;
  c.op = CollectiveOp::broadcast;
  c.group = group_;
  c.root = bucket.owner;
  body.add(task("parameters", c, bound(body, bucket, false, Access::update, !owns, false), frame_.dp));
  return made_[key] = body.finish();
}

CentralBodies::Made CentralBodies::reduce(const CentralBucket& bucket, int number, bool owns) {
  const std::string key = fmt::format("reduce {} {}", number, owns);
  if (const auto at = made_.find(key); at != made_.end()) return at->second;
  BodyBuilder body(frame_, "gradients.reduce", Phase::optimizer);
  CollectiveTask c;
  c.op = CollectiveOp::reduce;
  c.group = group_;
  c.root = bucket.owner;
  c.divisor = frame_.program.exprs.extent(Axis::dp_replicate);
  body.add(task("gradients", c, bound(body, bucket, true, Access::update, false, !owns), frame_.dp));
  return made_[key] = body.finish();
}

CentralBodies::Made CentralBodies::send_parameters(const CentralBucket& bucket, int number) {
  const std::string key = fmt::format("send_parameters {}", number);
  if (const auto at = made_.find(key); at != made_.end()) return at->second;
  BodyBuilder body(frame_, "parameters.send", Phase::optimizer);
  const int e = edge(MessageKind::parameters, step_.param_tensor(bucket.params.front()));
  const std::vector<Operand> operands = bound(body, bucket, false, Access::read, false, false);
  for (const int peer : others(bucket.owner))
    body.add(task("parameters", message(true, peer, e, number), operands, frame_.dp));
  return made_[key] = body.finish();
}

CentralBodies::Made CentralBodies::receive_parameters(const CentralBucket& bucket, int number) {
  const std::string key = fmt::format("receive_parameters {}", number);
  if (const auto at = made_.find(key); at != made_.end()) return at->second;
  BodyBuilder body(frame_, "parameters.receive", Phase::optimizer);
  const int e = edge(MessageKind::parameters, step_.param_tensor(bucket.params.front()));
  body.add(task("parameters", message(false, bucket.owner, e, number),
                bound(body, bucket, false, Access::write, true, false), frame_.dp_replicate));
  return made_[key] = body.finish();
}

CentralBodies::Made CentralBodies::send_gradients(const CentralBucket& bucket, int number) {
  const std::string key = fmt::format("send_gradients {}", number);
  if (const auto at = made_.find(key); at != made_.end()) return at->second;
  BodyBuilder body(frame_, "gradients.send", Phase::optimizer);
  const int e = edge(MessageKind::gradients, step_.grad_tensor(bucket.params.front()));
  body.add(task("gradients", message(true, bucket.owner, e, number),
                bound(body, bucket, true, Access::read, false, true), frame_.dp));
  return made_[key] = body.finish();
}

/// One after the other they come off the owner's wire, and each is added as it arrives.
CentralBodies::Made CentralBodies::receive_gradients(const CentralBucket& bucket, int number) {
  const std::string key = fmt::format("receive_gradients {}", number);
  if (const auto at = made_.find(key); at != made_.end()) return at->second;
  BodyBuilder body(frame_, "gradients.receive", Phase::optimizer);
  const int e = edge(MessageKind::gradients, step_.grad_tensor(bucket.params.front()));
  const std::vector<Operand> sums = bound(body, bucket, true, Access::update, false, false);
  for (const int peer : others(bucket.owner)) {
    std::vector<Operand> received, added = sums;
    for (const Operand& sum : sums) {
      Tensor t = body.tensor(sum.formal);
      t.name += "@received";
      t.lifetime = Lifetime::scratch;
      t.category = MemoryCategory::communication;
      t.per_layer = false;
      t.initial.clear();
      received.push_back(write(body.scratch("received", frame_.add_tensor(std::move(t)))));
      added.push_back(read(received.back().formal));
    }
    body.add(task("gradients", message(false, peer, e, number), received, frame_.dp_replicate));
    ComputeTask add;
    add.op = ComputeOp::add;
    add.accumulates = true;
    body.add(task("accumulate", add, added, frame_.dp_replicate));
  }
  return made_[key] = body.finish();
}

CentralBodies::Made CentralBodies::make_gradients(const std::vector<ParamRef>& params, int base) {
  BodyBuilder body(frame_, "gradients.make", Phase::optimizer);
  const CentralBucket all{params, 0, base, base};
  ComputeTask zeros;
  zeros.op = ComputeOp::fill;
  zeros.variant = "zeros";
  body.compute("zero_gradients", zeros, bound(body, all, true, Access::write, true, false), Phase::optimizer);
  return body.finish();
}

CentralBodies::Made CentralBodies::load_inputs(int block, const std::vector<CentralInput>& inputs) {
  const std::string key = fmt::format("load {}", block);
  if (const auto at = made_.find(key); at != made_.end()) return at->second;
  if (step_.resident())
    throw Error(ErrorKind::usage, "one rank loads for all, through its host's memory", "input.resident",
                "set it to false, or strategy.data_parallel to replicas");
  BodyBuilder body(frame_, "inputs.scatter", Phase::other);
  for (const auto& [id, field] : inputs) {
    std::vector<int> slices{body.bound("slice", id, {{}, true, false})};
    Tensor other = nth(frame_.program.tensors, id);
    other.lifetime = Lifetime::scratch;
    other.per_layer = other.per_microbatch = false;
    for (int i = 1; i < ranks_; ++i) slices.push_back(body.scratch("slice of another", frame_.add_tensor(other)));
    const std::string name = other.name;
    other.name += ".host";
    other.space = MemorySpace::pinned_host;
    other.layout.clear();
    const int host = body.scratch("batch", frame_.add_tensor(other));
    const ExprId samples = step_.samples_read(body.tensor(host), StepBodies::reads_samples(block, field));
    body.add(task("read", InputTask{samples, frame_.program.first_sample, name, field}, {write(host)}, frame_.io));
    if (step_.decodes(StepBodies::reads_samples(block, field)))
      body.add(task("decode", HostTask{"data_loader.decode"}, {update(host)}, frame_.host));
    std::vector<Operand> copied{read(host)};
    for (const int s : slices) copied.push_back(write(s));
    body.add(task("to_device", CopyTask{}, copied, frame_.copies));
    for (int i = 1; i < ranks_; ++i)
      body.add(task("inputs", message(true, i, edge(MessageKind::inputs, id), id), {read(nth(slices, i))}, frame_.dp));
  }
  return made_[key] = body.finish();
}

CentralBodies::Made CentralBodies::receive_inputs(int block, const std::vector<CentralInput>& inputs) {
  const std::string key = fmt::format("inputs {}", block);
  if (const auto at = made_.find(key); at != made_.end()) return at->second;
  BodyBuilder body(frame_, "inputs.receive", Phase::other);
  for (const auto& [id, field] : inputs)
    body.add(task("inputs", message(false, 0, edge(MessageKind::inputs, id), id),
                  {write(body.bound("slice", id, {{}, true, false}))}, frame_.dp));
  return made_[key] = body.finish();
}

CentralBodies::Made CentralBodies::outputs(bool forward, bool first) {
  const std::string key = fmt::format("outputs {} {}", forward, first);
  if (const auto at = made_.find(key); at != made_.end()) return at->second;
  BodyBuilder body(frame_, forward ? "outputs.gather" : "outputs.scatter", Phase::other);
  const int e = edge(forward ? MessageKind::outputs : MessageKind::output_gradients, outputs_);
  const bool sends = forward != first;
  const int all = first ? body.bound("gathered", gathered_, {{}, forward, !forward}) : -1;
  for (int i = 1; i < (first ? ranks_ : 2); ++i) {
    const int operand = first && forward ? all : body.scratch("slice", outputs_);
    body.add(task("outputs", message(sends, first ? i : 0, e, 0), {sends ? read(operand) : write(operand)}, frame_.dp));
  }
  return made_[key] = body.finish();
}

}  // namespace rehearse
