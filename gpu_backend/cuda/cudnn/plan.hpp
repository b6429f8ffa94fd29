#pragma once
// A graph of cuDNN operations, decided: which kernels, and how much memory they want beside their operands.

#include <limits>
#include <memory>
#include <span>
#include <string_view>

#include "gpu_backend/cuda/cudnn/graph.hpp"

namespace rehearse::cuda {

/// Where a tensor lies, or the host's number.
struct CudnnPlace {
  std::int64_t id;
  const void* at;
};

/// What a plan is for: the device of a handle; or one that is only described, by its properties, which may not run it.
class CudnnTarget {
 public:
  explicit CudnnTarget(cudnnHandle_t handle) : handle_(handle) {}
  /// The properties as cuDNN writes them in JSON. Throws CudnnFailure before cuDNN 9.8.
  explicit CudnnTarget(std::string_view properties);
  [[nodiscard]] cudnnHandle_t handle() const { return handle_; }
  [[nodiscard]] const CudnnDescriptor* properties() const { return handle_ == nullptr ? &properties_ : nullptr; }

 private:
  cudnnHandle_t handle_ = nullptr;
  CudnnDescriptor properties_;
};

/// What engines are passed over: never taken are those that add up in 16 bits.
struct CudnnWish {
  bool deterministic = true;                                             ///< Results repeat bit for bit.
  std::size_t most_workspace = std::numeric_limits<std::size_t>::max();  ///< Bytes.
};

class CudnnPlan {
 public:
  /// The first of the engines that cuDNN proposes. Throws CudnnFailure where there is none.
  CudnnPlan(const CudnnTarget& target, std::unique_ptr<CudnnGraph> graph, const CudnnWish& wish);

  [[nodiscard]] std::size_t workspace_bytes() const { return workspace_bytes_; }
  /// Enqueues. `workspace` holds workspace_bytes(). Throws CudnnFailure.
  void run(cudnnHandle_t handle, cudaStream_t stream, std::span<const CudnnPlace> places, void* workspace) const;

 private:
  /// Whether these settings of an engine make a plan: then it is this one.
  bool decide(const CudnnTarget& target, CudnnDescriptor settings, const CudnnWish& wish);
  std::unique_ptr<CudnnGraph> graph_;
  CudnnDescriptor engine_, plan_;
  std::size_t workspace_bytes_ = 0;
};

}  // namespace rehearse::cuda
