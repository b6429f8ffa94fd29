#pragma once
// NVIDIA's libraries are opened when they are first called, so that the program also starts where they are not
// installed.

#include <string>

namespace rehearse::cuda {

class Library {
 public:
  /// `file` as the loader finds it ("libnccl.so.2"), else in `folder`, where it lay when this was built. Throws Error
  /// (unavailable) with what the loader says.
  Library(const std::string& file, const std::string& folder);
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;
  /// Throws Error (unavailable) where the library is too old to have it.
  template <class Function>
  [[nodiscard]] Function function(const char* name) const {
    return reinterpret_cast<Function>(address(name));
  }

 private:
  [[nodiscard]] void* address(const char* name) const;
  std::string file_;
  void* handle_;
};

/// Opened at the first call.
[[nodiscard]] const Library& cublaslt_library();
[[nodiscard]] const Library& cublas_library();
[[nodiscard]] const Library& nccl_library();
[[nodiscard]] const Library& cudnn_library();

}  // namespace rehearse::cuda

/// The function of a library that a header declares, looked up once per place: REHEARSE_CALL_OF(nccl_library,
/// ncclGroupStart)().
#define REHEARSE_CALL_OF(library, name)                                                                   \
  ([] {                                                                                                   \
    static const auto function_of_library = ::rehearse::cuda::library().function<decltype(&name)>(#name); \
    return function_of_library;                                                                           \
  }())
