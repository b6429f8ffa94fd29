#pragma once
// Numbers that kernels leave on the host, and who waits for them.

#include <deque>
#include <functional>
#include <stdexcept>

#include "gpu_backend/cuda/check.hpp"
#include "gpu_backend/cuda/memory.hpp"

namespace rehearse::cuda {

class ObservedNumbers {
 public:
  ObservedNumbers() {
    void* numbers = nullptr;
    REHEARSE_CUDA(cudaMallocHost(&numbers, kInFlight * sizeof(double)));
    numbers_ = static_cast<double*>(numbers);
  }
  ~ObservedNumbers() { cudaFreeHost(numbers_); }
  ObservedNumbers(const ObservedNumbers&) = delete;
  ObservedNumbers& operator=(const ObservedNumbers&) = delete;

  /// A place that a kernel of `item` writes to; `then` is called with what it wrote.
  [[nodiscard]] double* place(ItemPtr item, std::function<void(double)> then) {
    if (waiting_.size() >= kInFlight)
      throw std::logic_error("more numbers are observed in a step than there is room for");
    double* at = numbers_ + next_++ % kInFlight;
    expect(std::move(item), at, std::move(then));
    return at;
  }
  /// A number that `item` leaves at a place of its own.
  void expect(ItemPtr item, const double* at, std::function<void(double)> then) {
    waiting_.push_back({std::move(item), at, std::move(then)});
  }
  /// Hands out what is there, in order of issue.
  void hand_out() {
    while (!waiting_.empty() && cudaEventQuery(waiting_.front().item->end) == cudaSuccess) {
      waiting_.front().then(*waiting_.front().at);
      waiting_.pop_front();
    }
    (void)cudaGetLastError();  // "Not ready" is no error.
  }
  void forget() { waiting_.clear(); }

 private:
  static constexpr std::size_t kInFlight = 65536;
  struct Waiting {
    ItemPtr item;
    const double* at;
    std::function<void(double)> then;
  };
  double* numbers_ = nullptr;  ///< Pinned, so that kernels write to it.
  std::size_t next_ = 0;
  std::deque<Waiting> waiting_;
};

}  // namespace rehearse::cuda
