#include "core/estimate/quick/pass_part.hpp"

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

StreamId stream_of_copies(const Program& program) {
  for (std::size_t s = 0; s < program.streams.size(); ++s) {
    const Stream& stream = program.streams[s];
    if (stream.role == StreamRole::communication && stream.axes.contains(Axis::dp_replicate) &&
        !stream.axes.contains(Axis::dp_shard))
      return static_cast<StreamId>(s);
  }
  return -1;
}

}  // namespace rehearse
