#pragma once
// Copies of many pieces at once: how packing and unpacking of blocks move bytes, and the lists of it that kernels read.

#include <cuda_runtime_api.h>

#include <map>
#include <vector>

#include "gpu_backend/cuda/kernels/kernels.hpp"
#include "gpu_backend/execute/element_range.hpp"

namespace rehearse::cuda {

/// What moves blocks, of elements of `size` bytes, to where they lie one after the other.
[[nodiscard]] std::vector<Piece> packing(const ElementRanges& blocks, std::size_t size);
/// The same back.
[[nodiscard]] std::vector<Piece> unpacking(const ElementRanges& blocks, std::size_t size);
[[nodiscard]] std::int64_t bytes_of(const std::vector<Piece>& pieces);

/// Lists in device memory, written once each: what goes where is the same every step.
class PieceLists {
 public:
  PieceLists() = default;
  ~PieceLists();
  PieceLists(const PieceLists&) = delete;
  PieceLists& operator=(const PieceLists&) = delete;

  [[nodiscard]] const Piece* on_device(const std::vector<Piece>& pieces);
  /// Puts the copies on a stream.
  void move(cudaStream_t stream, const std::byte* from, std::byte* to, const std::vector<Piece>& pieces);

 private:
  std::map<std::vector<Piece>, Piece*> lists_;
};

}  // namespace rehearse::cuda
