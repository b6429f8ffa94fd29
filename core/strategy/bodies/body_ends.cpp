#include "core/strategy/bodies/body_ends.hpp"

#include <algorithm>
#include <map>

#include "core/base/index.hpp"
#include "core/program/body.hpp"

namespace rehearse {

namespace {

bool uses_bound(const Body& body, const Task& task) {
  return std::any_of(task.operands.begin(), task.operands.end(),
                     [&](const Operand& o) { return nth(body.formals, o.formal).bound; });
}

}  // namespace

BodyEnds ends_of(const Body& body, StreamId home) {
  const TaskGraph& g = body.graph;
  const std::size_t n = g.size();
  std::vector<bool> covered(n, false);
  BodyEnds out;
  std::map<StreamId, bool> stream;  // Whether the stream's latest task is covered: its later ones then are.
  for (std::size_t v = 0; v < n; ++v) {
    bool& mine = stream[g[v].stream];
    mine = mine || g[v].stream == home;
    for (const std::size_t before : g.before(v)) mine = mine || covered[before];
    covered[v] = mine;
    out.opens_elsewhere |= !mine && uses_bound(body, g[v]);
  }
  stream.clear();
  for (std::size_t v = n; v-- > 0;) {
    bool& mine = stream[g[v].stream];
    mine = mine || g[v].stream == home;
    for (const std::size_t after : g.after(v)) mine = mine || covered[after];
    covered[v] = mine;
    out.closes_elsewhere |= !mine && uses_bound(body, g[v]);
  }
  return out;
}

}  // namespace rehearse
