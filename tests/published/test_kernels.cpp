// The shipped kernel constants against measurements they were not fitted on.

#include <cmath>
#include <cstdio>
#include <fstream>
#include <map>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/price/kernel_tables.hpp"
#include "core/price/kernels/kernel.hpp"
#include "core/strategy/operators/fp8.hpp"
#include "tests/published/fit/fit.hpp"
#include "tests/published/gpus.hpp"
#include "tests/published/layer_22b.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/source_path.hpp"

using namespace rehearse;

namespace {

const std::string kRoot = rehearse::testing::source_path("");

KernelModel model_of(const std::string& id, const std::string& attention = {}) {
  const GpuSpec gpu = published::gpu(id);
  return {gpu, load_calibration(kRoot + "/topologies/calibration", gpu, {.attention = attention, .bursts = true})};
}

ErrorSummary held_out_gemms(const std::string& gpu, const std::string& file, double fewest_m, double least_flops = 0) {
  TableReader reader(kRoot + "/tests/published/data");
  const KernelModel model = model_of(gpu);
  std::vector<double> predicted, measured;
  for (const auto& row : read_gemms(reader, file)) {
    if (row.gpu != gpu || in_fit_half(row.gemm.shape) || row.gemm.shape.m < fewest_m) continue;
    if (gemm_flops(row.gemm.shape).value() < least_flops) continue;
    predicted.push_back(model.price(kernel_of(row)).time.value());
    measured.push_back(row.gemm.time.value());
  }
  const auto e = summarise_errors(predicted, measured);
  std::printf("%-14s %-18s %5d rows  median %5.1f %%  p90 %5.1f %%  bias %+5.1f %%\n", gpu.c_str(), file.c_str(),
              e.rows, 100 * e.median, 100 * e.p90, 100 * e.bias);
  return e;
}

ErrorSummary held_out_attention(const std::string& gpu, const std::string& implementation,
                                const std::string& file = "flash_attention.csv") {
  TableReader reader(kRoot + "/tests/published/data");
  std::vector<double> predicted, measured;
  for (const auto& row : read_attention(reader, file)) {
    if (row.gpu != gpu || row.implementation != implementation || in_fit_half(row.attention)) continue;
    const KernelModel model = model_of(gpu, row.kernel());
    Seconds t = model.price(make_flash_attention(row.attention.shape, row.type)).time;
    if (row.attention.with_backward) t += model.price(make_flash_attention(row.attention.shape, row.type, true)).time;
    predicted.push_back(t.value());
    measured.push_back(row.attention.time.value());
  }
  const auto e = summarise_errors(predicted, measured);
  std::printf("%-14s %-18s %5d rows  median %5.1f %%  p90 %5.1f %%  bias %+5.1f %%\n", gpu.c_str(),
              implementation.c_str(), e.rows, 100 * e.median, 100 * e.p90, 100 * e.bias);
  return e;
}

double total(const KernelModel& model, const published::Layer22b::Kernels& kernels) {
  double ms = 0;
  for (const auto& k : kernels) ms += 1e3 * model.price(k).time.value();
  return ms;
}

struct LayerTime {
  double forward, backward;
};

// Assumed collective: bus bandwidth 235 GB/s over eight A100s on NVSwitch. Forward collectives are exposed. Backward,
// the one of each column-parallel input gradient runs under that product's weight gradient; sequence parallelism also
// gathers the incoming gradient of both row-parallel products in the open.
LayerTime layer_time(const KernelModel& model, bool sequence_parallel, bool full, bool selective) {
  const published::Layer22b layer{sequence_parallel};
  constexpr double kBus = 235e9;
  const double gather = 1e3 * 7.0 / 8 * layer.tokens * layer.hidden * 2 / kBus;
  double backward = total(model, layer.backward()) + total(model, layer.plain_weight_gradients());
  const double hidden = sequence_parallel ? gather : 2 * gather;
  for (const auto& k : layer.covering_weight_gradients()) backward += std::max(total(model, {k}), hidden);
  if (sequence_parallel) backward += 2 * gather;
  const double forward = total(model, layer.forward()) + 4 * gather;
  if (full) backward += forward;
  if (selective) backward += total(model, layer.attention_core_forward());
  return {forward, backward};
}

}  // namespace

