#include "core/scoreboard/kernel_rows.hpp"

#include <algorithm>

#include "core/price/kernels/kernel.hpp"
#include "tests/unit/scoreboard/rows.hpp"

using namespace rehearse;
using namespace rehearse::test;

namespace {

std::string file_with(const std::string& name, const std::string& text) {
  const auto folder = std::filesystem::temp_directory_path() / ("kernel_rows" + std::to_string(::getpid()));
  std::filesystem::create_directories(folder);
  const std::string file = (folder / name).string();
  std::ofstream(file) << text;
  return file;
}

const std::string kProducts =
    "gpu,source,operator,batch,m,n,k,in_bytes_per_element,out_bytes_per_element,accumulate,layout,time_us\n";

nlohmann::json all_reduce(const char* gpu_type, int gpus) {
  return {{"id", "ar"},
          {"source", "somebody"},
          {"config", {{"collective", "all_reduce"}, {"gpus", gpus}, {"gpu_type", gpu_type}}},
          {"measured",
           {{"table",
             {{{"size_bytes", 1 << 20}, {"time_us", 100.0}},
              {{"size_bytes", 1 << 30}, {"time_us", 8000.0}},
              {{"size_bytes", 1 << 15}, {"busbw_GBps", 0.01}, {"time_us_derived", 5000.0}}}}}},
          {"notes", ""},
          {"from_memory", false}};
}

KernelBoard board_of(const nlohmann::json& row) { return score_kernels({}, {row_of(row)}, paths().topologies); }

}  // namespace

TEST_CASE("files of kernels are told by their header, whatever they are called") {
  CHECK(is_kernel_file(kRoot + "/tests/published/data/gemm_by_shape.csv"));
  CHECK(is_kernel_file(kRoot + "/tests/published/data/flash_attention.csv"));
  CHECK_FALSE(is_kernel_file(kRoot + "/tests/published/data/vtrain_megatron_deepspeed_a100_single_node.csv"));
  CHECK_FALSE(is_kernel_file(kRoot + "/tests/published/data/torchtitan.json"));
  CHECK_THROWS_AS(is_kernel_file("nowhere.csv"), Error);
}

TEST_CASE("a product is priced by its shape, as the kernel model prices one after a pause") {
  const KernelBoard board =
      score_kernels({file_with("one.csv", kProducts + "h100_sxm5_80,vidur,up,1,4096,8192,4096,2,2,0,TN,400\n")}, {},
                    paths().topologies);
  REQUIRE(board.rows.size() == 1);
  const Catalogue catalogue(kRoot + "/topologies");
  const auto gpu = catalogue.gpu("h100_sxm5_80");
  const KernelModel model(*gpu, load_calibration(kRoot + "/topologies/calibration", *gpu, {.bursts = true}));
  CHECK(board.rows[0].predicted.value() ==
        Approx(model.price(make_gemm({1, 4096, 8192, 4096}, DType::fp16, DType::fp16)).time.value()));
  CHECK(board.rows[0].measured.value() == Approx(400e-6));
  CHECK(board.rows[0].group == "products on h100_sxm5_80");
}

TEST_CASE("only products that a fit may have read count as fitted") {
  const auto fitted = [](const std::string& gpu, int least, int step) {
    std::string text = kProducts;
    for (int i = 0; i < 32; ++i)
      text += gpu + ",somebody,up,1,4096," + std::to_string(least + step * i) + ",4096,2,2,0,TN,400\n";
    const KernelBoard board = score_kernels({file_with("fitted.csv", text)}, {}, paths().topologies);
    return std::count_if(board.rows.begin(), board.rows.end(), [](const KernelRow& r) { return r.fitted; });
  };
  const auto half = fitted("a100_sxm4_80", 1024, 8);
  CHECK((half > 0 && half < 32));
  CHECK(fitted("a100_sxm4_40", 1024, 8) == half);
  CHECK(fitted("a100_sxm4_80", 1025, 8) == 0);  // off 16 bytes
  CHECK(fitted("v100_sxm2_16", 1024, 8) == half);
  CHECK(fitted("rtx3090", 1024, 8) == 0);  // gave no constant
}

TEST_CASE("errors of a layer's products partly cancel in their sum") {
  const KernelBoard board = score_kernels({kRoot + "/tests/published/data/gemm_by_shape.csv"}, {}, paths().topologies);
  for (const char* gpu : {"a100_sxm4_80", "h100_sxm5_80", "a40"}) {
    INFO(gpu);
    const auto group = [&](const std::string& name) {
      const auto at = std::find_if(board.groups.begin(), board.groups.end(),
                                   [&](const KernelGroup& g) { return g.name == name + gpu; });
      REQUIRE(at != board.groups.end());
      return at->held_out;
    };
    CHECK(group("sums of four products on ").rows > 20);
    CHECK(group("sums of four products on ").median < group("products on ").median);
  }
}

TEST_CASE("a table of collectives is one row per size, figures printed without digits left out") {
  const KernelBoard board = board_of(all_reduce("H100-SXM5-80GB", 8));
  REQUIRE(board.rows.size() == 2);
  CHECK(board.rows[0].group == "all_reduce on dgx_h100, 8 GPUs");
  CHECK(board.rows[1].predicted > board.rows[0].predicted);
  CHECK(board.rows[1].measured.value() == Approx(8e-3));
}

TEST_CASE("collectives between nodes run on a machine with the ports that the row states") {
  nlohmann::json row = all_reduce("A100-SXM4-80GB", 16);
  CHECK(board_of(row).rows.at(0).group == "all_reduce on dgx_a100_80gb, 16 GPUs");
  row["config"]["inter_node"] = "4 x 100 Gb/s EFA";
  const double slow = board_of(row).rows.at(1).predicted.value();
  CHECK(board_of(row).rows.at(0).group == "all_reduce on aws_p4de_24xlarge, 16 GPUs");
  row["config"]["inter_node"] = "8 x 200 Gb/s HDR";
  CHECK(slow > 2 * board_of(row).rows.at(1).predicted.value());
}

TEST_CASE("collectives that cannot be placed say why") {
  CHECK(board_of(all_reduce("abacus", 8)).rows.at(0).skipped == "GPU unknown");
  nlohmann::json row = all_reduce("H100", 8);
  row["config"]["collective"] = "MoE dispatch";
  CHECK(board_of(row).rows.at(0).skipped.find("no collective of NCCL's") == 0);
  row = all_reduce("H100", 16);
  row["config"]["inter_node"] = "3 x 40 Gb/s";
  CHECK(board_of(row).rows.at(0).skipped == "no machine of the catalogue has its wires: 120 Gb/s of ports a node");
  row = all_reduce("H100", 9);
  row["config"]["nodes"] = 2;
  CHECK(board_of(row).rows.at(0).skipped == "9 GPUs do not stand on 2 machines of 8");
}
