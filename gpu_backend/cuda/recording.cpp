#include "gpu_backend/cuda/recording.hpp"

#include <stdexcept>

#include "gpu_backend/cuda/check.hpp"

namespace rehearse::cuda {

namespace {

constexpr std::size_t kRoom = 65536;   // Numbers of each kind in a step.

template <class T>
T* pinned() {
  void* out = nullptr;
  REHEARSE_CUDA(cudaMallocHost(&out, kRoom * sizeof(T)));
  return static_cast<T*>(out);
}

}  // namespace

GraphRecording::GraphRecording(std::shared_ptr<EventPool> events) : events_(std::move(events)), staged_(pinned<std::uint64_t>()), observed_(pinned<double>()) {
  void* memory = nullptr;
  REHEARSE_CUDA(cudaMalloc(&memory, kRoom * sizeof(std::uint64_t)));
  on_device_ = static_cast<std::uint64_t*>(memory);
}

GraphRecording::~GraphRecording() {
  cudaDeviceSynchronize();
  if (graph_ != nullptr) cudaGraphExecDestroy(graph_);
  if (fork_ != nullptr) events_->give_back(fork_);
  cudaFree(on_device_);
  cudaFreeHost(staged_);
  cudaFreeHost(observed_);
}

void GraphRecording::begin(cudaStream_t origin) {
  origin_ = origin;
  fork_ = events_->take();
  REHEARSE_CUDA(cudaStreamBeginCapture(origin, cudaStreamCaptureModeRelaxed));
  REHEARSE_CUDA(cudaEventRecord(fork_, origin));
}

void GraphRecording::join(cudaStream_t stream) {
  if (stream != origin_ && joined_.insert(stream).second) REHEARSE_CUDA(cudaStreamWaitEvent(stream, fork_, 0));
}

void GraphRecording::end() {
  for (const cudaStream_t stream : joined_) {
    const cudaEvent_t last = events_->take();
    REHEARSE_CUDA(cudaEventRecord(last, stream));
    REHEARSE_CUDA(cudaStreamWaitEvent(origin_, last, 0));
    events_->give_back(last);
  }
  cudaGraph_t captured = nullptr;
  REHEARSE_CUDA(cudaStreamEndCapture(origin_, &captured));
  // Kernels keep the priorities of their streams: what others wait for goes first.
  const cudaError_t status = cudaGraphInstantiateWithFlags(&graph_, captured, cudaGraphInstantiateFlagUseNodePriority);
  cudaGraphDestroy(captured);
  check(status, "cudaGraphInstantiateWithFlags");
}

void GraphRecording::abandon() noexcept {
  cudaGraph_t captured = nullptr;
  if (cudaStreamEndCapture(origin_, &captured) == cudaSuccess && captured != nullptr) cudaGraphDestroy(captured);
  (void)cudaGetLastError();
}

const void* GraphRecording::changing(std::function<std::uint64_t(std::int64_t step)> of) {
  if (numbers_.size() >= kRoom) throw std::logic_error("more numbers change from step to step than there is room for");
  numbers_.push_back(std::move(of));
  return on_device_ + (numbers_.size() - 1);
}

double* GraphRecording::observe(std::function<void(double)> then) {
  if (observations_.size() >= kRoom) throw std::logic_error("more numbers are observed in a step than there is room for");
  observations_.push_back({observed_ + observations_.size(), std::move(then)});
  return observations_.back().at;
}

void GraphRecording::launch(cudaStream_t stream, std::int64_t step) {
  for (std::size_t i = 0; i < numbers_.size(); ++i) staged_[i] = numbers_[i](step);
  if (!numbers_.empty()) REHEARSE_CUDA(cudaMemcpyAsync(on_device_, staged_, numbers_.size() * sizeof(std::uint64_t), cudaMemcpyHostToDevice, stream));
  REHEARSE_CUDA(cudaGraphLaunch(graph_, stream));
}

}  // namespace rehearse::cuda