TEST_CASE(
    "products of groups, each a call of the library, take three quarters of a product's fixed time more for each") {
  TableReader reader(kRoot + "/tests/published/data");
  const std::vector<GemmRow> rows = read_gemms(reader, "gemm_grouped.csv");
  REQUIRE(rows.size() == 120);
  const auto errors = [&](double share, bool fitted) {
    std::vector<double> predicted, measured;
    for (const char* id : {"b200_sxm", "a100_pcie_80"}) {
      const GpuSpec gpu = published::gpu(id);
      CalibrationProfile profile = load_calibration(kRoot + "/topologies/calibration", gpu, {.bursts = true});
      profile.groups.at("grouped_gemm").constants.at("fixed_share").value = share;
      const KernelModel model(gpu, profile);
      for (const GemmRow& row : rows) {
        if (row.gpu != id || in_fit_half(row.gemm.shape) != fitted) continue;
        predicted.push_back(model.price(kernel_of(row)).time.value());
        measured.push_back(row.gemm.time.value());
      }
    }
    return summarise_errors(predicted, measured);
  };
  const double shipped = load_calibration(kRoot + "/topologies/calibration", published::gpu("b200_sxm"), {})
                             .value("grouped_gemm", "fixed_share");
  for (const double other : {0.0, 0.25, 0.5, 1.0}) CHECK(errors(shipped, true).median <= errors(other, true).median);
  const ErrorSummary without = errors(0, false), with = errors(shipped, false);
  std::printf("groups held out: %d rows, median %.1f %%, p90 %.1f %%; %.1f and %.1f %% where groups are one launch\n",
              with.rows, 100 * with.median, 100 * with.p90, 100 * without.median, 100 * without.p90);
  CHECK(with.median < 0.1);
  CHECK(with.p90 < 0.22);
  CHECK(with.median < without.median);
}

TEST_CASE("products of shapes that no fit saw") {
  struct Row {
    const char* gpu;
    const char* file;
    double fewest_m, median, p90;
  };
  // Bounds are the errors when the constants were made, with a tenth to spare.
  for (const Row& r :
       {Row{"a100_sxm4_80", "gemm_by_shape.csv", 16, 0.046, 0.127},
        Row{"a100_sxm4_40", "gemm_sweeps.csv", 16, 0.03, 0.083}, Row{"a40", "gemm_by_shape.csv", 16, 0.057, 0.169},
        Row{"h100_sxm5_80", "gemm_by_shape.csv", 16, 0.064, 0.18},
        Row{"a100_pcie_80", "gemm_by_shape.csv", 0, 0.026, 0.098},
        Row{"b200_sxm", "gemm_by_shape.csv", 0, 0.062, 0.365}, Row{"h100_sxm5_80", "gemm_fp8.csv", 0, 0.05, 0.215}}) {
    INFO(r.gpu << " " << r.file);
    const auto e = held_out_gemms(r.gpu, r.file, r.fewest_m);
    CHECK(e.rows >= 14);
    CHECK(e.median < r.median);
    CHECK(e.p90 < r.p90);
  }
}

TEST_CASE("what products lose whose rows start off 16 bytes, against their aligned neighbours") {
  struct Mean {
    double predicted = 0, measured = 0;
    int rows = 0;
  };
  // Time of an operation in the rows whose swept size is a multiple of 8, of 2 and odd, by GPU and the sizes that stay.
  std::map<std::string, std::map<int, Mean>> sweeps;
  TableReader reader(kRoot + "/tests/published/data");
  for (const auto& row : read_gemms(reader, "gemm_alignment.csv")) {
    const GemmShape& s = row.gemm.shape;
    const bool reduction = s.n == 14336 && s.k != 51200;
    const double swept = reduction ? s.k : s.n, flops = gemm_flops(s).value();
    Mean& mean = sweeps[fmt::format("{} {} of {} x {}", row.gpu, reduction ? "reduction" : "columns", s.m,
                                    reduction ? s.n : s.k)][std::fmod(swept, 8) == 0   ? 8
                                                            : std::fmod(swept, 2) == 0 ? 2
                                                                                       : 1];
    mean.predicted += model_of(row.gpu).price(kernel_of(row)).time.value() / flops;
    mean.measured += row.gemm.time.value() / flops;
    ++mean.rows;
  }
  int ratios = 0;
  for (auto& [name, by_multiple] : sweeps) {
    const auto per_row = [&by = by_multiple](int multiple) {
      const Mean& m = by.at(multiple);
      return std::pair{m.predicted / m.rows, m.measured / m.rows};
    };
    const auto [aligned, aligned_measured] = per_row(8);
    for (const int multiple : {1, 2}) {
      if (!by_multiple.contains(multiple)) continue;
      const auto [time, time_measured] = per_row(multiple);
      const double predicted = time / aligned, measured = time_measured / aligned_measured;
      std::printf("%-48s %s: %.2f times as long, measured %.2f\n", name.c_str(), multiple == 1 ? "odd " : "even",
                  predicted, measured);
      INFO(name << " " << multiple);
      // Volta loses less; nothing but these rows says how much.
      CHECK(std::abs(predicted / measured - 1) < (name.starts_with("a100") ? 0.2 : 0.45));
      ++ratios;
    }
  }
  CHECK(ratios == 6);
}

