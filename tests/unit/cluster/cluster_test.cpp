#include "tests/unit/cluster/clusters.hpp"

namespace rehearse {

TEST_CASE("every named cluster builds and says what it is") {
  for (const auto& id : shipped().names(Catalogue::Kind::cluster)) {
    INFO(id);
    Cluster cluster = make_cluster(shipped(), id);
    CHECK(cluster.device_count() >= 8);
    CHECK_FALSE(cluster.summary().empty());
    CHECK(cluster.route(0, cluster.device_count() - 1).links.size() >= 6);
  }
}

TEST_CASE("every shipped machine joins every shipped network") {
  for (const auto& machine : shipped().names(Catalogue::Kind::machine))
    for (const auto& network : shipped().names(Catalogue::Kind::network)) {
      INFO(machine << " on " << network);
      int nodes = 30;
      if (const auto spec = shipped().network(network); spec->kind == "torus") {  // Joins as many as it has routers.
        nodes = 1;
        for (const char* dimension : {"x", "y", "z"})
          if (spec->parameters.contains(dimension)) nodes *= static_cast<int>(spec->parameters.at(dimension));
      }
      Cluster cluster = cluster_of(machine, nodes, network);
      CHECK(bottleneck(cluster, 0, cluster.device_count() - 1) <= cluster.machine(0).nic.rate);
    }
}

TEST_CASE("Selene has 4,480 GPUs, Eos 4,608") {
  Cluster selene = make_cluster(shipped(), "selene");
  CHECK(selene.device_count() == 4480);
  CHECK(selene.name() == "Selene");
  CHECK(selene.gpu(4479).id == "a100_sxm4_80");
  CHECK(make_cluster(shipped(), "eos").device_count() == 4608);
  CHECK(selene.summary() ==
        "4480 GPUs: 560 x DGX A100 80GB (8 x A100 SXM4 80GB); rail-optimised: 8 rails, 20 nodes per unit, 224 leaves, "
        "3 levels, full bisection");
}

TEST_CASE("devices are numbered node by node") {
  Cluster cluster = cluster_of("dgx_a100_80gb", 3, "rail_hdr");
  CHECK(cluster.device_count() == 24);
  CHECK(cluster.node_count() == 3);
  for (DeviceId d = 0; d < 24; ++d) {
    CHECK(cluster.node_of(d) == d / 8);
    CHECK(cluster.local_index(d) == d % 8);
    CHECK(cluster.first_device(cluster.node_of(d)) == d / 8 * 8);
    CHECK(cluster.nic_of(d) == d % 8);
  }
  CHECK(cluster.name() == "3 x dgx_a100_80gb");
}

TEST_CASE("link ids cover nodes and fabric without gap, and both ways of asking for a rate agree") {
  Cluster cluster = cluster_of("dgx_h100", 40, "rail_ndr");
  // Per node 8 NVLink bundles, 8 GPU, 8 NIC and 8 uplinks on PCIe, one socket link, both ways; 8 NIC ports, both ways;
  // 16 leaves.
  CHECK(cluster.link_count() == 40 * (2 * 33 + 2 * 8) + 2 * 16);
  for (LinkId id = 0; id < cluster.link_count(); ++id) REQUIRE(cluster.link(id).rate == cluster.link_rate(id));
  CHECK(cluster.link(0).name == "node0/GPU0>NVSwitch0");
  CHECK(cluster.link(1).name == "node0/NVSwitch0>GPU0");
  CHECK(cluster.link(66).name == "node1/GPU0>NVSwitch0");
  CHECK(cluster.link(40 * 66).name == "node0/NIC0>unit0/rail0");
}

TEST_CASE("machines of different kinds share one cluster") {
  ClusterSpec spec{.id = {},
                   .name = {},
                   .parts = {{"dgx_a100_80gb", 2}, {"dgx_h100", 3}, {"dgx1v", 1}},
                   .network = "single_switch",
                   .sources = {}};
  Cluster cluster = make_cluster(shipped(), spec);
  CHECK(cluster.device_count() == 48);
  CHECK(cluster.gpu(15).id == "a100_sxm4_80");
  CHECK(cluster.gpu(16).id == "h100_sxm5_80");
  CHECK(cluster.machine(5).id == "dgx1v");
  CHECK(bottleneck(cluster, 0, 16) == BytesPerSecond{25e9});
  CHECK(bottleneck(cluster, 16, 24) == BytesPerSecond{50e9});
  CHECK(bottleneck(cluster, 47, 16) == BytesPerSecond{12.5e9});
  CHECK(route_text(cluster, 16, 40) ==
        "node2/GPU0>PLX0 node2/PLX0>NIC0 node2/NIC0>switch switch>node5/NIC0 node5/NIC0>PLX0 node5/PLX0>GPU0");
}

TEST_CASE("what cannot be a cluster is refused") {
  CHECK(error_of([] { (void)cluster_of("dgx_h100", 0, "rail_ndr"); }).kind == ErrorKind::usage);
  CHECK(error_of([] { (void)Cluster("none", {}, *shipped().network("rail_ndr")); }).kind == ErrorKind::usage);
  CHECK(std::string(error_of([] { (void)cluster_of("dgx_h100", 128, "superpod_h100"); }).what()) ==
        "network 'superpod_h100' joins at most 127 nodes, not 128");
  CHECK(error_of([] { (void)cluster_of("dgx_h100", 100'000'000, "rail_ndr"); }).kind == ErrorKind::usage);
  CHECK(error_of([] { (void)cluster_of("dgx_h200", 2, "rail_nrd"); }).hint.find("rail_ndr") != std::string::npos);
}

TEST_CASE("what is not there is refused") {
  Cluster cluster = cluster_of("dgx_h100", 2, "rail_ndr");
  CHECK(std::string(error_of([&] { (void)cluster.route(0, 16); }).what()) ==
        "device 16 does not exist: the cluster has 16");
  CHECK(error_of([&] { (void)cluster.node_of(-1); }).kind == ErrorKind::usage);
  CHECK(error_of([&] { (void)cluster.machine(2); }).kind == ErrorKind::usage);
  CHECK(error_of([&] { (void)cluster.link_rate(cluster.link_count()); }).kind == ErrorKind::usage);
}

}  // namespace rehearse
