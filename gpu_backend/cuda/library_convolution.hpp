#pragma once
// Convolutions by cuDNN, where there is a cuDNN 9 and it takes the shape. Columns and products (ops/convolution.cpp)
// compute the same, are what tests compare with, and do all that is declined here: fp64, fp32 unless products may round
// factors to tf32, operands of different types, and tiles whose windows begin inside their halo.
//
//   if (!library.run(stream, ConvolutionResult::small_image, small, weights, large, shape, scratch)) own(...);

#include <cuda_runtime_api.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "gpu_backend/cuda/kernels/kernels.hpp"

namespace rehearse::cuda {

/// Which of the three tensors of a convolution is made of the other two.
enum class ConvolutionResult { small_image, large_image, weights };

/// Two contiguous images [batch, channels, sides...] and the weights [channels of the small one, channels of the large
/// one in a group, window...]. Element o of the small image reads element o * stride - before + k * dilation of the
/// large one, along each side; what lies outside is zero.
struct ConvolutionShape {
  static constexpr int kSides = 3;  ///< Those that an image lacks come first, and have length 1.
  std::int64_t batch = 0, groups = 1, small_channels = 0, large_channels = 0;  ///< Channels of all groups.
  std::array<std::int64_t, kSides> small{1, 1, 1}, large{1, 1, 1}, window{1, 1, 1}, stride{1, 1, 1}, before{}, after{},
      dilation{1, 1, 1};
  ElementType type = ElementType::real16;  ///< Of all three: engines that make fp32 of bfloat16 are none.
  auto operator<=>(const ConvolutionShape&) const = default;
};

struct LibraryConvolutionOptions {
  /// Bytes that a call may borrow, at most; engines that want more are passed over.
  std::size_t most_scratch = std::size_t{1} << 30;
};

/// Opens cuDNN at the first call. One per device and host thread. Plans are made once per shape and kept; results
/// repeat bit for bit. REHEARSE_CUDNN=off in the environment declines all.
class LibraryConvolution {
 public:
  using Scratch = std::function<void*(std::size_t bytes)>;

  explicit LibraryConvolution(const LibraryConvolutionOptions& options);
  ~LibraryConvolution();
  LibraryConvolution(const LibraryConvolution&) = delete;
  LibraryConvolution& operator=(const LibraryConvolution&) = delete;

  /// Makes the plan of a shape, so that no call has to.
  void prepare(ConvolutionResult result, const ConvolutionShape& shape);
  /// Enqueues and returns true, or declines, enqueues nothing and returns false. `scratch` lends device memory until
  /// the stream is done with the call. It may be captured into a CUDA graph. Throws Error (check_failed) with what
  /// cuDNN says where it fails after taking the shape.
  [[nodiscard]] bool run(cudaStream_t stream, ConvolutionResult result, Reals small, Reals weights, Reals large,
                         const ConvolutionShape& shape, const Scratch& scratch);

  /// Who does what: "cuDNN 9.19.0: 9 of 12 kinds of calls"; "own kernels: cannot open libcudnn.so.9". Empty where none
  /// was asked for.
  [[nodiscard]] std::string description() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace rehearse::cuda
