#pragma once
// Descriptors of cuDNN's back end: every tensor, operation, graph, engine and plan is one, made, given attributes and
// finalised. Source: cuDNN 9 back-end API (cudnn_graph.h).

#include <cudnn_graph.h>

#include <cstdint>
#include <initializer_list>
#include <vector>

#include "core/base/error.hpp"
#include "gpu_backend/cuda/load_library.hpp"

#define REHEARSE_CUDNN_CALL(name) REHEARSE_CALL_OF(cudnn_library, name)

namespace rehearse::cuda {

/// What cuDNN answered to a call that did not succeed: kept apart from other errors, because while a graph is described
/// and a plan is made it means that cuDNN does not take the shape, which a caller acts on.
class CudnnFailure final : public Error {
 public:
  CudnnFailure(cudnnStatus_t status, const char* call);
};

/// Throws CudnnFailure unless `status` is success.
void check(cudnnStatus_t status, const char* call);

/// Owns one descriptor.
class CudnnDescriptor {
 public:
  CudnnDescriptor() = default;
  explicit CudnnDescriptor(cudnnBackendDescriptorType_t kind);
  ~CudnnDescriptor();
  CudnnDescriptor(CudnnDescriptor&& other) noexcept;
  CudnnDescriptor& operator=(CudnnDescriptor&& other) noexcept;
  CudnnDescriptor(const CudnnDescriptor&) = delete;
  CudnnDescriptor& operator=(const CudnnDescriptor&) = delete;
  [[nodiscard]] cudnnBackendDescriptor_t get() const { return handle_; }

  // ---- attributes; all throw CudnnFailure

  void set(cudnnBackendAttributeName_t what, cudnnBackendAttributeType_t type, std::int64_t count, const void* values);
  void set(cudnnBackendAttributeName_t what, const CudnnDescriptor& value);
  void set(cudnnBackendAttributeName_t what, const std::vector<const CudnnDescriptor*>& values);
  void set(cudnnBackendAttributeName_t what, const std::vector<std::int64_t>& values);
  void set_integer(cudnnBackendAttributeName_t what, std::int64_t value);
  void set_flag(cudnnBackendAttributeName_t what, bool value);
  void set_type(cudnnBackendAttributeName_t what, cudnnDataType_t value);
  void finalise();

  [[nodiscard]] std::int64_t integer(cudnnBackendAttributeName_t what) const;
  /// The descriptor that an attribute holds, of a kind that the caller knows.
  [[nodiscard]] CudnnDescriptor inner(cudnnBackendAttributeName_t what, cudnnBackendDescriptorType_t kind) const;

 private:
  cudnnBackendDescriptor_t handle_ = nullptr;
};

}  // namespace rehearse::cuda
