#include "core/strategy/segments.hpp"

#include "core/program/body.hpp"

namespace rehearse {

void cut_at_communication(Body& body, StreamId compute) {
  body.segments.clear();
  const std::size_t n = boost::num_vertices(body.graph);
  for (std::size_t v = 1; v < n; ++v)
    if (body.graph[v].stream == compute && body.graph[v - 1].stream != compute) body.segments.push_back(static_cast<std::int32_t>(v));
}

}  // namespace rehearse
