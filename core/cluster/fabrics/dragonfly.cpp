// A dragonfly (J. Kim, W. Dally, S. Scott, D. Abts, ISCA 2008): groups of routers that are all joined inside, and
// groups that are all joined to one another by the global links of their routers. Minimal routes take one global link;
// Valiant's (L. Valiant, SIAM J. Computing 11, 1982) go by way of a third group that a hash chooses, which halves what
// a route can carry and keeps two groups from flooding the links between them.

#include <algorithm>

#include <fmt/format.h>

#include "core/cluster/fabric.hpp"

namespace rehearse {
namespace {

class Dragonfly final : public SwitchedFabric {
 public:
  explicit Dragonfly(const FabricSite& site)
      : SwitchedFabric(site),
        nodes_per_router_(integer_parameter(site, "nodes_per_router", 1)),
        routers_(integer_parameter(site, "routers_per_group", 1)),
        global_per_router_(integer_parameter(site, "global_links", 1)),
        valiant_(integer_parameter(site, "valiant", 0, 0) != 0),
        seed_(static_cast<std::uint64_t>(integer_parameter(site, "seed", 0, 0))) {
    for (const char* needed : {"nodes_per_router", "routers_per_group", "global_links"})
      if (!site.parameters.contains(needed))
        throw Error(ErrorKind::usage, fmt::format("a dragonfly needs the parameter '{}'", needed),
                    "network.parameters");
    long long per_group = 1LL * nodes_per_router_ * routers_;
    auto needed = static_cast<int>((node_count() + per_group - 1) / per_group);
    groups_ = integer_parameter(site, "groups", needed);
    if (groups_ < needed)
      throw Error(ErrorKind::usage,
                  fmt::format("{} groups of {} routers with {} nodes each hold {} nodes, not {}", groups_, routers_,
                              nodes_per_router_, groups_ * per_group, node_count()),
                  "network.parameters.groups");
    if (groups_ > 1)
      between_ = static_cast<int>(std::min<long long>(1LL * routers_ * global_per_router_ / (groups_ - 1), 1'000'000));
    if (groups_ > 1 && between_ < 1)
      throw Error(ErrorKind::usage,
                  fmt::format("routers_per_group({}) * global_links({}) = {} cannot reach {} other groups", routers_,
                              global_per_router_, routers_ * global_per_router_, groups_ - 1),
                  "network.parameters.global_links", "every group needs a global link to every other");
    if (1LL * groups_ * routers_ * (routers_ + global_per_router_) > 100'000'000)
      throw Error(ErrorKind::usage, "a dragonfly of so many links is more than a cluster can hold",
                  "network.parameters");
    BytesPerSecond fastest;
    for (const auto& p : site.parts) fastest = max(fastest, p.rate);
    local_rate_ = fastest * ratio_parameter(site, "local_width", 1);
    global_rate_ = fastest * ratio_parameter(site, "global_width", 1);
  }

  [[nodiscard]] int switch_count() const override { return groups_ * routers_; }
  [[nodiscard]] std::string switch_name(int index) const override {
    return fmt::format("group{}/router{}", index / routers_, index % routers_);
  }
  /// Half of the groups to the other half: every pair of groups has its own global links. With an odd number of groups,
  /// of those below the middle.
  [[nodiscard]] BytesPerSecond bisection() const override {
    if (groups_ == 1) return min(half_of_nics(), local_rate_ * pairs_across(routers_));
    return min(half_of_nics(), global_rate_ * (pairs_across(groups_) * between_));
  }
  [[nodiscard]] std::string summary() const override {
    return fmt::format(
        "dragonfly: {} groups of {} routers with {} nodes each, {} global links between two groups, {} routes", groups_,
        routers_, nodes_per_router_, between_, valiant_ ? "Valiant's" : "minimal");
  }

 private:
  /// Of `n` things, those below the middle paired with the others.
  [[nodiscard]] static double pairs_across(int n) {
    const int below = n / 2;
    return 1.0 * below * (n - below);
  }
  [[nodiscard]] int leaf_of(const Port& port) const override { return port.node / nodes_per_router_; }
  [[nodiscard]] int local_links() const { return groups_ * routers_ * (routers_ - 1); }
  [[nodiscard]] int trunk_count() const override { return local_links() + groups_ * (groups_ - 1) * between_; }

