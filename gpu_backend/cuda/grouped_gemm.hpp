#pragma once
// Products of unlike sizes as one launch, by cuBLAS 12.5 or later (cublasGemmGroupedBatchedEx): those of experts whose
// rows the data decides. cuBLASLt has none in CUDA 13.0. What it declines is done product by product (gemm.hpp), which
// is the reference, too.
//
//   if (!grouped.run(stream, products, scratch))
//     for (const GemmCall& g : products) gemm.run(stream, g);

#include <functional>
#include <memory>
#include <span>

#include "gpu_backend/cuda/gemm.hpp"

namespace rehearse::cuda {

class GroupedGemm {
 public:
  using Scratch = std::function<void*(std::size_t bytes)>;

  GroupedGemm();
  ~GroupedGemm();
  GroupedGemm(const GroupedGemm&) = delete;
  GroupedGemm& operator=(const GroupedGemm&) = delete;

  /// Enqueues all of them and returns true, or enqueues nothing and returns false: where there is no such library, or
  /// it does not take types, transposes that differ, or operands that do not begin and go on at multiples of 16 bytes.
  /// No product may read or write what another writes. Bias, epilogues and what is added elsewhere are not done here.
  /// `scratch` lends device memory until the stream is done with the call. Not while a stream is recorded: what it
  /// copies there are addresses of this call.
  [[nodiscard]] bool run(cudaStream_t stream, std::span<const GemmCall> products, const Scratch& scratch);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace rehearse::cuda
