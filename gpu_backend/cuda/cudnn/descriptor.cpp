#include "gpu_backend/cuda/cudnn/descriptor.hpp"

#include <string>
#include <utility>

namespace rehearse::cuda {

CudnnFailure::CudnnFailure(cudnnStatus_t status, const char* call)
    : Error(ErrorKind::check_failed, std::string(call) + ": " + REHEARSE_CUDNN_CALL(cudnnGetErrorString)(status),
            "cuda", "REHEARSE_CUDNN=off leaves cuDNN out") {}

void check(cudnnStatus_t status, const char* call) {
  if (status != CUDNN_STATUS_SUCCESS) throw CudnnFailure(status, call);
}

CudnnDescriptor::CudnnDescriptor(cudnnBackendDescriptorType_t kind) {
  check(REHEARSE_CUDNN_CALL(cudnnBackendCreateDescriptor)(kind, &handle_), "cudnnBackendCreateDescriptor");
}
CudnnDescriptor::~CudnnDescriptor() {
  if (handle_ != nullptr) (void)REHEARSE_CUDNN_CALL(cudnnBackendDestroyDescriptor)(handle_);
}
CudnnDescriptor::CudnnDescriptor(CudnnDescriptor&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
CudnnDescriptor& CudnnDescriptor::operator=(CudnnDescriptor&& other) noexcept {
  std::swap(handle_, other.handle_);
  return *this;
}

void CudnnDescriptor::set(cudnnBackendAttributeName_t what, cudnnBackendAttributeType_t type, std::int64_t count,
                          const void* values) {
  check(REHEARSE_CUDNN_CALL(cudnnBackendSetAttribute)(handle_, what, type, count, values), "cudnnBackendSetAttribute");
}
void CudnnDescriptor::set(cudnnBackendAttributeName_t what, const CudnnDescriptor& value) {
  set(what, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &value.handle_);
}
void CudnnDescriptor::set(cudnnBackendAttributeName_t what, const std::vector<const CudnnDescriptor*>& values) {
  std::vector<cudnnBackendDescriptor_t> handles;
  for (const CudnnDescriptor* d : values) handles.push_back(d->handle_);
  set(what, CUDNN_TYPE_BACKEND_DESCRIPTOR, static_cast<std::int64_t>(handles.size()), handles.data());
}
void CudnnDescriptor::set(cudnnBackendAttributeName_t what, const std::vector<std::int64_t>& values) {
  set(what, CUDNN_TYPE_INT64, static_cast<std::int64_t>(values.size()), values.data());
}
void CudnnDescriptor::set_integer(cudnnBackendAttributeName_t what, std::int64_t value) {
  set(what, CUDNN_TYPE_INT64, 1, &value);
}
void CudnnDescriptor::set_flag(cudnnBackendAttributeName_t what, bool value) {
  set(what, CUDNN_TYPE_BOOLEAN, 1, &value);
}
void CudnnDescriptor::set_type(cudnnBackendAttributeName_t what, cudnnDataType_t value) {
  set(what, CUDNN_TYPE_DATA_TYPE, 1, &value);
}
void CudnnDescriptor::finalise() { check(REHEARSE_CUDNN_CALL(cudnnBackendFinalize)(handle_), "cudnnBackendFinalize"); }

std::int64_t CudnnDescriptor::integer(cudnnBackendAttributeName_t what) const {
  std::int64_t value = 0, count = 0;
  check(REHEARSE_CUDNN_CALL(cudnnBackendGetAttribute)(handle_, what, CUDNN_TYPE_INT64, 1, &count, &value),
        "cudnnBackendGetAttribute");
  return value;
}
CudnnDescriptor CudnnDescriptor::inner(cudnnBackendAttributeName_t what, cudnnBackendDescriptorType_t kind) const {
  CudnnDescriptor out(kind);
  std::int64_t count = 0;
  check(REHEARSE_CUDNN_CALL(cudnnBackendGetAttribute)(handle_, what, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &count,
                                                      &out.handle_),
        "cudnnBackendGetAttribute");
  return out;
}

}  // namespace rehearse::cuda
