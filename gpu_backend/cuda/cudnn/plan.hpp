#pragma once
// A graph of cuDNN operations, decided: which kernels, and how much memory they want beside their operands.

#include <memory>
#include <span>

#include "gpu_backend/cuda/cudnn/graph.hpp"

namespace rehearse::cuda {

/// Where a tensor lies, or the host's number.
struct CudnnPlace {
  std::int64_t id;
  const void* at;
};

class CudnnPlan {
 public:
  /// The first of the engines that cuDNN proposes whose results repeat bit for bit (`deterministic`), or the first of
  /// all. Throws CudnnFailure where there is none.
  CudnnPlan(cudnnHandle_t handle, std::unique_ptr<CudnnGraph> graph, bool deterministic);

  [[nodiscard]] std::size_t workspace_bytes() const { return workspace_bytes_; }
  /// Enqueues on the handle's stream. `workspace` holds workspace_bytes(). Throws CudnnFailure.
  void run(cudnnHandle_t handle, std::span<const CudnnPlace> places, void* workspace) const;

 private:
  /// Whether these settings of an engine make a plan: then it is this one.
  bool decide(cudnnHandle_t handle, CudnnDescriptor settings, bool deterministic);
  std::unique_ptr<CudnnGraph> graph_;
  CudnnDescriptor engine_, plan_;
  std::size_t workspace_bytes_ = 0;
};

}  // namespace rehearse::cuda
