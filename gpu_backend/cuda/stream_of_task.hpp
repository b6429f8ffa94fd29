#pragma once
// What a transport on streams asks of the device it serves.

#include <cuda_runtime_api.h>

namespace rehearse::cuda {

class StreamOfTask {
 public:
  virtual ~StreamOfTask() = default;
  /// The stream of the task that is being issued.
  [[nodiscard]] virtual cudaStream_t stream_of_task() const = 0;
};

}  // namespace rehearse::cuda
