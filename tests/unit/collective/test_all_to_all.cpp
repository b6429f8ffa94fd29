// All-to-all as few flows: every link carries what it carries with a flow per pair.

#include <numeric>

#include "core/base/index.hpp"
#include "core/cluster/fabric.hpp"
#include "core/collective/all_to_all.hpp"
#include "core/collective/traffic.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/small_cluster.hpp"
#include "tests/support/testbed.hpp"

using namespace rehearse;
using namespace rehearse::testing;

namespace {

std::vector<double> loads(const Cluster& cluster, const std::vector<FluidEdge>& edges) {
  std::vector<double> out(static_cast<std::size_t>(cluster.link_count()), 0.0);
  for (const FluidEdge& e : edges)
    for (const LinkId l : cluster.route(e.src, e.dst).links) nth(out, l) += e.bytes.value();
  return out;
}

/// The largest difference between two loads of one link, relative to the busiest link.
double difference(const Cluster& cluster, const std::vector<FluidEdge>& a, const std::vector<FluidEdge>& b) {
  const auto x = loads(cluster, a), y = loads(cluster, b);
  double worst = 0, most = 0;
  for (std::size_t l = 0; l < x.size(); ++l) {
    worst = std::max(worst, std::abs(x[l] - y[l]));
    most = std::max(most, y[l]);
  }
  return worst / most;
}

std::vector<DeviceId> devices(const Cluster& cluster, const std::function<bool(DeviceId)>& member) {
  std::vector<DeviceId> out;
  for (DeviceId d = 0; d < cluster.device_count(); ++d)
    if (member(d)) out.push_back(d);
  return out;
}

struct Choice {
  const char* name;
  std::function<bool(DeviceId)> member;
};

std::vector<Choice> uniform_groups() {
  return {{"every GPU", [](DeviceId) { return true; }},
          {"every other node", [](DeviceId d) { return d / 8 % 2 == 0; }},
          {"one GPU of each node", [](DeviceId d) { return d % 8 == 3; }},
          {"half of each node", [](DeviceId d) { return d % 8 < 4; }}};
}

void check_all(const Cluster& cluster, bool must_be_few) {
  constexpr double kLevels = 3;
  for (const Choice& choice : uniform_groups()) {
    const auto group = devices(cluster, choice.member);
    const GroupLayout g = layout_of(cluster, group);
    INFO(cluster.network().id << ", " << choice.name << ", " << g.ranks << " ranks");
    const auto few = traffic::few_for_all_pairs(cluster, g, Bytes{1e9});
    if (must_be_few) REQUIRE(few.has_value());
    if (!few) continue;
    CHECK(difference(cluster, *few, traffic::all_pairs(g, Bytes{1e9})) < 1e-12);
    const double per_node = static_cast<double>(g.nodes.front().devices.size());
    CHECK(static_cast<double>(few->size()) <= g.ranks * (2 * per_node - 1 + 2 * kLevels));
  }
}

/// Switches in a row: where a message goes depends on both of its ends.
class AllToAllRow final : public SwitchedFabric {
 public:
  using SwitchedFabric::SwitchedFabric;
  [[nodiscard]] int switch_count() const override { return node_count(); }
  [[nodiscard]] std::string switch_name(int i) const override { return "switch" + std::to_string(i); }
  [[nodiscard]] std::string summary() const override { return "a row"; }
  [[nodiscard]] BytesPerSecond bisection() const override { return BytesPerSecond{10e9}; }

