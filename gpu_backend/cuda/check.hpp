#pragma once
// CUDA calls that fail throw: the sticky error is cleared and the call's text is carried.

#include <cuda_runtime_api.h>

#include "core/base/error.hpp"

namespace rehearse::cuda {

/// Throws Error (check_failed) "CALL: what CUDA says" unless `status` is success.
inline void check(cudaError_t status, const char* call) {
  if (status == cudaSuccess) return;
  (void)cudaGetLastError();
  throw Error(ErrorKind::check_failed, std::string(call) + ": " + cudaGetErrorString(status), "cuda");
}

}  // namespace rehearse::cuda

/// Runs a call of the CUDA runtime.
#define REHEARSE_CUDA(call) ::rehearse::cuda::check((call), #call)
