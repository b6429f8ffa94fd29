#include "core/base/error.hpp"
#include "tests/published/gpus.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/source_path.hpp"
#include "tests/unit/price/support.hpp"

using namespace cost_test;

namespace {

const std::string kShipped = rehearse::testing::source_path("topologies/calibration");

std::string where_of(const std::string& json) {
  try {
    static_cast<void>(parse_calibration(json, "x.json"));
  } catch (const Error& e) {
    return e.where;
  }
  return "no error";
}

std::string document(const std::string& constant) {
  return R"({"schema": "rehearse/calibration/v1", "generation": "toy", "sources": [{"key": "s", "text": "t",
  "evidence": "published"}],
             "kernels": {"norm": {"constants": {"bandwidth_fraction": )" +
         constant + "}}}}";
}

GpuSpec blackwell(const std::string& id, double peak, double watts) {
  GpuSpec g = published::gpu("b200_sxm");
  g.id = id;
  g.peak_dense[DType::bf16] = FlopsPerSecond{peak};
  g.tdp = Watts{watts};
  return g;
}

}  // namespace

TEST_CASE("a profile survives being written and read") {
  auto p = toy_profile("tile_wave");
  p.groups["gemm"].measured_on = {"toy"};
  p.groups["gemm"].held_out = {12, 0.03, 0.1, -0.01};
  p.groups["gemm"].constants["efficiency"] = {0.8, "toy", 12, -0.9};
  p.gpus["toy_pcie"]["norm"].constants["bandwidth_fraction"] = {0.4, "toy", 0, 0};
  p.errors.push_back({"gemm toy, all", {12, 0.03, 0.1, -0.01}});
  p.fitted_on.push_back({"rows.csv", "0123456789abcdef", 12, "fedcba9876543210"});
  const auto text = to_json(p);
  const auto again = parse_calibration(text, "again");
  CHECK(to_json(again) == text);
  CHECK(again.fitted_on == p.fitted_on);
  CHECK(again.gpus.at("toy_pcie").at("norm").constants.at("bandwidth_fraction").value == 0.4);
}

TEST_CASE("mistakes in a profile are found with their place") {
  CHECK(where_of(document(R"({"value": 0.5, "source": "s"})")) == "no error");
  CHECK(where_of(document(R"({"value": 0.5, "source": "s", "valu": 1})")).find("/norm/constants/bandwidth_fraction") !=
        std::string::npos);
  CHECK(where_of(document(R"({"value": "0.5", "source": "s"})")).find("bandwidth_fraction") != std::string::npos);
  CHECK(where_of(document(R"({"value": 0.5})")) != "no error");
  CHECK(where_of(document(R"({"value": 0.5, "source": "nobody"})")) != "no error");
  CHECK(where_of("{") != "no error");
  CHECK(where_of(R"({"schema": "rehearse/calibration/v9"})") != "no error");
}

TEST_CASE("a GPU takes its own constants, then its generation's, then the fallback's") {
  auto fallback = toy_profile();
  CalibrationProfile generation;
  generation.generation = "gen";
  generation.sources = fallback.sources;
  put(generation, "norm", "bandwidth_fraction", 0.6);
  put(generation, "softmax", "bandwidth_fraction", 0.7);
  generation.gpus["own"]["norm"].constants["bandwidth_fraction"] = {0.4, "toy", 0, 0};
  const auto own = resolve_calibration(fallback, &generation, toy_gpu("own", "gen"));
  const auto kin = resolve_calibration(fallback, &generation, toy_gpu("kin", "gen"));
  CHECK(own.value("norm", "bandwidth_fraction") == 0.4);
  CHECK(own.value("softmax", "bandwidth_fraction") == 0.7);
  CHECK(own.value("copy", "bandwidth_fraction") == 0.5);
  CHECK(own.value("norm", "fixed_s") == 1e-6);
  CHECK(kin.value("norm", "bandwidth_fraction") == 0.6);
  CHECK(resolve_calibration(fallback, nullptr, toy_gpu()).value("norm", "bandwidth_fraction") == 0.5);
}