  /// Router that has global link `j` from `group` to `other`.
  [[nodiscard]] int gateway(int group, int other, int j) const {
    int slot = (other < group ? other : other - 1) * between_ + j;
    return group * routers_ + slot / global_per_router_;
  }
  [[nodiscard]] int global_link(int group, int other, int j) const {
    return local_links() + (group * (groups_ - 1) + (other < group ? other : other - 1)) * between_ + j;
  }
  [[nodiscard]] int local_link(int from, int to) const {
    int a = from % routers_, b = to % routers_;
    return from * (routers_ - 1) + (b < a ? b : b - 1);
  }

  [[nodiscard]] Trunk trunk(int index) const override {
    if (index < local_links()) {
      int from = index / (routers_ - 1), b = index % (routers_ - 1);
      if (b >= from % routers_) ++b;
      return {from, from / routers_ * routers_ + b, local_rate_};
    }
    index -= local_links();
    int j = index % between_, pair = index / between_;
    int group = pair / (groups_ - 1), other = pair % (groups_ - 1);
    if (other >= group) ++other;
    return {gateway(group, other, j), gateway(other, group, j), global_rate_};
  }

  void step_inside(int from, int to, std::vector<int>& trunks) const {
    if (from != to) trunks.push_back(local_link(from, to));
  }

  /// To another group: its router where the global link ends, of those with the fewest hops to `to` (-1: anywhere) the
  /// one that `flow` gives.
  int cross(int from, int to, int other, std::uint64_t flow, std::vector<int>& trunks) const {
    int group = from / routers_, best = 0, best_hops = 3;
    for (int i = 0; i < between_; ++i) {
      int j = static_cast<int>((flow + static_cast<std::uint64_t>(i)) % static_cast<std::uint64_t>(between_));
      int hops = (gateway(group, other, j) != from) + (to >= 0 && gateway(other, group, j) != to);
      if (hops < best_hops) best = j, best_hops = hops;
    }
    step_inside(from, gateway(group, other, best), trunks);
    trunks.push_back(global_link(group, other, best));
    return gateway(other, group, best);
  }

  void climb(int from, int to, std::uint64_t flow, std::vector<int>& trunks) const override {
    std::uint64_t hash = mixed(flow ^ mixed(seed_));
    int group = from / routers_, goal = to / routers_;
    if (valiant_ && group != goal && groups_ > 2) {
      auto via = static_cast<int>(hash % static_cast<std::uint64_t>(groups_ - 2));
      for (int taken : {std::min(group, goal), std::max(group, goal)}) via += via >= taken;
      from = cross(from, -1, via, mixed(hash), trunks);
      group = via;
    }
    if (group != goal) from = cross(from, to, goal, hash, trunks);
    step_inside(from, to, trunks);
  }

  int nodes_per_router_, routers_, global_per_router_;
  bool valiant_;
  std::uint64_t seed_;
  int groups_ = 1;
  int between_ = 0;  ///< Global links from one group to another.
  BytesPerSecond local_rate_, global_rate_;
};

std::vector<ParameterHelp> help_dragonfly() {
  return {{"nodes_per_router", "nodes whose NICs are on one router", ""},
          {"routers_per_group", "routers of a group, all joined to each other", ""},
          {"global_links", "links of one router to other groups", ""},
          {"groups", "groups, all joined to each other", "as many as the nodes need"},
          {"local_width", "a link inside a group over a NIC", "1"},
          {"global_width", "a link between groups over a NIC", "1"},
          {"valiant", "1: by way of a third group that a hash chooses; 0: minimal", "0"},
          {"seed", "other seeds are other hashes", "0"}};
}

[[maybe_unused]] const bool registered_dragonfly = fabric_registry().add(
    {"dragonfly", "groups of fully joined routers, fully joined groups; minimal or Valiant's routes", help_dragonfly(),
     [](const FabricSite& site) { return std::make_unique<Dragonfly>(site); }});

}  // namespace
}  // namespace rehearse
