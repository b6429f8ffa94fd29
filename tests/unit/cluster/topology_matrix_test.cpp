#include "core/cluster/topology_matrix.hpp"
#include "core/cluster/drawing.hpp"
#include "tests/unit/cluster/clusters.hpp"

namespace rehearse {
namespace {

/// Cells of a row, joined by spaces.
std::string row(const TopologyMatrix& m, std::size_t device) {
  std::string text;
  for (std::size_t b = 0; b < m.devices.size(); ++b) text += (b ? " " : "") + m.text(device, b);
  return text;
}

}  // namespace

TEST_CASE("DGX-1V as nvidia-smi shows it: NVLinks of the hybrid cube mesh, PCIe where there are none") {
  auto m = topology_matrix(*shipped().machine("dgx1v"));
  CHECK(row(m, 0) == "X NV1 NV1 NV2 NV2 SYS SYS SYS PIX NODE SYS SYS");
  CHECK(row(m, 7) == "SYS SYS SYS NV1 NV2 NV1 NV2 X SYS SYS NODE PIX");
  CHECK(m.devices[0].cores == "0-19,40-59");
  CHECK(m.devices[4].numa == 1);
}

TEST_CASE("behind NVSwitches all GPUs share their NVLinks; on two boards too") {
  auto h100 = topology_matrix(*shipped().machine("dgx_h100"));
  CHECK(row(h100, 5) == "NV18 NV18 NV18 NV18 NV18 X NV18 NV18 SYS SYS SYS SYS NODE PIX NODE NODE");
  auto dgx2 = topology_matrix(*shipped().machine("dgx2"));
  CHECK(dgx2.text(0, 15) == "NV6");
  CHECK(dgx2.text(0, 16) == "PIX");  // Each NIC is next to two GPUs, and one switch further from two more.
  CHECK(dgx2.text(0, 17) == "PXB");
}

TEST_CASE("cards on the root ports of one host bridge are PHB, of several NODE, of two sockets SYS") {
  CHECK(topology_matrix(*shipped().machine("rtx4090_2x")).text(0, 1) == "PHB");
  auto four = topology_matrix(*shipped().machine("pcie4_a10"));
  CHECK(four.text(0, 1) == "NODE");
  CHECK(four.text(0, 2) == "SYS");
}

TEST_CASE("a rack is shown as one of its hosts") {
  auto m = topology_matrix(*shipped().machine("gb200_nvl72"));
  CHECK(m.devices.size() == 4 + 4);
  CHECK(row(m, 2) == "NV18 NV18 X NV18 SYS SYS NODE NODE");
}

TEST_CASE("every shipped machine: the matrix is symmetric, only the diagonal is X, and every GPU has a CPU") {
  for (const auto& id : shipped().names(Catalogue::Kind::machine)) {
    INFO(id);
    auto m = topology_matrix(*shipped().machine(id));
    for (std::size_t a = 0; a < m.devices.size(); ++a) {
      CHECK((m.devices[a].is_nic || m.devices[a].numa >= 0));
      for (std::size_t b = 0; b < m.devices.size(); ++b) {
        CHECK(m.text(a, b) == m.text(b, a));
        CHECK((m.text(a, b) == "X") == (a == b));
      }
    }
  }
}

TEST_CASE("a drawing has every vertex and every pair of links once; a large cluster one box per node") {
  Cluster small = cluster_of("dgx_h100", 2, "rail_ndr");
  std::string dot = dot_text(small);
  auto count = [&dot](const std::string& what) {
    int n = 0;
    for (auto at = dot.find(what); at != std::string::npos; at = dot.find(what, at + 1)) ++n;
    return n;
  };
  CHECK(count("subgraph") == 2);
  CHECK(count(" -- ") == small.link_count() / 2);
  CHECK(count("450 GB/s") == 16);
  Cluster large = cluster_of("dgx_h100", 64, "rail_ndr");
  dot = dot_text(large);
  CHECK(count("box3d") == 64);
  CHECK(count("subgraph") == 0);
  CHECK(error_of([] { (void)dot_text(cluster_of("dgx_h100", 2000, "rail_ndr_3level")); }).hint.find("one machine") !=
        std::string::npos);
}

TEST_CASE("without PXN a message for another rail leaves through the sender's own NIC") {
  auto changed = std::make_shared<MachineSpec>(*shipped().machine("dgx_h100"));
  changed->pxn = false;
  Cluster cluster("test", {{changed, shipped().gpu(changed->gpu), 2}}, *shipped().network("rail_ndr"));
  CHECK(route_text(cluster, 0, 8 + 3) ==
        "node0/GPU0>PLX0 node0/PLX0>NIC0 node0/NIC0>unit0/rail0 unit0/rail0>spine0 spine0>unit0/rail3 "
        "unit0/rail3>node1/NIC3 "
        "node1/NIC3>PLX3 node1/PLX3>GPU3");
}

TEST_CASE("between racks a message leaves through the NIC of its own tray, inside one by NVLink whatever the tray") {
  Cluster cluster = cluster_of("gb200_nvl72", 2, "nvl72_row");
  CHECK(route_text(cluster, 0, 71) == "node0/GPU0>NVSwitch0 node0/NVSwitch0>GPU71");
  CHECK(bottleneck(cluster, 0, 71) == BytesPerSecond{900e9});
  CHECK(
      route_text(cluster, 5, 72 + 5) ==
      "node0/GPU5>CPU2 node0/CPU2>NIC5 node0/NIC5>unit0/rail5 unit0/rail5>node1/NIC5 node1/NIC5>CPU2 node1/CPU2>GPU5");
}

TEST_CASE("ranks on CPU sockets reach each other and the network through their own memory") {
  Cluster cluster = cluster_of("cpu_2s_epyc_7742", 2, "single_switch");
  CHECK(cluster.device_count() == 4);
  CHECK(route_text(cluster, 0, 1) == "node0/Socket0>CPU0 node0/CPU0>CPU1 node0/CPU1>Socket1");
  CHECK(bottleneck(cluster, 1, 2) == BytesPerSecond{25e9});
}

TEST_CASE("Meta's pods share a seventh of their bandwidth between them") {
  Cluster cluster = make_cluster(shipped(), "meta_24k");
  CHECK(cluster.device_count() == 24576);
  CHECK(cluster.bisection().value() == Approx(24576 / 2 * 50e9 / 7));
  CHECK(make_cluster(shipped(), "meta_24k_ib").bisection().value() == Approx(24576 / 2 * 50e9));
}

TEST_CASE("every shipped cluster is built, and full where its name says so") {
  for (const auto& id : shipped().names(Catalogue::Kind::cluster)) {
    INFO(id);
    Cluster cluster = make_cluster(shipped(), id);
    CHECK(cluster.bisection() > BytesPerSecond{0});
    CHECK_FALSE(cluster.route(0, cluster.device_count() - 1).links.empty());
  }
  CHECK(make_cluster(shipped(), "eos").bisection().value() == Approx(4608 / 2 * 50e9));
  CHECK(make_cluster(shipped(), "dgx_h100_superpod").node_count() == 127);
}

}  // namespace rehearse
