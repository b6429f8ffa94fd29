#include "core/strategy/bodies/segments.hpp"

#include <algorithm>

#include <boost/range/iterator_range.hpp>

#include "core/program/body.hpp"

namespace rehearse {

void cut_at_communication(Body& body, StreamId compute, StreamId exchanges) {
  body.segments.clear();
  const auto vertices = body.graph.vertices();
  const bool only_exchanges =
      std::any_of(vertices.begin(), vertices.end(), [&](auto v) { return body.graph[v].stream == exchanges; });
  bool communicated = false;
  for (const auto v : vertices) {
    const StreamId stream = body.graph[v].stream;
    if (stream == compute && communicated) {
      body.segments.push_back(static_cast<std::int32_t>(v));
      communicated = false;
    } else if (stream != compute && (!only_exchanges || stream == exchanges)) {
      communicated = true;
    }
  }
}

}  // namespace rehearse
