#include "gpu_backend/cuda/recording.hpp"

#include <algorithm>

#include "gpu_backend/cuda/check.hpp"

namespace rehearse::cuda {

namespace {

constexpr std::size_t kPage = 65536;  // Numbers.

template <class T>
T* pinned() {
  void* out = nullptr;
  REHEARSE_CUDA(cudaMallocHost(&out, kPage * sizeof(T)));
  return static_cast<T*>(out);
}

}  // namespace

// The first pages are there before anything is captured: few steps need more.
GraphRecording::GraphRecording(std::shared_ptr<EventPool> events) : events_(std::move(events)) {
  add_page();
  add_observed_page();
}

void GraphRecording::add_page() {
  Page& page = pages_.emplace_back();
  page.staged = pinned<std::uint64_t>();
  void* memory = nullptr;
  REHEARSE_CUDA(cudaMalloc(&memory, kPage * sizeof(std::uint64_t)));
  page.on_device = static_cast<std::uint64_t*>(memory);
}

void GraphRecording::add_observed_page() { observed_pages_.push_back(pinned<double>()); }

GraphRecording::~GraphRecording() {
  cudaDeviceSynchronize();
  if (graph_ != nullptr) cudaGraphExecDestroy(graph_);
  if (fork_ != nullptr) events_->give_back(fork_);
  for (const Page& page : pages_) {
    cudaFree(page.on_device);
    cudaFreeHost(page.staged);
  }
  for (double* page : observed_pages_) cudaFreeHost(page);
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
  const std::size_t i = numbers_.size();
  if (i == pages_.size() * kPage) add_page();
  numbers_.push_back(std::move(of));
  return pages_.back().on_device + i % kPage;
}

double* GraphRecording::observe(std::function<void(double)> then) {
  const std::size_t i = observations_.size();
  if (i == observed_pages_.size() * kPage) add_observed_page();
  observations_.push_back({observed_pages_.back() + i % kPage, std::move(then)});
  return observations_.back().at;
}

bool GraphRecording::launch(cudaStream_t stream, std::int64_t step) {
  for (std::size_t first = 0; first < numbers_.size(); first += kPage) {
    const Page& page = pages_[first / kPage];
    const std::size_t n = std::min(kPage, numbers_.size() - first);
    for (std::size_t i = 0; i < n; ++i) page.staged[i] = numbers_[first + i](step);
    REHEARSE_CUDA(
        cudaMemcpyAsync(page.on_device, page.staged, n * sizeof(std::uint64_t), cudaMemcpyHostToDevice, stream));
  }
  const cudaError_t status = cudaGraphLaunch(graph_, stream);
  if (status == cudaErrorMemoryAllocation) {
    (void)cudaGetLastError();
    return false;
  }
  check(status, "cudaGraphLaunch");
  return true;
}

}  // namespace rehearse::cuda
