// Facts that hold for every generator, found from the registry.

#include <functional>
#include <limits>
#include <set>

#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/dijkstra_shortest_paths.hpp>
#include <boost/graph/push_relabel_max_flow.hpp>

#include "core/base/index.hpp"
#include "core/cluster/cluster_graph.hpp"
#include "tests/unit/cluster/clusters.hpp"

namespace rehearse {
namespace {

constexpr double kNic = 25e9;

struct Sample {
  std::string kind;
  int nodes, nics;
  std::map<std::string, double> parameters;
};

/// At least one of every kind: the test below fails for a kind that is missing. Sizes fill the fabric, so that formulas
/// of bisection are exact.
const std::vector<Sample>& samples() {
  static const std::vector<Sample> all{
      {"single_switch", 6, 2, {}},
      {"fat_tree", 16, 2, {{"nodes_per_leaf", 4}}},
      {"fat_tree", 16, 2, {{"nodes_per_leaf", 4}, {"oversubscription", 4}}},
      {"fat_tree",
       32,
       1,
       {{"levels", 3},
        {"nodes_per_leaf", 4},
        {"leaves_per_pod", 2},
        {"oversubscription", 2},
        {"core_oversubscription", 4}}},
      {"fat_tree", 18, 2, {{"nodes_per_leaf", 4}, {"oversubscription", 3}}},
      {"fat_tree",
       32,
       1,
       {{"levels", 3},
        {"nodes_per_leaf", 4},
        {"leaves_per_pod", 2},
        {"ecmp_paths", 4},
        {"ecmp_core_paths", 2},
        {"core_oversubscription", 7}}},
      {"rail_optimised", 16, 4, {{"nodes_per_unit", 4}}},
      {"rail_optimised", 13, 4, {{"nodes_per_unit", 4}, {"oversubscription", 2}}},
      {"rail_optimised",
       16,
       2,
       {{"levels", 3}, {"nodes_per_unit", 2}, {"units_per_pod", 2}, {"core_oversubscription", 3}, {"ecmp_paths", 2}}},
      {"torus", 32, 1, {{"x", 4}, {"y", 8}}},
      {"torus", 64, 2, {{"x", 4}, {"y", 4}, {"z", 4}, {"link_width", 0.5}}},
      {"torus", 12, 1, {{"x", 3}, {"y", 2}, {"z", 2}}},
      {"dragonfly",
       48,
       1,
       {{"nodes_per_router", 2}, {"routers_per_group", 4}, {"global_links", 2}, {"global_width", 0.25}}},
      {"dragonfly",
       48,
       2,
       {{"nodes_per_router", 2},
        {"routers_per_group", 4},
        {"global_links", 5},
        {"global_width", 0.125},
        {"valiant", 1}}},
  };
  return all;
}

std::unique_ptr<Fabric> build(const Sample& s) {
  NetworkSpec network{.id = "test",
                      .name = {},
                      .kind = s.kind,
                      .parameters = s.parameters,
                      .switch_latency = Seconds{1e-7},
                      .nic_latency = Seconds{1e-6},
                      .port_rate = {},
                      .collectives = {},
                      .sources = {}};
  return make_fabric(network, {{s.nodes, s.nics, BytesPerSecond{kNic}}});
}

/// Vertices: NICs by node, then switches.
int vertex_of(const Sample& s, const FabricEnd& end) {
  return end.fabric_switch >= 0 ? s.nodes * s.nics + end.fabric_switch : end.node * s.nics + end.nic;
}

using Traits = boost::adjacency_list_traits<boost::vecS, boost::vecS, boost::directedS>;
using Graph = boost::adjacency_list<
    boost::vecS, boost::vecS, boost::directedS, boost::no_property,
    boost::property<boost::edge_capacity_t, long long,
                    boost::property<boost::edge_residual_capacity_t, long long,
                                    boost::property<boost::edge_reverse_t, Traits::edge_descriptor,
                                                    boost::property<boost::edge_weight_t, int>>>>>;

void connect(Graph& g, int a, int b, double rate) {
  auto there = add_edge(static_cast<std::size_t>(a), static_cast<std::size_t>(b), g).first,
       back = add_edge(static_cast<std::size_t>(b), static_cast<std::size_t>(a), g).first;
  put(boost::edge_capacity, g, there, std::llround(rate));
  put(boost::edge_capacity, g, back, 0);
  put(boost::edge_reverse, g, there, back);
  put(boost::edge_reverse, g, back, there);
}

bool between_groups(const ClusterLink& link) {  // Of a dragonfly: "group0/router1>group2/router0".
  auto group = [](const std::string& name) { return name.substr(0, name.find('/')); };
  const auto to = link.name.substr(link.name.find('>') + 1);
  return link.name.starts_with("group") && to.starts_with("group") && group(link.name) != group(to);
}

}  // namespace

TEST_CASE("every registered fabric has a sample here") {
  std::set<std::string> sampled;
  for (const auto& s : samples()) sampled.insert(s.kind);
  for (const auto& kind : fabric_registry().names()) CHECK(sampled.contains(kind));
}

TEST_CASE("any fabric: routes are walks from NIC to NIC, and the latency is the sum of the links'") {
  for (const auto& s : samples()) {
    auto fabric = build(s);
    INFO(fabric->summary());
    for (int src = 0; src < s.nodes; src += 3)
      for (int dst = 0; dst < s.nodes; ++dst) {
        if (src == dst) continue;
        std::vector<int> links;
        const Seconds latency = fabric->route(src, 0, dst, s.nics - 1, links);
        int at = vertex_of(s, {.node = src, .nic = 0});
        Seconds sum;
        std::set<int> once(links.begin(), links.end());
        CHECK(once.size() == links.size());
        for (int link : links) {
          auto [from, to] = fabric->ends(link);
          REQUIRE(vertex_of(s, from) == at);
          at = vertex_of(s, to);
          sum += fabric->link(link).latency;
        }
        REQUIRE(at == vertex_of(s, {.node = dst, .nic = s.nics - 1}));
        CHECK(latency.value() == Approx(sum.value()));
      }
  }
}

TEST_CASE("any fabric: every link has a way back of the same rate") {
  for (const auto& s : samples()) {
    auto fabric = build(s);
    INFO(fabric->summary());
    std::map<std::pair<int, int>, double> rate;
    for (int i = 0; i < fabric->link_count(); ++i) {
      auto [from, to] = fabric->ends(i);
      rate[{vertex_of(s, from), vertex_of(s, to)}] += fabric->rate(i).value();
      CHECK(fabric->rate(i) == fabric->link(i).rate);
    }
    for (const auto& [ends, r] : rate) CHECK(rate.at({ends.second, ends.first}) == Approx(r));
  }
}

TEST_CASE(
    "any fabric: the bisection that its formula gives is the most that flows from the first half of the nodes to the "
    "rest") {
  for (const auto& s : samples()) {
    auto fabric = build(s);
    INFO(fabric->summary());
    const int vertices = s.nodes * s.nics + fabric->switch_count();
    Graph graph(static_cast<std::size_t>(vertices + 2));
    for (int i = 0; i < fabric->link_count(); ++i) {
      auto [from, to] = fabric->ends(i);
      connect(graph, vertex_of(s, from), vertex_of(s, to), fabric->rate(i).value());
    }
    for (int node = 0; node < s.nodes; ++node)
      for (int nic = 0; nic < s.nics; ++nic) {
        const int v = vertex_of(s, {.node = node, .nic = nic});
        node < s.nodes / 2 ? connect(graph, vertices, v, kNic) : connect(graph, v, vertices + 1, kNic);
      }
    const auto flow =
        boost::push_relabel_max_flow(graph, static_cast<std::size_t>(vertices), static_cast<std::size_t>(vertices + 1));
    CHECK(fabric->bisection().value() == Approx(static_cast<double>(flow)).epsilon(1e-6));
  }
}

TEST_CASE(
    "any fabric: arithmetic routes are as short as Boost.Graph's; a dragonfly's among those with the fewest global "
    "links; Valiant's at most twice that") {
  for (const auto& s : samples()) {
    auto fabric = build(s);
    INFO(fabric->summary());
    Graph graph(static_cast<std::size_t>(s.nodes * s.nics + fabric->switch_count()));
    auto weight_of = [&](int link) { return between_groups(fabric->link(link)) ? 1000 : 1; };
    for (int i = 0; i < fabric->link_count(); ++i) {
      auto [from, to] = fabric->ends(i);
      put(boost::edge_weight, graph,
          add_edge(static_cast<std::size_t>(vertex_of(s, from)), static_cast<std::size_t>(vertex_of(s, to)), graph)
              .first,
          weight_of(i));
    }
    for (int src = 0; src < s.nodes; src += 5) {
      std::vector<int> distance(num_vertices(graph));
      boost::dijkstra_shortest_paths(graph, static_cast<std::size_t>(vertex_of(s, {.node = src, .nic = 0})),
                                     boost::distance_map(distance.data()));
      for (int dst = 0; dst < s.nodes; ++dst) {
        if (src == dst) continue;
        std::vector<int> links;
        fabric->route(src, 0, dst, 0, links);
        int length = 0;
        for (int link : links) length += weight_of(link);
        const int shortest = nth(distance, vertex_of(s, {.node = dst, .nic = 0}));
        if (s.parameters.contains("valiant"))
          CHECK(length <= 2 * shortest + 4);
        else
          CHECK(length == shortest);
      }
    }
  }
}

TEST_CASE("a hashed tree gives a pair of NICs one path for ever, other pairs others, and another seed another choice") {
  std::map<std::string, double> parameters{{"nodes_per_leaf", 8}, {"ecmp_paths", 8}};
  auto one = build({"fat_tree", 64, 1, parameters}), same = build({"fat_tree", 64, 1, parameters});
  parameters["ecmp_seed"] = 1;
  auto other = build({"fat_tree", 64, 1, parameters});
  std::map<int, int> flows_on;
  int moved = 0;
  for (int src = 0; src < 8; ++src)
    for (int dst = 8; dst < 64; ++dst) {
      std::vector<int> a, b, c;
      one->route(src, 0, dst, 0, a);
      same->route(src, 0, dst, 0, b);
      other->route(src, 0, dst, 0, c);
      CHECK(a == b);
      moved += a != c;
      ++flows_on[a[1]];
    }
  CHECK(flows_on.size() == 8);
  for (const auto& [link, flows] : flows_on) {
    CHECK(flows > 56 / 2);  // 56 of the 448 flows each, were it even.
    CHECK(flows < 56 * 2);
    CHECK(one->rate(link) == BytesPerSecond{kNic});
  }
  CHECK(moved > 448 * 3 / 4);
}

TEST_CASE("Valiant's routes spread what minimal ones pile on the links between two groups") {
  std::map<std::string, double> parameters{{"nodes_per_router", 2}, {"routers_per_group", 4}, {"global_links", 2}};
  auto most_used = [&](double valiant) {
    parameters["valiant"] = valiant;
    // Nine groups of eight nodes, one global link between two.
    auto fabric = build({"dragonfly", 72, 1, parameters});
    std::map<int, int> uses;
    for (int node = 0; node < 8; ++node) {
      std::vector<int> links;
      fabric->route(node, 0, 8 + node, 0, links);
      for (int link : links)
        if (between_groups(fabric->link(link))) ++uses[link];
    }
    int most = 0;
    for (const auto& [link, n] : uses) most = std::max(most, n);
    return most;
  };
  CHECK(most_used(0) == 8);
  CHECK(most_used(1) <= 4);
}

TEST_CASE("parts of a mixed cluster with leaves of their own don't share a leaf, and each is cabled for its NICs") {
  NetworkSpec network{.id = "test",
                      .name = {},
                      .kind = "fat_tree",
                      .parameters = {{"nodes_per_leaf", 4}, {"sections", 1}},
                      .switch_latency = Seconds{1e-7},
                      .nic_latency = Seconds{1e-6},
                      .port_rate = {},
                      .collectives = {},
                      .sources = {}};
  auto fabric = make_fabric(network, {{6, 1, BytesPerSecond{25e9}}, {4, 2, BytesPerSecond{50e9}}});
  auto leaf = [&](NodeId node) {
    std::vector<int> links;
    fabric->route(node, 0, node == 0 ? 1 : 0, 0, links);
    return fabric->ends(links[0]).second.fabric_switch;
  };
  CHECK(leaf(5) == 1);
  CHECK(leaf(6) == 2);
  for (int i = 0; i < fabric->link_count(); ++i) {
    const ClusterLink link = fabric->link(i);
    if (link.name == "leaf0>spine0") CHECK(link.rate == BytesPerSecond{4 * 25e9});
    if (link.name == "leaf2>spine0") CHECK(link.rate == BytesPerSecond{4 * 2 * 50e9});
  }
}

TEST_CASE("sizes that a fabric cannot have are refused with the reason") {
  auto refused = [](const std::string& kind, int nodes, std::map<std::string, double> parameters) {
    return error_of([&] { build({kind, nodes, 1, std::move(parameters)}); });
  };
  CHECK(std::string(refused("torus", 60, {{"x", 4}, {"y", 4}, {"z", 4}}).what()) ==
        "a torus of 4 x 4 x 4 joins 64 nodes, not 60");
  CHECK(refused("torus", 4, {{"x", 4}}).where == "network.parameters");
  CHECK(refused("dragonfly", 64, {{"nodes_per_router", 1}, {"routers_per_group", 2}, {"global_links", 1}}).where ==
        "network.parameters.global_links");
  CHECK(
      refused("dragonfly", 64, {{"nodes_per_router", 1}, {"routers_per_group", 2}, {"global_links", 1}, {"groups", 3}})
          .where == "network.parameters.groups");
  CHECK(refused("fat_tree", 8, {{"nodes_per_leaf", 2}, {"ecmp_core_paths", 2}}).where ==
        "network.parameters.ecmp_core_paths");
  CHECK(refused("fat_tree", 8, {{"nodes_per_leaf", 2}, {"sections", 2}}).where == "network.parameters.sections");
}

}  // namespace rehearse