 private:
  [[nodiscard]] int leaf_of(const Port& port) const override { return port.node; }
  [[nodiscard]] int trunk_count() const override { return 2 * (node_count() - 1); }
  [[nodiscard]] Trunk trunk(int i) const override {
    return i % 2 == 0 ? Trunk{i / 2, i / 2 + 1, BytesPerSecond{10e9}} : Trunk{i / 2 + 1, i / 2, BytesPerSecond{10e9}};
  }
  void climb(int from, int to, std::uint64_t, std::vector<int>& trunks) const override {
    for (; from < to; ++from) trunks.push_back(2 * from);
    for (; from > to; --from) trunks.push_back(2 * (from - 1) + 1);
  }
};

[[maybe_unused]] const bool registered = fabric_registry().add(
    {"row_of_switches", "for a test", {}, [](const FabricSite& site) { return std::make_unique<AllToAllRow>(site); }});

}  // namespace

TEST_CASE("few flows load every link of every shipped network as all pairs do") {
  const Catalogue catalogue(source_path("topologies"));
  for (const std::string& network : catalogue.names(Catalogue::Kind::network)) {
    const NetworkSpec spec = *catalogue.network(network);
    // Twelve nodes reach every level of a small copy of it.
    NetworkSpec small = spec;
    if (small.kind == "fat_tree")
      small.parameters["nodes_per_leaf"] = 2, small.parameters.erase("ports_per_leaf"),
      small.parameters["leaves_per_pod"] = 2;
    if (small.kind == "rail_optimised") small.parameters["nodes_per_unit"] = 2, small.parameters["units_per_pod"] = 2;
    if (small.kind == "torus") small.parameters = {{"x", 3}, {"y", 2}, {"z", 2}};
    check_all(machines_on(12, small, "dgx_h100"),
              (small.kind == "single_switch" || small.kind == "fat_tree" || small.kind == "rail_optimised") &&
                  !small.parameters.contains("ecmp_paths"));
    check_all(machines_on(12, spec.kind == "torus" ? small : spec, "dgx_a100_80gb"), false);
  }
}

TEST_CASE("few flows are few where leaves hold unlike numbers of ports, and still load links alike") {
  check_all(small_cluster(10, {}, "fat_tree", {{"nodes_per_leaf", 4}, {"oversubscription", 4}}), true);
  check_all(small_cluster(9, {8, 4}, "rail_optimised", {{"nodes_per_unit", 4}, {"levels", 2}}), true);
}

TEST_CASE("few flows are never wrong for uneven groups") {
  const auto cluster = small_cluster(12, {}, "fat_tree", {{"nodes_per_leaf", 3}});
  for (const int missing : {1, 3, 5}) {
    const auto group = devices(cluster, [&](DeviceId d) { return d / 8 != 2 || d % 8 >= missing; });
    const GroupLayout g = layout_of(cluster, group);
    const auto edges = traffic::all_to_all(cluster, g, Bytes{1e9});
    CHECK(difference(cluster, edges, traffic::all_pairs(g, Bytes{1e9})) < 1e-12);
  }
}

TEST_CASE("where routes don't split into a part of either end, every pair is a flow") {
  const auto cluster = small_cluster(12, {}, "row_of_switches");
  const GroupLayout g = layout_of(cluster, devices(cluster, [](DeviceId) { return true; }));
  CHECK_FALSE(traffic::few_for_all_pairs(cluster, g, Bytes{1e9}).has_value());
  CHECK(traffic::all_to_all(cluster, g, Bytes{1e9}).size() == 96 * 95);
}

TEST_CASE("an all-to-all of two thousand ranks is some ten flows a rank, and one too large for the fabric is refused") {
  const auto cluster = small_cluster(256, {}, "rail_optimised", {{"nodes_per_unit", 32}});
  const auto edges =
      traffic::all_to_all(cluster, layout_of(cluster, devices(cluster, [](DeviceId) { return true; })), Bytes{1e9});
  CHECK(edges.size() <= 2048 * 11);
  const auto row = small_cluster(130, {}, "row_of_switches");
  try {
    (void)traffic::all_to_all(row, layout_of(row, devices(row, [](DeviceId) { return true; })), Bytes{1e9});
    FAIL("1,040 ranks in pairs");
  } catch (const Error& e) {
    CHECK(e.kind == ErrorKind::unavailable);
  }
}
