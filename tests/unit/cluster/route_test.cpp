#include "core/cluster/host_paths.hpp"
#include "tests/unit/cluster/clusters.hpp"

namespace rehearse {

TEST_CASE("inside a DGX A100 a transfer takes the NVSwitch") {
  Cluster cluster = cluster_of("dgx_a100_80gb", 2, "rail_hdr");
  CHECK(route_text(cluster, 0, 3) == "node0/GPU0>NVSwitch0 node0/NVSwitch0>GPU3");
  CHECK(route_text(cluster, 8 + 5, 8 + 1) == "node1/GPU5>NVSwitch0 node1/NVSwitch0>GPU1");
  CHECK(bottleneck(cluster, 0, 3) == BytesPerSecond{300e9});
  CHECK(cluster.route(4, 4).links.empty());
  CHECK(cluster.route(4, 4).latency == Seconds{0});
}

TEST_CASE("same rail, same unit: one leaf between two NICs") {
  Cluster cluster = cluster_of("dgx_a100_80gb", 2, "rail_hdr");
  CHECK(
      route_text(cluster, 1, 9) ==
      "node0/GPU1>PLX0 node0/PLX0>NIC1 node0/NIC1>unit0/rail1 unit0/rail1>node1/NIC1 node1/NIC1>PLX0 node1/PLX0>GPU1");
  CHECK(bottleneck(cluster, 1, 9) == BytesPerSecond{25e9});
}

TEST_CASE("another rail: over NVLink to the GPU of the destination's rail, then that GPU's NIC") {
  Cluster cluster = cluster_of("dgx_h100", 2, "rail_ndr");
  CHECK(route_text(cluster, 0, 8 + 3) ==
        "node0/GPU0>NVSwitch0 node0/NVSwitch0>GPU3 node0/GPU3>PLX3 node0/PLX3>NIC3 node0/NIC3>unit0/rail3 "
        "unit0/rail3>node1/NIC3 node1/NIC3>PLX3 node1/PLX3>GPU3");
}

TEST_CASE("a fabric without rails is entered through the sender's own NIC") {
  Cluster cluster = cluster_on("dgx_h100", 2, "fat_tree", {{"nodes_per_leaf", 1}});
  CHECK(route_text(cluster, 0, 8 + 3) ==
        "node0/GPU0>PLX0 node0/PLX0>NIC0 node0/NIC0>leaf0 leaf0>spine0 spine0>leaf1 leaf1>node1/NIC3 node1/NIC3>PLX3 "
        "node1/PLX3>GPU3");
}

TEST_CASE("units are joined by spines, pods by the core") {
  Cluster cluster = cluster_of("dgx_h100", 256, "rail_ndr_3level");  // Units of 32 nodes, pods of 4 units.
  auto fabric_part = [&](DeviceId src, DeviceId dst) {
    auto route = cluster.route(src, dst);
    route.links.erase(route.links.begin(), route.links.begin() + 2);
    route.links.resize(route.links.size() - 2);
    return text_of(cluster, route);
  };
  CHECK(fabric_part(0, 33 * 8) ==
        "node0/NIC0>unit0/rail0 unit0/rail0>spine0 spine0>unit1/rail0 unit1/rail0>node33/NIC0");
  CHECK(
      fabric_part(2, 255 * 8 + 2) ==
      "node0/NIC2>unit0/rail2 unit0/rail2>spine0 spine0>core core>spine1 spine1>unit7/rail2 unit7/rail2>node255/NIC2");
}

TEST_CASE("GPUs behind one PCIe switch share its way to host memory") {
  const Cluster pairs = cluster_of("dgx_a100_80gb", 2, "selene"), alone = cluster_of("dgx_h100", 2, "rail_ndr");
  for (DeviceId d : {0, 3, 7, 12}) {
    CHECK(HostPaths(pairs).share(d).value() == Approx(pairs.gpu(d).pcie.per_direction.value() / 2));
    CHECK(HostPaths(alone).share(d).value() == Approx(alone.gpu(d).pcie.per_direction.value()));
  }
}

TEST_CASE("a route's latency is the sum of its links': the NIC once, each switch once") {
  Cluster cluster = cluster_of("dgx_h100", 256, "rail_ndr_3level");
  for (DeviceId dst : {3, 8, 11, 33 * 8, 2047}) {
    Route route = cluster.route(0, dst);
    Seconds sum;
    for (LinkId id : route.links) sum += cluster.link(id).latency;
    CHECK(route.latency.value() == Approx(sum.value()));
  }
  const auto& network = cluster.network();
  auto pcie = shipped().interconnects().pcie_latency;
  CHECK(cluster.route(0, 8).latency.value() ==
        Approx((4 * pcie + network.nic_latency + network.switch_latency).value()));
  CHECK((cluster.route(0, 2040).latency - cluster.route(0, 8).latency).value() ==
        Approx(4 * network.switch_latency.value()));
}

TEST_CASE("one rail hop between two H200 agrees with NCCL's own network step of 2.7 us") {
  Cluster cluster = cluster_of("dgx_h200", 2, "rail_ndr");
  CHECK(cluster.route(0, 8).latency.value() == Approx(2.7e-6).epsilon(0.06));
}

TEST_CASE("GPUs of a DGX-1V without a common NVLink use PCIe, never another GPU") {
  Cluster cluster = cluster_of("dgx1v", 1, "ib_edr");
  CHECK(route_text(cluster, 0, 3) == "node0/GPU0>GPU3");
  CHECK(bottleneck(cluster, 0, 3) == BytesPerSecond{50e9});
  CHECK(bottleneck(cluster, 0, 1) == BytesPerSecond{25e9});
  CHECK(route_text(cluster, 0, 7) == "node0/GPU0>PLX0 node0/PLX0>CPU0 node0/CPU0>CPU1 node0/CPU1>PLX3 node0/PLX3>GPU7");
}

TEST_CASE("the way back mirrors the way there") {
  Cluster cluster = cluster_of("dgx_a100_80gb", 45, "selene");
  for (auto [a, b] : {std::pair(0, 5), std::pair(1, 9), std::pair(2, 44 * 8 + 2), std::pair(0, 160)}) {
    Route there = cluster.route(a, b), back = cluster.route(b, a);
    REQUIRE(there.links.size() == back.links.size());
    CHECK(there.latency.value() == Approx(back.latency.value()));
  }
}

TEST_CASE("a NIC faster than the switch's ports runs at the ports' rate") {
  Cluster cluster = cluster_of("dgx_h100", 2, "rail_hdr");
  CHECK(bottleneck(cluster, 0, 8) == BytesPerSecond{25e9});
}

}  // namespace rehearse
