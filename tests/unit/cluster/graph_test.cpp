// The written-out graph against the arithmetic routes, on every generator.

#include <random>

#include <fmt/format.h>
#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/connected_components.hpp>
#include <boost/graph/push_relabel_max_flow.hpp>

#include "core/cluster/cluster_graph.hpp"
#include "tests/unit/cluster/clusters.hpp"

namespace rehearse {
namespace {

std::vector<Cluster> one_of_each() {
  std::vector<Cluster> clusters;
  clusters.push_back(cluster_of("dgx_h100", 6, "single_switch"));
  clusters.push_back(cluster_of("dgx1v", 12, "ib_edr"));
  clusters.push_back(cluster_on("dgx_a100_80gb", 11, "fat_tree", {{"nodes_per_leaf", 2}, {"oversubscription", 4}}));
  clusters.push_back(
      cluster_on("dgx_a100_40gb", 30, "fat_tree", {{"levels", 3}, {"ports_per_leaf", 12}, {"leaves_per_pod", 3}}));
  clusters.push_back(cluster_on("dgx_b200", 9, "rail_optimised", {{"nodes_per_unit", 4}, {"oversubscription", 2}}));
  clusters.push_back(cluster_on("dgx1v", 9, "rail_optimised", {{"nodes_per_unit", 2}}));
  clusters.push_back(
      cluster_on("dgx_h200", 20, "rail_optimised", {{"levels", 3}, {"nodes_per_unit", 2}, {"units_per_pod", 2}}));
  clusters.push_back(cluster_on(
      "dgx_h100", 24, "fat_tree",
      {{"levels", 3}, {"nodes_per_leaf", 2}, {"leaves_per_pod", 3}, {"ecmp_paths", 4}, {"ecmp_core_paths", 2}}));
  clusters.push_back(cluster_on("dgx1v", 12, "torus", {{"x", 4}, {"y", 3}}));
  clusters.push_back(cluster_on("dgx1v", 24, "torus", {{"x", 2}, {"y", 3}, {"z", 4}}));
  clusters.push_back(cluster_on("dgx_h100", 20, "dragonfly",
                                {{"nodes_per_router", 2}, {"routers_per_group", 2}, {"global_links", 3}}));
  clusters.push_back(
      cluster_on("dgx_h100", 20, "dragonfly",
                 {{"nodes_per_router", 2}, {"routers_per_group", 2}, {"global_links", 3}, {"valiant", 1}}));
  clusters.push_back(cluster_of("gb200_nvl72", 2, "nvl72_row"));
  return clusters;
}

using FlowTraits = boost::adjacency_list_traits<boost::vecS, boost::vecS, boost::directedS>;
using FlowGraph = boost::adjacency_list<
    boost::vecS, boost::vecS, boost::directedS, boost::no_property,
    boost::property<boost::edge_capacity_t, long long,
                    boost::property<boost::edge_residual_capacity_t, long long,
                                    boost::property<boost::edge_reverse_t, FlowTraits::edge_descriptor>>>>;

/// Most bytes per second that the graph can carry between two vertices over all paths.
long long max_flow(const ClusterGraph& graph, std::size_t from, std::size_t to) {
  FlowGraph flow(num_vertices(graph));
  auto capacity = get(boost::edge_capacity, flow);
  auto reverse = get(boost::edge_reverse, flow);
  for (auto [e, end] = edges(graph); e != end; ++e) {
    auto there = add_edge(source(*e, graph), target(*e, graph), flow).first;
    auto back = add_edge(target(*e, graph), source(*e, graph), flow).first;
    capacity[there] = static_cast<long long>(graph[*e].rate.value());
    capacity[back] = 0;
    reverse[there] = back;
    reverse[back] = there;
  }
  return boost::push_relabel_max_flow(flow, from, to);
}

std::size_t vertex_of(const ClusterGraph& graph, const Cluster& cluster, DeviceId d) {
  std::string name = fmt::format("node{}/GPU{}", cluster.node_of(d), cluster.local_index(d));
  for (auto [v, end] = vertices(graph); v != end; ++v)
    if (graph[*v].name == name) return *v;
  FAIL(name);
  return 0;
}

}  // namespace

TEST_CASE("every route is a connected walk in the graph from source to destination") {
  for (const Cluster& cluster : one_of_each()) {
    INFO(cluster.summary());
    ClusterGraph graph = cluster.graph();
    std::vector<ClusterGraph::edge_descriptor> edge_of(cluster.link_count());
    for (auto [e, end] = edges(graph); e != end; ++e) edge_of[graph[*e].link] = *e;
    std::mt19937 random(7);
    std::uniform_int_distribution<DeviceId> any(0, cluster.device_count() - 1);
    for (int i = 0; i < 300; ++i) {
      DeviceId src = any(random), dst = any(random);
      auto at = vertex_of(graph, cluster, src);
      for (LinkId id : cluster.route(src, dst).links) {
        REQUIRE(source(edge_of[id], graph) == at);
        at = target(edge_of[id], graph);
      }
      REQUIRE(at == vertex_of(graph, cluster, dst));
    }
  }
}

TEST_CASE("the graph has every link once, with its rate and name") {
  for (const Cluster& cluster : one_of_each()) {
    ClusterGraph graph = cluster.graph();
    CHECK(num_edges(graph) == static_cast<std::size_t>(cluster.link_count()));
    for (auto [e, end] = edges(graph); e != end; ++e) {
      ClusterLink link = cluster.link(graph[*e].link);
      REQUIRE(graph[*e].rate == link.rate);
      std::string from = graph[source(*e, graph)].name, to = graph[target(*e, graph)].name;
      std::string inside = from.substr(0, from.find('/') + 1);
      bool same_node = graph[*e].kind.has_value();
      REQUIRE(link.name == from + ">" + (same_node ? to.substr(inside.size()) : to));
    }
    std::vector<int> component(num_vertices(graph));
    CHECK(boost::connected_components(graph, component.data()) == 1);
  }
}

TEST_CASE("no route beats the graph's maximum flow, and one NIC bounds what a route to another node gets") {
  for (const Cluster& cluster : one_of_each()) {
    INFO(cluster.summary());
    ClusterGraph graph = cluster.graph();
    for (DeviceId dst : {1, 7, 8, cluster.device_count() - 1}) {
      long long most = max_flow(graph, vertex_of(graph, cluster, 0), vertex_of(graph, cluster, dst));
      CHECK(bottleneck(cluster, 0, dst) <= BytesPerSecond{static_cast<double>(most)});
      if (cluster.node_of(dst) > 0) CHECK(bottleneck(cluster, 0, dst) <= cluster.machine(0).nic.rate);
    }
  }
}

TEST_CASE("inside a node the maximum flow is NVLink plus the PCIe slot") {
  Cluster cluster = cluster_of("dgx_h100", 1, "rail_ndr");
  ClusterGraph graph = cluster.graph();
  CHECK(max_flow(graph, vertex_of(graph, cluster, 0), vertex_of(graph, cluster, 1)) ==
        450'000'000'000 + 63'000'000'000);
}

TEST_CASE("a full-bisection fabric carries every NIC of one node at once; an oversubscribed one a fraction") {
  // All eight NICs of node 0 are fed through its NVSwitch: the flow from one GPU is bound by its own links.
  Cluster full = cluster_on("dgx_a100_80gb", 4, "fat_tree", {{"nodes_per_leaf", 1}});
  Cluster thin = cluster_on("dgx_a100_80gb", 4, "fat_tree", {{"nodes_per_leaf", 1}, {"oversubscription", 16}});
  auto across = [](const Cluster& cluster) {
    ClusterGraph graph = cluster.graph();
    return max_flow(graph, vertex_of(graph, cluster, 0), vertex_of(graph, cluster, 31));
  };
  CHECK(across(full) == 8 * 25'000'000'000);
  CHECK(across(thin) == 8 * 25'000'000'000 / 16);
}

}  // namespace rehearse
