#include "gpu_backend/cuda/load_library.hpp"

#include <dlfcn.h>

#include "core/base/error.hpp"

namespace rehearse::cuda {

Library::Library(const std::string& file, const std::string& folder)
    : file_(file), handle_(::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL)) {
  if (handle_ == nullptr) handle_ = ::dlopen((folder + "/" + file).c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle_ != nullptr) return;
  const char* why = ::dlerror();
  throw Error(ErrorKind::unavailable,
              "cannot open " + file + (why != nullptr ? std::string(": ") + why : std::string()), "--device cuda",
              "install it, or name its folder in LD_LIBRARY_PATH");
}

void* Library::address(const char* name) const {
  void* out = ::dlsym(handle_, name);
  if (out == nullptr)
    throw Error(ErrorKind::unavailable, file_ + " has no " + name, "--device cuda",
                "install the version that this program was built with");
  return out;
}

// CMake says what the libraries are called and where they were found.
const Library& cublaslt_library() {
  static const Library library(REHEARSE_CUBLASLT_FILE, REHEARSE_CUBLASLT_FOLDER);
  return library;
}
const Library& cublas_library() {
  static const Library library(REHEARSE_CUBLAS_FILE, REHEARSE_CUBLASLT_FOLDER);
  return library;
}
const Library& cudnn_library() {
  static const Library library("libcudnn.so.9", REHEARSE_CUDNN_FOLDER);
  return library;
}
const Library& nccl_library() {
  static const Library library("libnccl.so.2", REHEARSE_NCCL_FOLDER);
  return library;
}

}  // namespace rehearse::cuda
