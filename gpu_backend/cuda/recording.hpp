#pragma once
// A step as a CUDA graph: captured from the streams of its tasks, launched again and again. Numbers that differ from
// step to step lie in device memory and are written before each launch; numbers that the host observes are written to
// pinned memory.

#include <cuda_runtime_api.h>

#include <cstdint>
#include <functional>
#include <set>
#include <vector>

#include "gpu_backend/cuda/memory.hpp"

namespace rehearse::cuda {

/// A number that a kernel leaves on the host, and who gets it.
struct Observation {
  double* at = nullptr;
  std::function<void(double)> then;
};

class GraphRecording final : public Recording {
 public:
  /// `events` has events without times. Nothing is captured yet.
  explicit GraphRecording(std::shared_ptr<EventPool> events);
  ~GraphRecording() override;
  GraphRecording(const GraphRecording&) = delete;
  GraphRecording& operator=(const GraphRecording&) = delete;

  // ---- while recording

  /// From here on `origin`, and all streams that join, capture what they are given. Calls that CUDA counts as unsafe
  /// stay allowed: NCCL takes memory when it first meets a capture, and other ranks of this process may do anything.
  void begin(cudaStream_t origin);
  /// Before the first work on a stream.
  void join(cudaStream_t stream);
  /// Makes the graph. Throws Error (check_failed) with what CUDA says.
  void end();
  /// Ends a capture that failed.
  void abandon() noexcept;
  /// As in LaunchContext.
  [[nodiscard]] const void* changing(std::function<std::uint64_t(std::int64_t step)> of);
  [[nodiscard]] double* observe(std::function<void(double)> then);

  // ---- after

  /// Enqueues the step on a stream. The launch before has to be done: its numbers are overwritten. False where the
  /// device has no memory left for what the graph takes: nothing was enqueued of the step.
  [[nodiscard]] bool launch(cudaStream_t stream, std::int64_t step);
  [[nodiscard]] const std::vector<Observation>& observations() const { return observations_; }

 private:
  std::shared_ptr<EventPool> events_;
  cudaStream_t origin_ = nullptr;
  cudaEvent_t fork_ = nullptr;
  std::set<cudaStream_t> joined_;
  cudaGraphExec_t graph_ = nullptr;
  /// Room for kPage numbers, which stays where it is: kernels know the places.
  struct Page {
    std::uint64_t *staged = nullptr, *on_device = nullptr;
  };  ///< Pinned, and where kernels read them.
  void add_page();
  void add_observed_page();

  std::vector<std::function<std::uint64_t(std::int64_t)>> numbers_;
  std::vector<Page> pages_;  ///< Of `numbers_`.
  std::vector<Observation> observations_;
  std::vector<double*> observed_pages_;  ///< Of `observations_`, pinned.
};

}  // namespace rehearse::cuda
