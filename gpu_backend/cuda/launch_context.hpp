#pragma once
// Where CUDA operators launch: the stream of the task at hand, and what they may borrow until it is done.

#include <cuda_runtime_api.h>

#include <cstddef>
#include <functional>
#include <vector>

#include "gpu_backend/cuda/fused_attention.hpp"
#include "gpu_backend/cuda/gemm.hpp"
#include "gpu_backend/cuda/grouped_gemm.hpp"
#include "gpu_backend/cuda/library_convolution.hpp"

namespace rehearse {

namespace cuda {
struct Piece;
}

struct LaunchContext {
  cudaStream_t stream = nullptr;
  cuda::Gemm* gemm = nullptr;
  cuda::GroupedGemm* grouped_gemm = nullptr;
  cuda::FusedAttention* fused_attention = nullptr;
  cuda::LibraryConvolution* convolution = nullptr;
  /// Device memory, given back in order of the stream when the operator has been launched.
  std::function<void*(std::size_t bytes)> scratch;
  /// A number on the device, of 8 bytes, that a kernel of this task writes; `then` gets it once a wait has seen the
  /// task done.
  std::function<double*(std::function<void(double)> then)> observe;
  /// A list in device memory, kept for the life of the device: for lists that are the same in every step.
  std::function<const cuda::Piece*(const std::vector<cuda::Piece>& pieces)> listed;
  /// While a step is recorded: 8 bytes of device memory that hold what `of` gives for the step it is replayed as. Null
  /// otherwise: this call is for its own step.
  std::function<const void*(std::function<std::uint64_t(std::int64_t step)> of)> changing;
};

}  // namespace rehearse
