#include "core/estimate/quick/group_places.hpp"

#include <algorithm>
#include <utility>
#include <vector>

namespace rehearse {

namespace {

bool divides(int a, int b) { return a % b == 0 || b % a == 0; }

}  // namespace

/// Whether tensor-parallel groups, and those that share sequences around them, are neighbours that fill nodes or parts
/// of nodes evenly: those of a sibling of the first few ranks then lie as all do.
bool GroupPlaces::few_tell(const StrategySettings& s) {
  const int node = cluster_.device_count() / cluster_.node_count();
  if (!divides(node, s.tp) || !divides(node, s.tp * s.cp)) return false;
  // Experts' groups take in replicas.
  if (experts_ && (!divides(node, s.tp * s.cp * s.dp) || !pairs_alike())) return false;
  bool tp = s.tp == 1, cp = s.cp == 1, all = true;
  for (const std::string& axis : s.placement) {
    if (axis == "tp")
      tp = true;
    else if (axis == "cp" && (s.cp == 1 || tp))
      cp = true;
    else if (axis != "ep")
      all = all && tp && cp && (!experts_ || axis != "pp" || &axis == &s.placement.back() || s.pp == 1);
  }
  return all && tp && cp && groups_alike(s.tp, 1) && groups_alike(s.cp, s.tp);
}

/// Whether all GPUs of a node have equal links to one another.
bool GroupPlaces::pairs_alike() {
  if (even_node_) return *even_node_;
  constexpr Bytes kSome{16e6};
  const int node = cluster_.device_count() / cluster_.node_count();
  even_node_ = true;
  for (int a = 0; a < node; ++a)
    for (int b = 0; b < node; ++b)
      if (a != b && cost_.collectives().send(kSome, a, b).time != cost_.collectives().send(kSome, 0, 1).time)
        even_node_ = false;
  return *even_node_;
}

/// Whether groups of `size` devices so far apart cost the same wherever they lie in a node: not where GPUs have unequal
/// links to one another.
bool GroupPlaces::groups_alike(int size, int stride) {
  if (size == 1) return true;
  for (const auto& [s, t, alike] : groups_)
    if (s == size && t == stride) return alike;
  constexpr Bytes kSome{16e6};
  const int span = size * stride, node = std::max(span, cluster_.device_count() / cluster_.node_count());
  bool alike = true;
  std::optional<std::pair<Seconds, Seconds>> first;
  for (int begin = 0; begin < node; begin += begin % span + 1 == stride ? span - stride + 1 : 1) {
    std::vector<DeviceId> group;
    for (int i = 0; i < size; ++i) group.push_back(begin + i * stride);
    const CollectiveModel& m = cost_.collectives();
    const std::pair here{m.choose(CollectiveOp::all_reduce, kSome, group).time, m.send(kSome, group[0], group[1]).time};
    if (!first) first = here;
    alike = alike && here == *first;
  }
  groups_.emplace_back(size, stride, alike);
  return alike;
}

}  // namespace rehearse
