#pragma once
// Attention by cuDNN's fused kernels, where there is a cuDNN 9 and it takes the shape. The kernels of
// kernels/attention*.cu compute the same, are what tests compare with, and do all that is declined here: dropout, whose
// random numbers are the CPU's, queries and keys at positions of their own, other types than bfloat16, windows on GPUs
// whose kernels have none.
//
//   if (!fused.forward(stream, q, k, v, out, lse, shape, scratch)) attention(stream, q, k, v, out, lse, shape);

#include <cuda_runtime_api.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "gpu_backend/cuda/kernels/kernels.hpp"

namespace rehearse::cuda {

struct FusedAttentionOptions {
  /// Whether results repeat bit for bit. False: gradients of the queries may be added up in any order.
  bool deterministic = true;
  /// Bytes that a call may borrow, at most; shapes that want more are declined. Deterministic backward passes on Hopper
  /// keep the gradients of all scores, batch x heads x queries x keys x 2 bytes.
  std::size_t most_scratch = std::size_t{2} << 30;
};

/// Opens cuDNN at the first call. One per device and host thread. Plans are made once per shape and kept. A shape whose
/// scratch the device has no room for is declined from then on. REHEARSE_CUDNN=off in the environment declines all;
/// REHEARSE_CUDNN=any-order is `deterministic` false, for less scratch and time.
class FusedAttention {
 public:
  using Scratch = std::function<void*(std::size_t bytes)>;

  explicit FusedAttention(const FusedAttentionOptions& options);
  ~FusedAttention();
  FusedAttention(const FusedAttention&) = delete;
  FusedAttention& operator=(const FusedAttention&) = delete;

  /// Makes the plan of a shape for operands of `type`, so that no call has to.
  void prepare(const AttentionShape& shape, ElementType type, bool backward);

  // Both enqueue and return true, or decline, enqueue nothing and return false; operands as attention() and
  // attention_grad() take them. `scratch` lends device memory until the stream is done with the call. They may be
  // captured into a CUDA graph. Throw Error (check_failed) with what cuDNN says where it fails after taking the shape.
  [[nodiscard]] bool forward(cudaStream_t stream, Reals q, Reals k, Reals v, Reals out, Reals lse,
                             const AttentionShape& shape, const Scratch& scratch);
  [[nodiscard]] bool backward(cudaStream_t stream, Reals dout, Reals q, Reals k, Reals v, Reals out, Reals lse,
                              Reals dq, Reals dk, Reals dv, const AttentionShape& shape, const Scratch& scratch);

  /// Who does what: "cuDNN 9.19.0: 2 of 2 kinds of calls, gradients in one order"; "own kernels: cannot open
  /// libcudnn.so.9".
  [[nodiscard]] std::string description() const;
  /// Bytes that backward borrows for a shape; 0 where it is declined.
  [[nodiscard]] std::size_t backward_scratch(const AttentionShape& shape);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace rehearse::cuda
