#include "core/estimate/quick/pass_part.hpp"

#include <algorithm>

#include "core/base/index.hpp"

namespace rehearse {

PassPart part_of(const Body& body) {
  PassPart out;
  for (const auto v : body.graph.vertices()) {
    const Task& task = body.graph[v];
    if (const auto* m = std::get_if<P2pTask>(&task.kind))
      return {m->direction == P2pTask::Direction::send ? PassPart::Kind::send : PassPart::Kind::receive,
              static_cast<int>(v)};
    if (std::holds_alternative<InputTask>(task.kind)) return {PassPart::Kind::input, -1};
    const bool trains = body.phase == Phase::forward || body.phase == Phase::recompute ||
                        body.phase == Phase::input_grad || body.phase == Phase::weight_grad;
    if (trains) out.kind = PassPart::Kind::pass;
  }
  return out;
}

StagePasses::StagePasses(const Program& program, const Schedule& schedule, int stage)
    : splits_(schedule.splits_backward()) {
  for (const ChunkPlacement& c : program.chunks)
    if (c.stage == stage) chunks_.push_back(c);
  if (!splits_) return;
  const int stages = static_cast<int>(program.roles.size());
  const int each = static_cast<int>(program.chunks.size()) / schedule.copies() / stages;
  for (const Slot& s : schedule.order(stage, {stages, each, program.microbatches}))
    if (s.pass == Pass::backward_weight) halves_.insert({s.chunk, s.copy, s.microbatch});
}

std::vector<ChunkPlacement>::const_iterator StagePasses::chunk_of(const Entry& e) const {
  return std::find_if(chunks_.begin(), chunks_.end(),
                      [&](const ChunkPlacement& c) { return c.chunk == e.chunk && c.copy == e.copy; });
}

StagePasses::Place StagePasses::of(const Entry& e, Phase phase) const {
  const auto at = chunk_of(e);
  const bool forward = phase == Phase::forward;
  Place out{forward ? Pass::forward : Pass::backward, static_cast<int>(at - chunks_.begin()), 0};
  if (at == chunks_.end()) return out;
  out.block = forward ? e.layer - at->first_layer : at->last_layer - 1 - e.layer;
  if (!forward && splits_ && halves_.contains({e.chunk, e.copy, e.microbatch}))
    out.pass = phase == Phase::weight_grad ? Pass::backward_weight : Pass::backward_input;
  return out;
}

std::vector<StreamId> side_streams(const Program& program) {
  std::vector<StreamId> out;
  for (std::size_t s = 0; s < program.streams.size(); ++s) {
    const Stream& stream = program.streams[s];
    const bool replicas = stream.role == StreamRole::communication &&
                          (stream.axes.contains(Axis::dp_shard) || stream.axes.contains(Axis::dp_replicate));
    const bool host =
        stream.role == StreamRole::copy || stream.role == StreamRole::copy_out || stream.role == StreamRole::host;
    if (replicas || host) out.push_back(static_cast<StreamId>(s));
  }
  return out;
}

}  // namespace rehearse
