#include "core/scoreboard/rows/port_words.hpp"
#include "core/scoreboard/rows/row_machine.hpp"
#include "tests/unit/scoreboard/rows.hpp"

using namespace rehearse;
using namespace rehearse::test;

namespace {

/// Gb/s of a node of eight GPUs; 0 where the words don't say.
double rate(const std::string& words, std::optional<std::int64_t> nics = {}) {
  return port_words(words, nics, 8).node.value_or(0);
}

/// Gb/s of which the words don't say whose they are; 0 where there are none.
double single(const std::string& words) { return port_words(words, {}, 8).single.value_or(0); }

MappedRow on(const char* gpu_type, const nlohmann::json& more) {
  nlohmann::json row = row_json();
  row["config"].update({{"gpu_type", gpu_type}, {"gpus", 16}, {"dp", 8}});
  row["config"].update(more);
  return mapped(row);
}

/// "machine, network" of a row with these words; "?" behind it where the row doesn't count.
std::string site(const char* gpu_type, const char* words, const nlohmann::json& more = nlohmann::json::object()) {
  nlohmann::json all = more;
  all["inter_node"] = words;
  const MappedRow m = on(gpu_type, all);
  REQUIRE(m.job);
  return m.job->scenario.cluster.parts.at(0).machine + ", " + m.job->scenario.cluster.network +
         (m.guessed.empty() ? "" : "?");
}

constexpr const char *kH100 = "H100-SXM5-80GB", *kA100 = "A100-SXM4-80GB", *kA100Of40 = "A100-SXM4-40GB";

}  // namespace

TEST_CASE("the ports of a node are read from the words for them") {
  for (const char* words : {"8x400Gb/s",
                            "8x ConnectX-7 400Gb/s",
                            "400Gb/s per GPU",
                            "IB NDR 400Gb/s per GPU",
                            "1x400Gb/s per GPU",
                            "1 x 400 Gb/s NDR per GPU",
                            "2 x 200 Gb/s per GPU",
                            "400 Gb/s per GPU, 8 per node",
                            "8 NICs per node, NDR 400 Gb/s",
                            "eight 400 Gb/s ports per node",
                            "3,200 Gb/s per node",
                            "3200 Gbps EFA",
                            "3.2 Tb/s per node",
                            "8 x 50 GB/s",
                            "8x NDR",
                            "NDR400 x8",
                            "H100x8, 400 Gb/s per GPU",
                            "EFA v2 32x100Gb/s per node",
                            "8 \u00d7 400 Gbit/s",
                            "8 * 400Gb RoCE",
                            "NVLink 900 GB/s per GPU; InfiniBand 400 Gb/s per GPU",
                            "400Gb/s/GPU"}) {
    INFO(words);
    CHECK(rate(words) == Approx(3200));
  }
  for (const char* words :
       {"8 x 200 Gb/s HDR", "8 x Mellanox 200 Gb/s HDR InfiniBand per node (+2 storage)", "1600 Gbps per node (RoCE)",
        "RoCE 1600 Gb/s per node", "1.6 Tb/s per node", "1.6 Tbps", "8 x 200 Gbits/s", "200G per GPU", "8x NDR200"}) {
    INFO(words);
    CHECK(rate(words) == Approx(1600));
  }
  for (const char* words : {"4 x HDR", "4 NICs per node, HDR 200 Gb/s", "200 Gb/s HDR, 4 per node", "4x200G HDR",
                            "8x HDR100", "8x 100G NDR"}) {
    INFO(words);
    CHECK(rate(words) == Approx(800));
  }
  CHECK(rate("2 x InfiniBand EDR 100 Gb/s per node") == 200);
  CHECK(rate("50 Gb/s Ethernet (Mellanox ConnectX-4), 1 NIC per server, Wedge100 switches") == 50);
  CHECK(rate("2x25G RoCE") == 50);
  CHECK(rate("dual-rail HDR100") == 200);
  CHECK(rate("2x200Gb/s HDR and 2x100Gb/s EDR") == 600);
  CHECK(rate("200 Gb/s HDR", 4) == 800);
  CHECK(rate("HDR", 2) == 400);
  CHECK(rate("800 Gb/s per node", 4) == 800);
  CHECK(rate("1 MB messages") == 0);
  CHECK(rate("8 x 200 Gb/s", 4) == 1600);
}

