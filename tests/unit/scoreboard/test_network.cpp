#include "core/scoreboard/row_machine.hpp"
#include "tests/unit/scoreboard/rows.hpp"

using namespace rehearse;
using namespace rehearse::test;

namespace {

/// Gb/s of a node of eight GPUs; 0 where the words don't say.
double rate(const std::string& words, std::optional<std::int64_t> nics = {}) { return node_gigabits(words, nics, 8).value_or(0); }

MappedRow on(const char* gpu_type, const nlohmann::json& more) {
  nlohmann::json row = row_json();
  row["config"].update({{"gpu_type", gpu_type}, {"gpus", 16}, {"dp", 8}});
  row["config"].update(more);
  return mapped(row);
}

std::pair<std::string, std::string> site(const MappedRow& m) {
  REQUIRE(m.job);
  return {m.job->scenario.cluster.parts.at(0).machine, m.job->scenario.cluster.network};
}

}  // namespace

TEST_CASE("the ports of a node are read from the words for them") {
  CHECK(rate("8 x 200 Gb/s HDR") == 1600);
  CHECK(rate("8x400Gb/s") == 3200);
  CHECK(rate("8x ConnectX-7 400Gb/s") == 3200);
  CHECK(rate("8 x Mellanox 200 Gb/s HDR InfiniBand per node (+2 storage)") == 1600);
  CHECK(rate("EFA v2 32x100Gb/s per node") == 3200);
  CHECK(rate("2 x InfiniBand EDR 100 Gb/s per node") == 200);
  CHECK(rate("4 x HDR") == 800);
  CHECK(rate("8 x 50 GB/s") == 3200);
  CHECK(rate("400Gb/s per GPU") == 3200);
  CHECK(rate("1600 Gbps per node (RoCE)") == 1600);
  CHECK(rate("200 Gb/s HDR", 4) == 800);
  // One port or all of them: not told. Versions and models are no rates.
  CHECK(rate("200 Gb/s HDR") == 0);
  CHECK(rate("NVSwitch v2, ConnectX-6") == 0);
  CHECK(rate("not stated in README") == 0);
  CHECK(rate("") == 0);
  CHECK(rate("x x 8 x") == 0);
}

TEST_CASE("a row's network is the one that its words describe, on another machine with the same GPUs or behind slower switches") {
  CHECK(site(on("A100-SXM4-80GB", {{"inter_node", "8 x 200 Gb/s HDR"}})) == std::pair<std::string, std::string>("dgx_a100_80gb", "rail_hdr"));
  CHECK(site(on("A100-SXM4-80GB", nlohmann::json::object())).first == "dgx_a100_80gb");
  CHECK(site(on("A100-SXM4-40GB", {{"inter_node", "4 x 100 Gb/s EFA"}})) == std::pair<std::string, std::string>("aws_p4d_24xlarge", "efa_100g"));
  CHECK(site(on("A100-SXM4-80GB", {{"inter_node", "4 x 100 Gb/s EFA"}})) == std::pair<std::string, std::string>("aws_p4de_24xlarge", "efa_100g"));
  CHECK(site(on("H100-SXM5-80GB", {{"inter_node", "800 Gb/s per node"}})).first == "gcp_a3_highgpu_8g");
  CHECK(site(on("H100-SXM5-80GB", {{"inter_node", "50 Gb/s per GPU"}})) == std::pair<std::string, std::string>("dgx_h100", "ethernet_50g"));
  // A rack's node is a tray of four.
  CHECK(site(on("GB200", {{"inter_node", "400Gb/s per GPU"}, {"gpus", 144}, {"dp", 72}, {"global_batch", 144}})) == std::pair<std::string, std::string>("gb200_nvl72", "nvl72_row"));
  const MappedRow none = on("H100-SXM5-80GB", {{"inter_node", "3 x 40 Gb/s"}});
  REQUIRE(none.job);
  CHECK(none.guessed == std::vector<std::string>{"network"});
  // The row's own machine stays.
  CHECK(site(on("H100-SXM5-80GB", {{"inter_node", "800 Gb/s per node"}, {"machine", "azure_nd_h100_v5"}})).first == "azure_nd_h100_v5");
}