TEST_CASE("every GPU of the catalogue and an unknown one get a complete model that stays above the roofline") {
  const Catalogue catalogue(rehearse::testing::source_path("topologies"));
  const auto ids = catalogue.names(Catalogue::Kind::gpu);
  REQUIRE(ids.size() > 20);
  for (const auto& id : ids) {
    INFO(id);
    const GpuSpec& gpu = *catalogue.gpu(id);
    const KernelModel model(gpu, load_calibration(kShipped, gpu));
    CHECK(model.evidence().size() >= 12);
    CHECK(model.launch_overhead().value() > 0);
    for (const auto& k : {make_gemm({1, 8192, 8192, 8192}, DType::fp16, DType::fp16),
                          make_flash_attention({4, 32, 32, 4096, 4096, 128, true}, DType::fp16),
                          make_memory_bound(KernelClass::norm, Bytes{1e9}, Bytes{1e9})})
      CHECK(model.price(k).time > model.floor(k));
  }
  const KernelModel unknown(toy_gpu("nobody", "nowhere"), load_calibration(kShipped, toy_gpu("nobody", "nowhere")));
  for (const auto& item : unknown.evidence())
    if (item.what == "gemm") CHECK(item.evidence == Evidence::estimate);
}

TEST_CASE("a measured GPU keeps its level; kin of the same generation are bounded by their power") {
  const auto level = [](const GpuSpec& g) {
    return load_calibration(kShipped, g, {.bursts = true}).value("gemm", "efficiency");
  };
  CHECK(level(published::gpu("b200_sxm")) == Approx(0.49).margin(0.02));
  CHECK(level(blackwell("gb200", 2500e12, 1200)) == Approx(1200 / (2500e12 * 0.896e-12)));
  CHECK(level(blackwell("hot", 2500e12, 2400)) == Approx(0.74));  // The units themselves limit.
  GpuSpec pcie = published::gpu("h100_sxm5_80");
  pcie.id = "h100_pcie_80";
  pcie.peak_dense[DType::bf16] = FlopsPerSecond{756.5e12};
  pcie.tdp = Watts{350};
  CHECK(level(pcie) == Approx(350 / (756.5e12 * 0.96e-12)));
  CHECK(level(published::gpu("h100_sxm5_80")) > 0.7);
}

TEST_CASE("slower tensor cores around the same SMs lose a smaller share; clocks alone change nothing") {
  const auto value = [](const char* gpu, const char* group, const char* constant) {
    return load_calibration(kShipped, published::gpu(gpu), {.bursts = true}).value(group, constant);
  };
  const auto held = [](double e, double share) { return 1 / (1 + (1 / e - 1) * share); };
  const double h20 = 148e12 / 78 / 7.495e12, geforce = 71e12 / 82 / 2.889e12;
  CHECK(value("h20_96", "gemm", "efficiency") == Approx(held(0.74, h20)).epsilon(1e-3));
  CHECK(value("h20_96", "gemm", "k_prologue") ==
        Approx(h20 * value("h100_sxm5_80", "gemm", "k_prologue")).epsilon(1e-3));
  CHECK(value("h20_96", "attention_flash3", "efficiency_d128") ==
        Approx(held(value("h100_sxm5_80", "attention_flash3", "efficiency_d128"), h20)).epsilon(1e-3));
  CHECK(value("rtx3090", "gemm", "efficiency") ==
        Approx(held(value("a100_sxm4_40", "gemm", "efficiency"), geforce)).epsilon(2e-3));
  for (const char* same : {"h800_sxm5_80", "h200_sxm"})
    CHECK(value(same, "gemm", "k_prologue") == value("h100_sxm5_80", "gemm", "k_prologue"));
  CHECK(value("a10", "gemm", "efficiency") == value("a100_sxm4_40", "gemm", "efficiency"));
}

TEST_CASE("products of a layer on B300 take what NVIDIA's table says") {
  // NVIDIA/TransformerEngine @d0067d0, docs/examples/gemm_profiling: 15,872 tokens, hidden size 4,096, inner 16,384; ms
  // of twelve products, operands cast before.
  struct Row {
    DType type;
    double ms;
  };
  const GpuSpec b300 = published::gpu("b300_sxm");
  const KernelModel model(b300, load_calibration(kShipped, b300));
  const double tokens = 15872, h = 4096;
  for (const Row row : {Row{DType::bf16, 13.102}, Row{DType::bf16, 12.758}, Row{DType::fp8, 6.812},
                        Row{DType::mxfp8, 7.161}, Row{DType::fp4, 3.764}}) {
    double ms = 0;
    const auto add = [&](double m, double n, double k) {
      ms += model.price(make_gemm({1, m, n, k}, row.type, DType::bf16)).time.value() * 1e3;
    };
    for (const auto& [n, k] : {std::pair{3 * h, h}, {h, h}, {4 * h, h}, {h, 4 * h}})
      add(tokens, n, k), add(tokens, k, n), add(k, n, tokens);
    CHECK(ms == Approx(row.ms).epsilon(0.03));
  }
}

