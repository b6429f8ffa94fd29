#include <numeric>

#include "core/cluster/placement.hpp"
#include "tests/unit/cluster/clusters.hpp"

namespace rehearse {
namespace {

const Cluster& four_nodes() {
  static const Cluster cluster = cluster_of("dgx_h100", 4, "rail_ndr");
  return cluster;
}
std::vector<DeviceId> placed(const std::string& text) { return read_placement(text, "ranks", four_nodes()); }
Error refused(const std::string& text) {
  return error_of([&] { (void)placed(text); });
}

}  // namespace

TEST_CASE("a host file fills the first devices of each node in order") {
  CHECK(placed("node1 slots=2\nnode0 slots=1\n") == std::vector<DeviceId>{8, 9, 0});
  CHECK(placed("# comment\nnode3:2 # MPICH\n\nnode3:1\n") == std::vector<DeviceId>{24, 25, 26});
  std::vector<DeviceId> all(32);
  std::iota(all.begin(), all.end(), 0);
  CHECK(placed("node[0-3]") == all);
  CHECK(placed("node0 slots=8 max_slots=8\nnode[1,2-3] slots=8\n") == all);
}

TEST_CASE("a list names one device a line, by number or by name") {
  CHECK(placed("node1/GPU3\n7\nnode0/GPU0\n") == std::vector<DeviceId>{11, 7, 0});
  CHECK(placed(R"([3, "node2/GPU0", {"node": 1, "gpu": 7}])") == std::vector<DeviceId>{3, 16, 15});
}

TEST_CASE("a rank file may be in any order") {
  CHECK(placed("rank 1=node0 slot=0\nrank 0=node2 slot=5\n") == std::vector<DeviceId>{21, 0});
}

TEST_CASE("mixed machines: devices are counted node by node") {
  Cluster mixed = make_cluster(shipped(), ClusterSpec{.id = {},
                                                      .name = {},
                                                      .parts = {{"pcie4_a10", 2}, {"dgx_a100_80gb", 1}},
                                                      .network = "single_switch",
                                                      .sources = {}});
  CHECK(read_placement("node1\nnode2 slots=1", "ranks", mixed) == std::vector<DeviceId>{4, 5, 6, 7, 8});
}

TEST_CASE("what a placement cannot say is refused with its line") {
  CHECK(refused("node0/GPU1\nnode1/GPU1\n1\n").where == "ranks:3");
  CHECK(std::string(refused("node0/GPU1\n1\n").what()) == "ranks 0 and 1 are both on node0/GPU1");
  CHECK(std::string(refused("rank 0=node0 slot=0\nrank 2=node0 slot=1").what()) == "rank 1 is missing");
  CHECK(std::string(refused("rank 0=node0 slot=0\nrank 0=node0 slot=1").what()) == "rank 0 is named twice");
  CHECK(std::string(refused("node0 slots=9").what()) == "9 slots on node0, which has 8 devices");
  CHECK(std::string(refused("node0 slots=5\nnode0 slots=4").what()) == "9 slots on node0, which has 8 devices");
  CHECK(refused("gpu-a-17 slots=8").hint == "nodes are node0 to node3");
  CHECK(refused("node4").where == "ranks:1");
  CHECK(refused("node0 slots=none").where == "ranks:1");
  CHECK(refused("node0 slots=0").where == "ranks:1");
  CHECK(refused("node0 cpus=8").what() == std::string("'cpus=8' is not understood"));
  CHECK(refused("32").what() == std::string("device 32 does not exist: the cluster has 0 to 31"));
  CHECK(refused("node0/GPU8").hint == "it has GPU0 to GPU7");
  CHECK(refused("node0/GPU1\nnode2 slots=8").where == "ranks:2");
  CHECK(refused("").what() == std::string("the file names no device"));
  CHECK(refused("[]").what() == std::string("no rank has a device"));
  CHECK(refused("[0, -1]").where == "ranks: /1");
  CHECK(refused("[0, 1e300]").where == "ranks: /1");
  CHECK(refused(R"({"node": 0})").where == "ranks: /");
}

}  // namespace rehearse