TEST_CASE("long products on B200 run at the sustained rate, not at the best of a sweep") {
  const auto e = held_out_gemms("b200_sxm", "gemm_by_shape.csv", 0, 1e12);
  CHECK(e.rows > 40);
  CHECK(e.p90 < 0.08);
}

TEST_CASE("flash attention of lengths that no fit saw") {
  struct Row {
    const char* gpu;
    const char* implementation;
    double median, p90;
  };
  for (const Row& r : {Row{"a100_sxm4_80", "flash2", 0.013, 0.045}, Row{"h100_sxm5_80", "flash2", 0.025, 0.05},
                       Row{"h100_sxm5_80", "flash3", 0.04, 0.065}, Row{"h100_sxm5_80", "cudnn", 0.03, 0.065},
                       Row{"gb200", "cudnn", 0.026, 0.075}, Row{"gb300", "cudnn", 0.032, 0.055},
                       Row{"gb200", "cudnn_fp8", 0.016, 0.087}, Row{"gb300", "cudnn_fp8", 0.021, 0.057},
                       Row{"gb200", "cudnn_mxfp8", 0.025, 0.05}, Row{"gb300", "cudnn_mxfp8", 0.025, 0.055}}) {
    INFO(r.gpu << " " << r.implementation);
    const auto e = held_out_attention(r.gpu, r.implementation);
    CHECK(e.rows >= 14);
    CHECK(e.median < r.median);
    CHECK(e.p90 < r.p90);
  }
}

TEST_CASE("attention to windows in 16 and 8 bits, of rows that no fit saw") {
  struct Row {
    const char* gpu;
    const char* implementation;
    double median;
  };
  for (const Row& r :
       {Row{"gb200", "cudnn", 0.03}, Row{"gb300", "cudnn", 0.12}, Row{"gb200", "cudnn_fp8", 0.042},
        Row{"gb300", "cudnn_fp8", 0.04}, Row{"gb200", "cudnn_mxfp8", 0.01}, Row{"gb300", "cudnn_mxfp8", 0.018}}) {
    INFO(r.gpu << " " << r.implementation);
    const auto e = held_out_attention(r.gpu, r.implementation, "window_attention.csv");
    CHECK(e.rows >= 3);
    CHECK(e.median < r.median);
  }
}

TEST_CASE("H20's slower tensor cores are held back less: predicted from H100's kernels and the datasheet") {
  const auto error = [](Seconds predicted, Flops operations, double tflops) {
    return predicted / (operations / FlopsPerSecond{tflops * 1e12}) - 1;
  };
  // zzc0721/torch-performance-test-data issue 77: bf16 products of n x n, TFLOP/s.
  struct Product {
    double n, tflops;
  };
  const KernelModel products = model_of("h20_96");
  for (const Product& p : {Product{1024, 95.12}, Product{2048, 120.27}, Product{4096, 133.41}, Product{8192, 138.60},
                           Product{10240, 142.25}}) {
    const Kernel k = make_gemm({1, p.n, p.n, p.n}, DType::bf16, DType::bf16);
    const double e = error(products.price(k).time, gemm_flops(k.gemm), p.tflops);
    std::printf("h20_96         product of %5.0f       %+5.1f %%\n", p.n, 100 * e);
    CHECK(std::abs(e) < 0.1);
  }
  // Dao-AILab/flash-attention issue 1310: forward of two sequences of 2,048. FlashAttention-2's instructions reach 0.57
  // of Hopper's peak at most, which the law doesn't know: it comes out 22 % too fast. cuDNN at head dimension 64, 17 %
  // too slow, is left out too.
  struct Attention {
    const char* implementation;
    double heads, head_dim;
    bool causal;
    double tflops;
  };
  for (const Attention& a : {Attention{"flash3", 32, 128, false, 126.2}, Attention{"flash3", 32, 128, true, 107.8},
                             Attention{"cudnn", 32, 128, false, 129.1}, Attention{"cudnn", 32, 128, true, 107.8},
                             Attention{"flash3", 64, 64, false, 120.1}, Attention{"flash3", 64, 64, true, 100.3}}) {
    const AttentionShape shape{2, a.heads, a.heads, 2048, 2048, a.head_dim, a.causal};
    const double e = error(model_of("h20_96", a.implementation).price(make_flash_attention(shape, DType::bf16)).time,
                           attention_flops(shape, false), a.tflops);
    std::printf("h20_96         %-6s d%-3.0f %-6s       %+5.1f %%\n", a.implementation, a.head_dim,
                a.causal ? "causal" : "full", 100 * e);
    CHECK(std::abs(e) < 0.1);
  }
}

