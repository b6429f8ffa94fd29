#pragma once
// Sorting by CUB's radix sort, of what kernels would otherwise go over once for each key: tokens by their row of a
// table, choices by their expert. It is stable, so that sums over what has one key come in one order, whatever the
// order of blocks; its time grows with n alone. Below kSortFrom the four to eight launches of a sort cost more than the
// n numbers that kernels which need none read again for each key; those are the reference, too.

#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>

// As in cuda_runtime_api.h, so that host code need not read it.
typedef struct CUstream_st* cudaStream_t;

namespace rehearse::cuda {

inline constexpr std::int64_t kSortFrom = 4096;
[[nodiscard]] inline bool worth_sorting(std::int64_t n) {
  return n >= kSortFrom && n <= std::numeric_limits<int>::max();
}

/// n numbers with a key each, before and after.
struct KeyedNumbers {
  std::uint32_t *keys, *sorted_keys;
  int *numbers, *sorted;
  void* rest;  ///< What CUB borrows.
  std::size_t rest_bytes;
};
/// Bytes for all of that; keys are at most `most`.
[[nodiscard]] std::size_t keyed_numbers_bytes(std::int64_t n, std::uint32_t most);
/// In a block of so many bytes that begins at a multiple of 256.
[[nodiscard]] KeyedNumbers keyed_numbers(void* block, std::int64_t n, std::uint32_t most);
/// Writes keys and numbers in the order of the keys; numbers with one key keep their order.
void sort_by_key(cudaStream_t, const KeyedNumbers& all, std::int64_t n, std::uint32_t most);

/// How many of `n` values, all from 0 to `kinds` - 1, are each.
[[nodiscard]] std::size_t histogram_scratch_bytes(std::int64_t n, std::int64_t kinds);
void histogram(cudaStream_t, const std::int64_t* values, std::int64_t n, int* counts, std::int64_t kinds,
               void* scratch);

}  // namespace rehearse::cuda