TEST_CASE("casts of a layer's operands on B300 take what NVIDIA's table says") {
  // The same table, autocast less operands cast before: activations are cast along both dimensions, weights along one;
  // elements of twelve products.
  constexpr double activations = 1.495e9, weights = 0.988e9, scales = 1.0 / 32;
  const GpuSpec b300 = published::gpu("b300_sxm");
  const KernelModel model(b300, load_calibration(kShipped, b300));
  const auto ms = [&](KernelClass c, double read, double written) {
    return model.price(make_memory_bound(c, Bytes{read}, Bytes{written})).time.value() * 1e3;
  };
  const double elements = activations + weights, amax = ms(KernelClass::elementwise, 2 * elements, 0);
  CHECK(ms(KernelClass::quantise_mxfp8, 2 * elements, (2 * activations + weights) * (1 + scales)) ==
        Approx(8.984 - 7.161).epsilon(0.03));
  CHECK(amax + ms(KernelClass::elementwise, 2 * elements, elements) == Approx(9.147 - 6.812).epsilon(0.03));
  CHECK(amax + ms(KernelClass::quantise_nvfp4, 2 * elements, (2 * activations + weights) * (0.5 + 1.0 / 16)) ==
        Approx(6.453 - 3.764).epsilon(0.03));
}

TEST_CASE("Blackwell Ultra sustains more operations for its watts than Blackwell") {
  const auto per_watt = [](const char* gpu) {
    const GpuSpec g = published::gpu(gpu);
    return load_calibration(kShipped, g).value("gemm", "efficiency") * g.peak(DType::bf16).value() / g.tdp.value();
  };
  CHECK(per_watt("b300_sxm") > 1.15 * per_watt("b200_sxm"));
  CHECK(per_watt("gb300") > 1.15 * per_watt("gb200"));
}

TEST_CASE(
    "over a training run an operation in fp8 takes more than half the energy of Transformer Engine's in bf16, on every "
    "Hopper") {
  for (const char* gpu : {"h100_sxm5_80", "h100_pcie_80", "h200_sxm"}) {
    const GpuSpec g = published::gpu(gpu);
    const auto gain = [&](const CalibrationOptions& o) {
      const auto p = load_calibration(kShipped, g, o);
      return 2 * p.value("gemm_fp8", "efficiency") / p.value("gemm", "efficiency");
    };
    CHECK(gain({}) > 1.6);
    CHECK(gain({}) < 1.9);  // What benchmarks of products alone give on H200 NVL.
    CHECK(gain({.products = "pytorch"}) > gain({}));
    CHECK(gain({.bursts = true}) == Approx(2).epsilon(0.01));
  }
}

TEST_CASE(
    "constants fitted on steps of one GPU are that GPU's, and its attention's limit holds for all versions there") {
  const auto profile = [](const char* gpu, bool bursts) {
    return load_calibration(kShipped, published::gpu(gpu), {.bursts = bursts});
  };
  const auto limit = [&](const char* gpu, const char* version, bool bursts) {
    return profile(gpu, bursts).value_or(std::string("attention_") + version, "sustained", 0);
  };
  for (const char* version : {"cudnn", "cudnn_9.13"}) {
    CHECK(limit("b200_sxm", version, false) > 0);
    CHECK(limit("b200_sxm", version, true) == 0);
    CHECK(limit("gb200", version, false) == 0);
  }
  // Steps say what products reach, in 16 bits less and in 8 more than kernels measured alone would have it; the power
  // limit takes nothing off again.
  CHECK(profile("b200_sxm", false).value("gemm", "efficiency") < profile("b200_sxm", true).value("gemm", "efficiency"));
  CHECK(profile("b200_sxm", false).value("gemm_fp8", "efficiency") >
        profile("b200_sxm", true).value("gemm_fp8", "efficiency"));
  for (const StepConstant& c : load_step_constants(kShipped))
    if (c.gpu == "b200_sxm" && c.constant == "efficiency")
      CHECK(profile("b200_sxm", false).value(c.group, "efficiency") == c.value);
}

