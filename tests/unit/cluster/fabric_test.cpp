#include "tests/unit/cluster/clusters.hpp"

namespace rehearse {
namespace {

std::map<std::string, BytesPerSecond> trunk_rates(const Fabric& fabric) {
  std::map<std::string, BytesPerSecond> rates;
  for (int i = 0; i < fabric.link_count(); ++i)
    if (auto [from, to] = fabric.ends(i); from.fabric_switch >= 0 && to.fabric_switch >= 0)
      rates[fabric.link(i).name] = fabric.rate(i);
  return rates;
}

std::unique_ptr<Fabric> fabric_of(const std::string& kind, int nodes, int nics,
                                  std::map<std::string, double> parameters) {
  NetworkSpec network{.id = "test",
                      .name = {},
                      .kind = kind,
                      .parameters = std::move(parameters),
                      .switch_latency = Seconds{1e-7},
                      .nic_latency = Seconds{1e-6},
                      .port_rate = {},
                      .collectives = {},
                      .sources = {}};
  return make_fabric(network, {{nodes, nics, BytesPerSecond{25e9}}});
}

}  // namespace

TEST_CASE("a leaf without oversubscription sends up what comes from below") {
  auto fabric = fabric_of("fat_tree", 8, 2, {{"nodes_per_leaf", 4}});
  auto trunks = trunk_rates(*fabric);
  CHECK(trunks.size() == 4);
  CHECK(trunks.at("leaf0>spine0") == BytesPerSecond{4 * 2 * 25e9});
  CHECK(trunks.at("spine0>leaf1") == BytesPerSecond{4 * 2 * 25e9});
}

TEST_CASE("oversubscription divides the uplinks, between pods again") {
  auto fabric = fabric_of("fat_tree", 64, 1,
                          {{"levels", 3},
                           {"nodes_per_leaf", 4},
                           {"leaves_per_pod", 8},
                           {"oversubscription", 2},
                           {"core_oversubscription", 7}});
  auto trunks = trunk_rates(*fabric);
  CHECK(trunks.at("leaf15>spine1") == BytesPerSecond{4 * 25e9 / 2});
  CHECK(trunks.at("spine0>core").value() == Approx(8 * 4 * 25e9 / 2 / 7));
  CHECK(trunks.size() == 2 * (16 + 2));
  CHECK(fabric->switch_count() == 16 + 2 + 1);
}

TEST_CASE("leaves counted in ports are filled in node order") {
  auto fabric = fabric_of("fat_tree", 5, 8, {{"ports_per_leaf", 20}});
  std::vector<int> links;
  fabric->route(0, 0, 2, 3, links);  // Port 19 is the last of leaf 0, port 20 the first of leaf 1.
  CHECK(links.size() == 2);
  links.clear();
  fabric->route(0, 0, 2, 4, links);
  CHECK(links.size() == 4);
}

TEST_CASE("rails have a leaf each per unit, and equal indices meet after one switch") {
  auto fabric = fabric_of("rail_optimised", 40, 8, {{"nodes_per_unit", 20}});
  CHECK(fabric->has_rails());
  CHECK(fabric->switch_count() == 2 * 8 + 1);
  CHECK(trunk_rates(*fabric).at("unit1/rail7>spine0") == BytesPerSecond{20 * 25e9});
  std::vector<int> links;
  CHECK(fabric->route(0, 3, 19, 3, links).value() == Approx(1.1e-6));
  CHECK(links.size() == 2);
  links.clear();
  CHECK(fabric->route(0, 3, 19, 4, links).value() == Approx(1.3e-6));
  CHECK(links.size() == 4);
  links.clear();
  CHECK(fabric->route(0, 3, 20, 3, links).value() == Approx(1.3e-6));
}

TEST_CASE("a cluster that fits one leaf has no spine") {
  CHECK(fabric_of("fat_tree", 4, 2, {{"nodes_per_leaf", 4}})->switch_count() == 1);
  CHECK(fabric_of("single_switch", 4, 2, {})->link_count() == 16);
  CHECK(fabric_of("rail_optimised", 4, 1, {})->link_count() == 8);
}

TEST_CASE("every registered fabric explains itself and its parameters") {
  CHECK(fabric_registry().names() ==
        std::vector<std::string>{"dragonfly", "fat_tree", "rail_optimised", "single_switch", "torus"});
  for (const auto& entry : fabric_registry().entries()) {
    CHECK_FALSE(entry.summary.empty());
    for (const auto& p : entry.parameters) CHECK_FALSE(p.summary.empty());
  }
  CHECK(fabric_of("fat_tree", 64, 1, {{"nodes_per_leaf", 16}, {"oversubscription", 4}})->summary() ==
        "fat tree: 16 nodes per leaf, 4 leaves, 2 levels, 4:1 at the leaves");
}

TEST_CASE("parameters out of range and unknown names are refused") {
  CHECK(error_of([] { fabric_of("fat_tre", 2, 1, {}); }).hint.find("'fat_tree'") != std::string::npos);
  CHECK(error_of([] { fabric_of("fat_tree", 2, 1, {}); }).where == "network.parameters");
  CHECK(error_of([] {
          fabric_of("fat_tree", 2, 1, {{"nodes_per_leaf", 1}, {"ports_per_leaf", 1}});
        }).where == "network.parameters");
  CHECK(error_of([] {
          fabric_of("fat_tree", 2, 1, {{"nodes_per_leaf", 1.5}});
        }).where == "network.parameters.nodes_per_leaf");
  CHECK(error_of([] { fabric_of("rail_optimised", 2, 1, {{"levels", 4}}); }).where == "network.parameters.levels");
  CHECK(error_of([] {
          fabric_of("rail_optimised", 2, 1, {{"oversubscription", 0}});
        }).where == "network.parameters.oversubscription");
  CHECK(error_of([] {
          fabric_of("rail_optimised", 2, 1, {{"oversubscripton", 2}});
        }).hint.find("'oversubscription'") != std::string::npos);
}

}  // namespace rehearse
