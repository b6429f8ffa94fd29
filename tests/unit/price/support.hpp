#pragma once
// A round-figured GPU and constants, so that expected values can be worked out by hand.

#include "core/price/kernels/kernel.hpp"

namespace cost_test {

using namespace rehearse;

inline GpuSpec toy_gpu(std::string id = "toy", std::string generation = "toy") {
  GpuSpec g;
  g.id = std::move(id);
  g.generation = std::move(generation);
  g.memory_bandwidth = BytesPerSecond{1e12};
  g.peak_dense = {{DType::fp16, FlopsPerSecond{100e12}},
                  {DType::bf16, FlopsPerSecond{100e12}},
                  {DType::fp32, FlopsPerSecond{10e12}}};
  g.sm_count = 100;
  g.l2 = Bytes{40e6};
  g.tdp = Watts{400};
  return g;
}

inline void put(CalibrationProfile& p, const std::string& group, const std::string& name, double value) {
  p.groups[group].constants[name] = {value, "toy", 0, 0};
}

inline CalibrationProfile toy_profile(const std::string& formula = "soft_roofline") {
  CalibrationProfile p;
  p.generation = "toy";
  p.attention = "attention_toy";
  p.sources = {{"toy", "made up for the test", Evidence::published}};
  for (const char* group : {"gemm", "gemm_fp8", "gemm_fp4"}) {
    p.groups[group].formula = formula;
    put(p, group, "efficiency", 0.8);
    put(p, group, "bandwidth_fraction", 0.5);
    put(p, group, "fixed_s", 2e-6);
    put(p, group, "overlap_power", 2);
    put(p, group, "accumulate_factor", 0.9);
  }
  for (const char* cls : {"softmax", "norm", "elementwise", "embedding", "cross_entropy", "optimizer", "reduction",
                          "copy", "pool", "batch_norm", "quantise_mxfp8", "quantise_nvfp4", "state_space"}) {
    put(p, cls, "bandwidth_fraction", 0.5);
    put(p, cls, "fixed_s", 1e-6);
  }
  for (int c = 0; c < kConvolutionClasses; ++c) {
    const auto cls = static_cast<ConvolutionClass>(c);
    for (int i = 0; i < kConvolutionParameters; ++i) {
      const auto parameter = static_cast<ConvolutionParameter>(i);
      const std::string name(name_of(parameter));
      const bool share = name.starts_with("efficiency") || name.starts_with("bandwidth");
      if (has(cls, parameter)) put(p, std::string(group_of(cls)), name, share ? 0.5 : 0);
    }
    put(p, std::string(group_of(cls)), "fixed_s", 2e-6);
    put(p, std::string(group_of(cls)), "overlap_power", 2);
  }
  put(p, p.attention, "efficiency_d64", 0.4);
  put(p, p.attention, "efficiency_d128", 0.6);
  put(p, p.attention, "backward_ratio", 0.8);
  put(p, p.attention, "start_keys", 0);
  put(p, p.attention, "diagonal_keys", 0);
  put(p, p.attention, "fixed_s", 0);
  put(p, "alignment", "slowdown", 3);
  put(p, "alignment", "slowdown_4_bytes", 1.5);
  put(p, "launch", "overhead_s", 8e-6);
  return p;
}

}  // namespace cost_test
