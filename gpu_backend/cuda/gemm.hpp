#pragma once
// Matrix products by cuBLASLt: row-major operands, one choice of algorithm per shape, kept for the life of the process.

#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>

#include "gpu_backend/execute/numerics.hpp"

namespace rehearse::cuda {

/// `data[i * stride + j]` is row i, column j as stored; `transposed` means that the product reads it the other way
/// round. Matrix number b of a batch lies b * next elements on.
struct GemmOperand {
  const void* data = nullptr;
  ElementType type = ElementType::real32;
  std::int64_t stride = 0;
  bool transposed = false;
  std::int64_t next = 0;
};

/// What is done to the sums on the way to C, by cuBLASLt's epilogues. GELU is that by tanh.
enum class Epilogue {
  none,
  gelu,       ///< C = GELU(sums); what went in is kept at `aux`, unless that is null.
  gelu_grad,  ///< C = sums * GELU'(aux)
  row_sums    ///< The sums of op(A)'s rows, m numbers in C's type, go to `row_sums`: a bias's gradient.
};

/// C[m,n] = alpha * op(A)[m,k] op(B)[k,n] + beta * D (+ bias of n elements in C's type, to every row), where D is C or
/// what `added` points to. The bias, `aux` and `row_sums` begin at multiples of 16 bytes.
struct GemmCall {
  std::int64_t m = 0, n = 0, k = 0, batch = 1;
  GemmOperand a, b, c;
  double alpha = 1, beta = 0;
  const void* bias = nullptr;
  bool tf32 = false;            ///< Factors of fp32 products may be rounded to tf32.
  const void* added = nullptr;  ///< Stored as C is; null: C itself.
  Epilogue epilogue = Epilogue::none;
  void* aux = nullptr;       ///< [m,n], stored as C is; n is a multiple of 8.
  void* row_sums = nullptr;  ///< Of `epilogue`.
};

/// fp32 x fp32, fp64 x fp64 (DGEMM) and bfloat16 x bfloat16 into bfloat16 or fp32; sums in fp32, or fp64 for fp64.
class Gemm {
 public:
  /// `workspace` bytes of device memory are taken for each stream that products run on.
  explicit Gemm(std::size_t workspace);
  ~Gemm();
  Gemm(const Gemm&) = delete;
  Gemm& operator=(const Gemm&) = delete;

  /// Throws Error (unavailable) where cuBLASLt knows no way.
  void run(cudaStream_t stream, const GemmCall& call);
  /// Whether it knows one. Not for products of nothing.
  [[nodiscard]] bool offers(const GemmCall& call);

  /// Seconds of the algorithm that run() uses and of the fastest of all that cuBLASLt proposes, medians over `repeats`:
  /// how good its first choice is.
  struct Choice {
    double used_s = 0, best_s = 0;
    int candidates = 0;
  };
  [[nodiscard]] Choice compare(cudaStream_t stream, const GemmCall& call, int repeats);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace rehearse::cuda
