#pragma once
// CUB's histogram of evenly spaced levels, on the machine on the CPU.

#include "../../cuda_runtime.h"

namespace cub {

struct DeviceHistogram {
  template <class Sample, class Counter>
  static cudaError_t HistogramEven(void* scratch, std::size_t& bytes, const Sample* samples, Counter* counts,
                                   int levels, Sample lower, Sample upper, int n, cudaStream_t stream) {
    constexpr std::size_t kNeeded = 256;
    if (scratch == nullptr) return bytes = kNeeded, cudaSuccess;
    if (bytes < kNeeded || levels < 2 || upper - lower != levels - 1) return cudaErrorInvalidConfiguration;
    on_cpu::issued.kernels += 2;
    return on_cpu_do(stream, [=] {
      if (!on_cpu::settings().computes) return;
      for (int i = 0; i + 1 < levels; ++i) counts[i] = Counter{0};
      for (int i = 0; i < n; ++i)
        if (samples[i] >= lower && samples[i] < upper) ++counts[samples[i] - lower];
    });
  }
};

}  // namespace cub
