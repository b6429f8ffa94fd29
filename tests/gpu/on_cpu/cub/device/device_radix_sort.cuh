#pragma once
// CUB's radix sort, on the machine on the CPU: as many launches, and refused where CUB's would be wrong.

#include <algorithm>
#include <vector>

#include "../../cuda_runtime.h"

namespace cub {

struct DeviceRadixSort {
  static constexpr int kBitsOfPass = 8, kOneTile = 4864;

  template <class Key, class Value>
  static cudaError_t SortPairs(void* scratch, std::size_t& bytes, const Key* keys, Key* sorted_keys,
                               const Value* values, Value* sorted_values, int n, int first_bit, int end_bit,
                               cudaStream_t stream) {
    const int passes = (end_bit - first_bit + kBitsOfPass - 1) / kBitsOfPass;
    const std::size_t needed =
        static_cast<std::size_t>(n) * (sizeof(Key) + sizeof(Value)) + static_cast<std::size_t>(passes) * 1024 + 256;
    if (scratch == nullptr) return bytes = needed, cudaSuccess;
    if (bytes < needed || first_bit < 0 || end_bit > static_cast<int>(8 * sizeof(Key)) || first_bit >= end_bit)
      return cudaErrorInvalidConfiguration;
    if (keys == sorted_keys || values == sorted_values || reinterpret_cast<std::uintptr_t>(scratch) % 256 != 0)
      return cudaErrorInvalidConfiguration;
    on_cpu::issued.kernels += n <= kOneTile ? 1 : 2 + passes;
    on_cpu::issued.fills += n <= kOneTile ? 0 : 2 + passes;
    return on_cpu_do(stream, [=] {
      if (!on_cpu::settings().computes) return;
      std::memset(scratch, 0xff, needed);
      std::vector<std::pair<Key, int>> order;
      for (int i = 0; i < n; ++i)
        order.emplace_back(
            static_cast<Key>(keys[i] >> first_bit << (8 * static_cast<int>(sizeof(Key)) - end_bit + first_bit)), i);
      std::stable_sort(order.begin(), order.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
      for (int i = 0; i < n; ++i)
        sorted_keys[i] = keys[order[static_cast<std::size_t>(i)].second],
        sorted_values[i] = values[order[static_cast<std::size_t>(i)].second];
    });
  }
};

}  // namespace cub
