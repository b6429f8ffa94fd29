#include "gpu_backend/cuda/cudnn/session.hpp"

#include <cstdlib>
#include <string_view>

#include <fmt/format.h>

namespace rehearse::cuda {

namespace {

constexpr std::size_t kOldest = 90600;             ///< Before, the host had to clear a sum of attention's backward.
constexpr std::size_t kFaulty[] = {91000, 91001};  ///< NVIDIA's frontend refuses them for attention.

}  // namespace

bool cudnn_wish(const char* what) {
  const char* value = std::getenv("REHEARSE_CUDNN");
  return value != nullptr && std::string_view(value) == what;
}

CudnnSession::~CudnnSession() {
  if (handle_ != nullptr) (void)REHEARSE_CUDNN_CALL(cudnnDestroy)(handle_);
}

cudnnHandle_t CudnnSession::handle() {
  if (!opened_) open();
  return handle_;
}

void CudnnSession::open() {
  opened_ = true;
  if (cudnn_wish("off")) {
    missing_ = "REHEARSE_CUDNN=off";
    return;
  }
  try {
    version_ = REHEARSE_CUDNN_CALL(cudnnGetVersion)();
    bool known = version_ >= kOldest;
    for (const std::size_t faulty : kFaulty) known = known && version_ != faulty;
    if (known)
      check(REHEARSE_CUDNN_CALL(cudnnCreate)(&handle_), "cudnnCreate");
    else
      missing_ = fmt::format("cuDNN {} is not used", name_of_version());
  } catch (const Error& e) {
    missing_ = e.what();
    handle_ = nullptr;
  }
}

std::string CudnnSession::name_of_version() const {
  return fmt::format("{}.{}.{}", version_ / 10000, version_ / 100 % 100, version_ % 100);
}

}  // namespace rehearse::cuda