TEST_CASE("no measured product beats the datasheet floor") {
  TableReader reader(kRoot + "/tests/published/data");
  for (const auto& row : read_gemms(reader, "gemm_by_shape.csv")) {
    INFO(row.gemm.id);
    const KernelModel& model = [&]() -> const KernelModel& {
      static std::map<std::string, KernelModel> models;
      return models.try_emplace(row.gpu, model_of(row.gpu)).first->second;
    }();
    CHECK(model.floor(kernel_of(row)) < row.gemm.time);
  }
}

TEST_CASE("a 22B layer put together from kernels takes the time of Korthikanti et al., Table 4") {
  const KernelModel model = model_of("a100_sxm4_80");
  std::ifstream in(kRoot + "/tests/published/korthikanti_table4.json");
  const auto file = nlohmann::json::parse(in);
  std::printf("\n%-28s %8s %8s %7s %8s %8s %7s\n", "22B layer, ms", "forward", "meas.", "error", "backward", "meas.",
              "error");
  int rows = 0;
  for (const auto& e : file["entries"]) {
    const auto& c = e["config"];
    const bool sp = c["sequence_parallel"].get<bool>();
    const auto recompute = c["recompute"].get<std::string>();
    const LayerTime t = layer_time(model, sp, recompute == "full", recompute == "selective");
    const double f = e["measured"]["forward_ms"], b = e["measured"]["backward_ms"];
    std::printf("%-28s %8.2f %8.1f %+6.1f%% %8.2f %8.1f %+6.1f%%\n", e["id"].get<std::string>().substr(27).c_str(),
                t.forward, f, 100 * (t.forward / f - 1), t.backward, b, 100 * (t.backward / b - 1));
    CHECK(std::abs(t.forward / f - 1) < 0.05);
    CHECK(std::abs(t.backward / b - 1) < 0.06);
    ++rows;
  }
  CHECK(rows == 5);
  const published::Layer22b layer;
  std::printf("parts, ms: forward kernels %.2f, attention core %.2f, backward kernels %.2f, weight gradients %.2f\n",
              total(model, layer.forward()), total(model, layer.attention_core_forward()),
              total(model, layer.backward()),
              total(model, layer.plain_weight_gradients()) + total(model, layer.covering_weight_gradients()));
}

namespace {

/// Time of a linear layer between a LayerNorm and a sigmoid, forward and backward, on one GPU.
double norm_linear_sigmoid(const KernelModel& model, const GemmShape& s, bool fp8) {
  const DType type = fp8 ? DType::fp8 : DType::bf16;
  double out = 0;
  for (const GemmShape& product :
       {GemmShape{1, s.m, s.n, s.k}, GemmShape{1, s.m, s.k, s.n}, GemmShape{1, s.n, s.k, s.m}})
    out += model.price(make_gemm(product, type, DType::bf16)).time.value();
  const auto moved = [&](double elements, double bytes) {
    return model.price(make_memory_bound(KernelClass::elementwise, Bytes{elements * bytes}, {}, DType::bf16))
        .time.value();
  };
  // Both read and write once forward, and read two and write one backward.
  out += moved(s.m * s.k, 10) + moved(s.m * s.n, 10);
  if (fp8)
    out += moved(s.m * s.k, ops::kRowwiseBytes.input) + moved(s.m * s.n, ops::kRowwiseBytes.output_grad) +
           moved(s.n * s.k, ops::kRowwiseBytes.weight);
  return out;
}

}  // namespace

TEST_CASE(
    "float8 with scales of rows is as much faster than bf16 as torchao's table says, on cells that no constant saw") {
  const GpuSpec gpu = published::gpu("h100_96_500w");
  const KernelModel model{gpu, load_calibration(kRoot + "/topologies/calibration", gpu, {.products = "pytorch"})};
  std::ifstream table(kRoot + "/tests/published/data/fp8_linear_speedup.csv");
  std::string line;
  std::getline(table, line);
  std::vector<double> predicted, measured;
  for (int row = 0; std::getline(table, line); ++row) {
    GemmShape s;
    double speedup = 0;
    REQUIRE(std::sscanf(line.c_str(), "%lf,%lf,%lf,%lf", &s.m, &s.n, &s.k, &speedup) == 4);
    if (row % 2 == 0 || s.m * s.n * s.k < std::pow(2, 35)) continue;  // Smaller ones take as long as their launches.
    predicted.push_back(norm_linear_sigmoid(model, s, false) / norm_linear_sigmoid(model, s, true));
    measured.push_back(speedup);
  }
  const auto e = summarise_errors(predicted, measured);
  std::printf("%-14s %-18s %5d rows  median %5.1f %%  p90 %5.1f %%  bias %+5.1f %%\n", gpu.id.c_str(),
              "fp8_linear_speedup", e.rows, 100 * e.median, 100 * e.p90, 100 * e.bias);
  CHECK(e.rows == 95);
  CHECK(e.median < 0.06);
  CHECK(e.p90 < 0.14);
}