TEST_CASE("a rate that may be a port's or a node's is neither") {
  for (const char* words :
       {"200 Gb/s HDR", "200 Gb/s (8 GPUs per node)", "PCIe 4.0 x16, 200 Gb/s", "InfiniBand 4X HDR", "HDR"}) {
    INFO(words);
    CHECK(rate(words) == 0);
    CHECK(single(words) == 200);
  }
  CHECK(single("100GbE") == 100);
  CHECK(single("100 Gb/s Ethernet") == 100);
  for (const char* words :
       {"NVSwitch v2, ConnectX-6", "not stated in README", "", "x x 8 x", "InfiniBand", "80 GB of memory",
        "NVLink 600 GB/s per GPU", "99999999999999999999999 Gb", "8x", "/ ( + ;"}) {
    INFO(words);
    CHECK(rate(words) == 0);
  }
}

TEST_CASE(
    "a row's network is the one that its words describe, on another machine with the same GPUs or behind slower "
    "switches") {
  CHECK(site(kA100, "8 x 200 Gb/s HDR") == "dgx_a100_80gb, rail_hdr");
  CHECK(site(kA100, "1600 Gbps per node (RoCE)") == "dgx_a100_80gb, ib_hdr");
  CHECK(site(kA100Of40, "4 x 100 Gb/s EFA") == "aws_p4d_24xlarge, efa_100g");
  CHECK(site(kA100, "4 x 100 Gb/s EFA") == "aws_p4de_24xlarge, efa_100g");
  CHECK(site(kA100, "4 x 100 Gb/s Omni-Path") == "jean_zay_a100, ib_edr");
  CHECK(site(kA100, "4 x 100 Gb/s RoCE") == "dgx_a100_80gb, ethernet_50g");  // Neither Omni-Path nor EFA.
  CHECK(site(kA100, "400 Gb/s per node, default MTU") == "jean_zay_a100, ib_edr");
  CHECK(site(kH100, "400 Gb/s per GPU, 8 per node") == "dgx_h100, ib_ndr");
  CHECK(site(kH100, "32 x 100 Gb/s EFA") == "aws_p5_48xlarge, efa_v2");
  CHECK(site(kH100, "800 Gb/s per node") == "gcp_a3_highgpu_8g, oci_roce_200g");
  CHECK(site(kH100, "50 Gb/s per GPU") == "dgx_h100, ethernet_50g");
  CHECK(site("A800-SXM4-80GB", "8 x 200 Gb/s") == "hgx_a800, ib_hdr");
  // A rack's node is a tray of four.
  CHECK(site("GB200", "400Gb/s per GPU", {{"gpus", 144}, {"dp", 72}, {"global_batch", 144}}) ==
        "gb200_nvl72, nvl72_row");
}

TEST_CASE("a job that fills racks of 72 uses each whole, and another 64 of each") {
  for (const auto& [gpus, used] : {std::pair{144, 72}, std::pair{128, 64}}) {
    nlohmann::json row = row_json();
    row["config"].update({{"gpu_type", "GB200"}, {"gpus", gpus}, {"dp", gpus / 2}, {"global_batch", gpus}});
    const MappedRow found = mapped(row);
    REQUIRE(found.job);
    CHECK(found.job->gpus_per_domain == used);
    CHECK(scenario_text(found).has_value());
  }
}

TEST_CASE("attention that nobody measured on a row's GPUs is not stated, as a scenario with it would be refused") {
  for (const auto& [gpu, stated] : {std::pair{"A100-SXM4-80GB", true}, std::pair{"L40S", false}}) {
    nlohmann::json row = row_json();
    row["config"].update({{"gpu_type", gpu}, {"attention", "FlashAttention-2"}});
    const MappedRow found = mapped(row);
    REQUIRE(found.job);
    CHECK(found.job->scenario.stated.contains("kernels.flash") == stated);
  }
}

TEST_CASE("a row whose network nobody can place is listed and doesn't count") {
  CHECK(site(kH100, "3 x 40 Gb/s") == "dgx_h100, ib_ndr?");
  CHECK(site(kH100, "100GbE") == "dgx_h100, ib_ndr?");
  CHECK(site(kH100, "NDR") == "dgx_h100, ib_ndr");  // What its ports have.
  CHECK(site(kH100, "4 x 100 Gb/s EFA") == "dgx_h100, ib_ndr?");
  // The row's own machine stays, whatever it says besides.
  CHECK(site(kH100, "800 Gb/s per node", {{"machine", "azure_nd_h100_v5"}}).starts_with("azure_nd_h100_v5, "));
  CHECK(site("H100 p5.48xlarge", "1600 Gb/s per node").starts_with("aws_p5_48xlarge, "));
  // A field that is no number takes nothing away.
  CHECK(site(kH100, "8 x 400 Gb/s", {{"nics", "8 + 2"}}) == "dgx_h100, ib_ndr");
}
