#pragma once
// cuDNN, opened when it is first needed, for one device and host thread.

#include <string>

#include "gpu_backend/cuda/cudnn/descriptor.hpp"

namespace rehearse::cuda {

/// Whether REHEARSE_CUDNN in the environment is `what`.
[[nodiscard]] bool cudnn_wish(const char* what);

class CudnnSession {
 public:
  CudnnSession() = default;
  ~CudnnSession();
  CudnnSession(const CudnnSession&) = delete;
  CudnnSession& operator=(const CudnnSession&) = delete;

  /// Null where cuDNN is not used; missing() says why then.
  [[nodiscard]] cudnnHandle_t handle();
  [[nodiscard]] bool opened() const { return opened_; }
  [[nodiscard]] const std::string& missing() const { return missing_; }
  /// major * 10000 + minor * 100 + patch
  [[nodiscard]] std::size_t version() const { return version_; }
  /// "9.19.0"
  [[nodiscard]] std::string name_of_version() const;

 private:
  void open();
  cudnnHandle_t handle_ = nullptr;
  std::size_t version_ = 0;
  std::string missing_;
  bool opened_ = false;
};

}  // namespace rehearse::cuda
