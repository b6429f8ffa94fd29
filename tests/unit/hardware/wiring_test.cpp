// What the machine format can say beyond the shipped machines, and what it refuses.

#include "tests/unit/hardware/topologies.hpp"

namespace rehearse {
namespace {

using nlohmann::json;

/// A two-socket box of four cards without NVLink; `wiring` and top-level `changes` replace its own.
json pcie_box(const json& wiring, const json& changes = json::object()) {
  json file = {
      {"schema", "rehearse/machine/v1"},
      {"name", "box"},
      {"gpu", "l40s"},
      {"gpus", 4},
      {"pcie", {{"generation", 4}, {"source", "s"}}},
      {"cpu", {{"model", "any"}, {"vendor", "intel"}, {"sockets", 2}, {"socket_link", "upi_skylake"}, {"source", "s"}}},
      {"nic", {{"name", "100G"}, {"rate", "100Gb/s"}, {"count", 1}, {"source", "s"}}},
      {"wiring", wiring},
      {"sources", {{"s", {{"text", "made up"}, {"evidence", "estimate"}}}}}};
  file["wiring"]["source"] = "s";
  file.update(changes);
  return file;
}

Error refused(const json& wiring, const json& changes = json::object()) {
  return error_of([&] { (void)machine_from(pcie_box(wiring, changes)); });
}

const json kPlain = {{"cpus", {{{"gpus", {0, 1}}, {"nics", {0}}}, {{"gpus", {2, 3}}}}}};

}  // namespace

TEST_CASE("cards straight on the root ports of two sockets") {
  MachineSpec box = machine_from(pcie_box(kPlain));
  CHECK(box.vertices.size() == 4 + 2 + 1);
  REQUIRE(box.links.size() == 6);
  CHECK(box.links.back().kind == MachineSpec::LinkKind::socket);
  CHECK(box.links.back().rate == BytesPerSecond{62.4e9});
  CHECK(box.links.back().nccl_rate == BytesPerSecond{10e9});
}

TEST_CASE("a card runs at the slower of its own PCIe generation and the slot's") {
  MachineSpec box = machine_from(pcie_box(kPlain, {{"pcie", {{"generation", 5}, {"source", "s"}}}}));
  CHECK(box.links[0].rate == BytesPerSecond{31.5e9});
  box = machine_from(pcie_box(kPlain, {{"pcie", {{"generation", 3}, {"lanes", 8}, {"source", "s"}}}}));
  CHECK(box.links[0].rate.value() == Approx(15.75e9 / 2));
  CHECK(box.links[0].nccl_rate == BytesPerSecond{6e9});
}

TEST_CASE("switches nest, have names and narrower uplinks") {
  MachineSpec box = machine_from(pcie_box({{"pcie_switches",
                                            {{{"name", "root"}, {"under", "CPU0"}, {"uplink", {{"lanes", 8}}}},
                                             {{"under", "root"}, {"gpus", {0, 1}}},
                                             {{"under", "root"}, {"gpus", {2, 3}}, {"nics", {0}}}}}}));
  CHECK(box.vertices[4].name == "root");
  CHECK(box.vertices[5].name == "PLX1");
  CHECK(box.links[0].rate.value() == Approx(15.75e9));
}

TEST_CASE("explicit links say what no shorthand does") {
  json link = {{"a", "GPU0"}, {"b", "CPU1"}, {"kind", "c2c"}, {"rate", "450GB/s"}};
  json wiring = kPlain;
  wiring["links"] = {
      link, {{"a", "CPU0"}, {"b", "CPU1"}, {"kind", "socket"}, {"technology", "qpi_broadwell"}, {"latency", "1us"}}};
  MachineSpec box = machine_from(pcie_box(wiring));
  CHECK(box.links[6].kind == MachineSpec::LinkKind::c2c);
  CHECK(box.links[6].nccl_rate == BytesPerSecond{450e9});
  CHECK(box.links[7].rate == BytesPerSecond{38.4e9});
  CHECK(box.links[7].latency == Seconds{1e-6});
}

TEST_CASE("two boards of NVSwitches joined by a trunk") {
  json wiring = {{"nvswitches",
                  {{{"chips", 6}, {"links_per_gpu", 6}, {"gpus", {0, 1}}},
                   {{"chips", 6}, {"links_per_gpu", 6}, {"gpus", {2, 3}}}}},
                 {"links", {{{"a", "NVSwitch0"}, {"b", "NVSwitch1"}, {"kind", "nvlink"}, {"count", 48}}}}};
  MachineSpec box = machine_from(pcie_box(wiring, {{"gpu", "v100_sxm2_32"}}));
  CHECK(box.links.back().rate == BytesPerSecond{1200e9});
  for (int gpu = 0; gpu < 4; ++gpu) CHECK(nvlinks_at(box, gpu) == 6);
}

TEST_CASE("consumer boxes have no peer-to-peer access and may have no NIC") {
  json file =
      pcie_box({{"cpus", {{{"gpus", {0, 1}}}, {{"gpus", {2, 3}}}}}}, {{"gpu", "rtx4090"}, {"peer_to_peer", false}});
  file.erase("nic");
  MachineSpec box = machine_from(file);
  CHECK_FALSE(box.peer_to_peer);
  CHECK(box.nics == 0);
}

TEST_CASE("wiring that the parts cannot have is refused") {
  CHECK(refused({{"nvlink_pairs", {{0, 1, 1}}}}).what() == std::string("L40S has no NVLink"));
  CHECK(std::string(refused({{"nvlink_pairs", {{0, 1, 4}, {0, 2, 3}}}}, {{"gpu", "v100_sxm2_32"}}).what()) ==
        "GPU0 is wired with 7 NVLinks; a Tesla V100 SXM2 32GB has 6");
  CHECK(refused({{"nvlink_pairs", {{1, 1, 1}}}}, {{"gpu", "v100_sxm2_32"}}).where == "box.json: /wiring/nvlink_pairs");
}

TEST_CASE("wiring to a vertex that is not there is refused with its place") {
  Error e = refused({{"pcie_switches", {{{"under", "CPU2"}, {"gpus", {0}}}}}});
  CHECK(e.where == "box.json: /wiring/pcie_switches/0/under");
  CHECK(e.hint.find("CPU1") != std::string::npos);
  CHECK(refused({{"cpus", {{{"gpus", {4}}}}}}).where == "box.json: /wiring/cpus/0/gpus");
  CHECK(refused({{"cpus", {{{"gpus", {0.5}}}}}}).where == "box.json: /wiring/cpus/0/gpus");
  CHECK(refused({{"socket_pairs", {{0, 2}}}}).where == "box.json: /wiring/socket_pairs");
  CHECK(refused({{"pcie_switches", {{{"name", "GPU0"}}}}}).what() == std::string("two vertices are named 'GPU0'"));
  CHECK(refused(kPlain, {{"gpu", "l41"}}).where == "box.json: /gpu");
}

TEST_CASE("several sockets need to be joined by something known") {
  json cpu = {{"model", "any"}, {"vendor", "intel"}, {"sockets", 2}, {"source", "s"}};
  CHECK(refused(kPlain, {{"cpu", cpu}}).where == "box.json: /cpu/socket_link");
  cpu["socket_link"] = "upi_skylak";
  CHECK(refused(kPlain, {{"cpu", cpu}}).hint.find("'upi_skylake'") != std::string::npos);
}

TEST_CASE("devices below one host bridge of a CPU are told apart from the others") {
  json wiring = kPlain;
  wiring["cpus"][0]["host_bridges"] = json::array({json::array({"GPU0", "NIC0"})});
  MachineSpec box = machine_from(pcie_box(wiring));
  CHECK(box.links[0].host_bridge == 0);
  CHECK(box.links[1].host_bridge == -1);
  CHECK(box.links[2].host_bridge == 0);
  wiring["cpus"][0]["host_bridges"] = json::array({json::array({"GPU2"})});
  CHECK(std::string(refused(wiring).what()) == "'GPU2' is not right below this CPU");
}

TEST_CASE("NICs may be called by their device, and CPUs say their cores") {
  json nic = {{"name", "100G"}, {"rate", "100Gb/s"}, {"count", 1}, {"names", {"mlx5_0"}}, {"source", "s"}};
  json wiring = kPlain;
  wiring["cpus"][1]["cores"] = "8-15";
  wiring["cpus"][1]["numa"] = 3;
  MachineSpec box = machine_from(pcie_box(wiring, {{"nic", nic}}));
  CHECK(box.vertices.back().name == "mlx5_0");
  CHECK(box.vertices[5].cores == "8-15");
  CHECK(box.vertices[5].numa == 3);
  nic["count"] = 2;
  CHECK(refused(wiring, {{"nic", nic}}).where == "box.json: /nic/names");
}

TEST_CASE("trays repeat everything but the NVSwitches") {
  json wiring = {{"nvswitches", {{{"chips", 4}, {"links_per_gpu", 6}}}},
                 {"cpus", {{{"gpus", {0, 1}}, {"nics", {0}}}, {{"gpus", {2, 3}}}}}};
  MachineSpec one = machine_from(pcie_box(wiring, {{"gpu", "v100_sxm2_32"}}));
  MachineSpec three = machine_from(pcie_box(wiring, {{"gpu", "v100_sxm2_32"}, {"trays", 3}}));
  CHECK(three.gpus == 12);
  CHECK(three.nics == 3);
  CHECK(three.sockets == 6);
  CHECK(three.vertices.size() == 3 * (one.vertices.size() - 1) + 1);
  CHECK(three.links.size() == 3 * one.links.size());
  CHECK(nvlinks_at(three, 12) == 3 * nvlinks_at(one, 4));
}

TEST_CASE("channels that NCCL chose stand in the machine's file") {
  json graph = {{"id", 0},
                {"pattern", 4},
                {"channels", 2},
                {"speed_intra", "12GB/s"},
                {"speed_inter", "10GB/s"},
                {"type_intra", "SYS"},
                {"type_inter", "PIX"},
                {"orders", {{0, 1, 2, 3}, {3, 2, 1, 0}}}};
  json nccl = {{"graphs", json::array({graph})}, {"source", "s"}};
  MachineSpec box = machine_from(pcie_box(kPlain, {{"nccl", nccl}}));
  REQUIRE(box.nccl_graphs.size() == 1);
  CHECK(box.nccl_graphs[0].channels == 2);
  CHECK(box.nccl_graphs[0].speed_intra == BytesPerSecond{12e9});
  CHECK(box.nccl_graphs[0].orders[1] == std::vector<int>{3, 2, 1, 0});
  nccl["graphs"].push_back(graph);
  CHECK(refused(kPlain, {{"nccl", nccl}}).what() == std::string("two graphs have id 0"));
  nccl["graphs"] = json::array({graph});
  nccl["graphs"][0]["orders"] = {{0, 4}};
  CHECK(refused(kPlain, {{"nccl", nccl}}).where == "box.json: /nccl/graphs/0/orders");
}

}  // namespace rehearse
