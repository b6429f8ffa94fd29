#pragma once
// Datasheets of the GPUs that the measurements were made on: what a fit needs of them and no more.

#include <stdexcept>
#include <string>

#include "core/hardware/specs.hpp"

namespace published {

inline rehearse::GpuSpec gpu(const std::string& id) {
  using namespace rehearse;
  struct Row { const char* id; const char* generation; double hbm, half, fp8, fp32; int sms; double l2, watts; };
  static constexpr Row rows[] = {
      {"v100_sxm2_16", "volta", 0.9e12, 125e12, 0, 15.7e12, 80, 6291456, 300},
      {"a100_sxm4_80", "ampere", 2.039e12, 312e12, 0, 19.5e12, 108, 41943040, 400},
      {"a100_pcie_80", "ampere", 1.935e12, 312e12, 0, 19.5e12, 108, 41943040, 300},
      {"a40", "ampere", 0.696e12, 149.7e12, 0, 37.4e12, 84, 6291456, 300},
      {"h100_sxm5_80", "hopper", 3.35e12, 989.4e12, 1978.9e12, 66.9e12, 132, 52428800, 700},
      {"b200_sxm", "blackwell", 7.7e12, 2250e12, 4500e12, 80e12, 148, 132120576, 1000},
  };
  for (const Row& r : rows)
    if (id == r.id) {
      GpuSpec g;
      g.id = g.name = r.id;
      g.generation = r.generation;
      g.memory_bandwidth = BytesPerSecond{r.hbm};
      g.peak_dense = {{DType::fp16, FlopsPerSecond{r.half}}, {DType::bf16, FlopsPerSecond{r.half}}, {DType::fp32, FlopsPerSecond{r.fp32}}};
      if (r.fp8 > 0) g.peak_dense[DType::fp8] = FlopsPerSecond{r.fp8};
      g.sm_count = r.sms;
      g.l2 = Bytes{r.l2};
      g.tdp = Watts{r.watts};
      return g;
    }
  throw std::out_of_range("no datasheet for " + id);
}

}  // namespace published