TEST_CASE(
    "the power limit bounds products of types that nobody measured on a GPU, also beside types that somebody did") {
  GpuSpec limited = published::gpu("b200_sxm");
  const auto full = load_calibration(kShipped, limited, {.bursts = true});
  limited.tdp = limited.tdp * 0.5;
  const auto half = load_calibration(kShipped, limited, {.bursts = true});
  CHECK(half.value("gemm", "efficiency") == full.value("gemm", "efficiency"));
  CHECK(half.value("gemm_fp8", "efficiency") == Approx(full.value("gemm_fp8", "efficiency") / 2));
}

TEST_CASE("products of blocks with scales are slower than those of one scale, products in fp4 faster") {
  const GpuSpec gpu = published::gpu("b300_sxm");
  const KernelModel model(gpu, load_calibration(kShipped, gpu));
  const auto rate = [&](DType t) {
    return 1 / model.price(make_gemm({1, 32768, 32768, 32768}, t, DType::bf16)).time.value();
  };
  CHECK(rate(DType::mxfp8) / rate(DType::fp8) == Approx(0.95).epsilon(0.01));
  CHECK(rate(DType::fp4) / rate(DType::fp8) == Approx(1.85).epsilon(0.02));
}

TEST_CASE("versions of a library that were measured apart on one generation are one kernel on another") {
  const auto shape = make_flash_attention({4, 32, 32, 8192, 8192, 128, true}, DType::bf16);
  const auto time = [&](const char* gpu, const char* version) {
    const GpuSpec g = published::gpu(gpu);
    return KernelModel(g, load_calibration(kShipped, g, {version})).price(shape).time;
  };
  CHECK(time("h100_sxm5_80", "cudnn_9.13") == time("h100_sxm5_80", "cudnn"));
  CHECK(time("gb300", "cudnn_9.13") > 1.1 * time("gb300", "cudnn"));
}

TEST_CASE("what is priced by other constants says that nobody tested it so") {
  const auto errors = [](const char* gpu, const std::string& what) {
    const GpuSpec g = published::gpu(gpu);
    const KernelModel model(g, load_calibration(kShipped, g));
    for (const EvidenceItem& item : model.evidence())
      if (item.what == what) return item.held_out.rows;
    return -1;
  };
  CHECK(errors("h100_sxm5_80", "attention_flash3") > 0);
  CHECK(errors("h100_sxm5_80", "fp8_attention_flash3") == 0);
  CHECK(errors("gb300", "fp8_attention_cudnn") > 0);
  CHECK(errors("gb300", "gemm_fp4") == 0);
}

TEST_CASE("attention in fp8 is faster where it was measured, and as in 16 bits elsewhere") {
  const auto gain = [](const char* gpu, DType t) {
    const GpuSpec g = published::gpu(gpu);
    const KernelModel model(g, load_calibration(kShipped, g));
    const AttentionShape s{2, 64, 8, 16384, 16384, 128, true};
    return model.price(make_flash_attention(s, DType::bf16)).time / model.price(make_flash_attention(s, t)).time;
  };
  CHECK(gain("gb300", DType::fp8) > 1.4);
  CHECK(gain("gb300", DType::mxfp8) > 1.2);
  CHECK(gain("gb300", DType::mxfp8) < gain("gb300", DType::fp8));
  CHECK(gain("h100_sxm5_80", DType::fp8) == Approx(1));
}

TEST_CASE("constants carried over to a GPU nobody measured are estimates and claim no error figure") {
  GpuSpec kin = published::gpu("a100_sxm4_80");
  const auto measured = evidence_of(load_calibration(kShipped, kin), "gemm");
  CHECK(measured.evidence == Evidence::published);
  CHECK(measured.held_out.rows > 500);
  kin.id = "a800_sxm4_80";
  const auto carried = evidence_of(load_calibration(kShipped, kin), "gemm");
  CHECK(carried.evidence == Evidence::estimate);
  CHECK(carried.held_out.rows == 0);
}

TEST_CASE("flash attention is chosen by implementation: one of the generation before is far slower") {
  const GpuSpec gpu = published::gpu("h100_sxm5_80");
  const auto shape = make_flash_attention({4, 32, 32, 8192, 8192, 128, true}, DType::bf16);
  const KernelModel current(gpu, load_calibration(kShipped, gpu));
  const KernelModel previous(gpu, load_calibration(kShipped, gpu, {"flash2"}));
  CHECK(previous.price(shape).time / current.price(shape).time > 1.5);
  CHECK_THROWS_AS(load_calibration(kShipped, gpu, {"flash22"}), Error);
}
