#include "gpu_backend/cuda/kernels/order.hpp"

#include <cub/device/device_histogram.cuh>
#include <cub/device/device_radix_sort.cuh>

#include "gpu_backend/cuda/check.hpp"

namespace rehearse::cuda {

namespace {

constexpr std::size_t kBlockAlignment = 256;
std::size_t in_blocks(std::size_t bytes) { return (bytes + kBlockAlignment - 1) / kBlockAlignment * kBlockAlignment; }

/// Also asks how many bytes it borrows, where `rest` is null.
void radix_sort(cudaStream_t stream, const KeyedNumbers& all, std::int64_t n, std::uint32_t most, std::size_t& bytes) {
  REHEARSE_CUDA(cub::DeviceRadixSort::SortPairs(all.rest, bytes, all.keys, all.sorted_keys, all.numbers, all.sorted,
                                                static_cast<int>(n), 0, static_cast<int>(std::bit_width(most)),
                                                stream));
}
std::size_t radix_sort_bytes(std::int64_t n, std::uint32_t most) {
  std::size_t bytes = 0;
  radix_sort(nullptr, {}, n, most, bytes);
  return bytes;
}
void count_values(cudaStream_t stream, const std::int64_t* values, std::int64_t n, int* counts, std::int64_t kinds,
                  void* scratch, std::size_t& bytes) {
  REHEARSE_CUDA(cub::DeviceHistogram::HistogramEven(scratch, bytes, values, counts, static_cast<int>(kinds) + 1,
                                                    std::int64_t{0}, kinds, static_cast<int>(n), stream));
}

}  // namespace

std::size_t keyed_numbers_bytes(std::int64_t n, std::uint32_t most) {
  return 4 * in_blocks(static_cast<std::size_t>(n) * sizeof(int)) + in_blocks(radix_sort_bytes(n, most));
}

KeyedNumbers keyed_numbers(void* block, std::int64_t n, std::uint32_t most) {
  const std::size_t each = in_blocks(static_cast<std::size_t>(n) * sizeof(int));
  auto* at = static_cast<std::byte*>(block);
  return {reinterpret_cast<std::uint32_t*>(at),
          reinterpret_cast<std::uint32_t*>(at + each),
          reinterpret_cast<int*>(at + 2 * each),
          reinterpret_cast<int*>(at + 3 * each),
          at + 4 * each,
          radix_sort_bytes(n, most)};
}

void sort_by_key(cudaStream_t stream, const KeyedNumbers& all, std::int64_t n, std::uint32_t most) {
  std::size_t bytes = all.rest_bytes;
  radix_sort(stream, all, n, most, bytes);
}

std::size_t histogram_scratch_bytes(std::int64_t n, std::int64_t kinds) {
  std::size_t bytes = 0;
  count_values(nullptr, nullptr, n, nullptr, kinds, nullptr, bytes);
  return bytes;
}

void histogram(cudaStream_t stream, const std::int64_t* values, std::int64_t n, int* counts, std::int64_t kinds,
               void* scratch) {
  std::size_t bytes = histogram_scratch_bytes(n, kinds);
  count_values(stream, values, n, counts, kinds, scratch, bytes);
}

}  // namespace rehearse::cuda
