#pragma once
// Matrix products on the CPU: a BLAS where one is found, and the loop that says what it computes.

#include <cstdint>

namespace rehearse {

/// One operand: `data[i * stride + j]` is row i, column j as stored; `transposed` means that the product reads it the
/// other way round.
template <class T>
struct MatrixView {
  const T* data;
  std::int64_t stride;
  bool transposed = false;
};

/// C[m,n] = alpha * op(A)[m,k] op(B)[k,n] + beta * C, row-major. With beta 0, C need not be initialised.
template <class T>
void gemm(std::int64_t m, std::int64_t n, std::int64_t k, T alpha, const MatrixView<T>& a, const MatrixView<T>& b,
          T beta, T* c, std::int64_t stride);
/// The same by the plain loop.
template <class T>
void reference_gemm(std::int64_t m, std::int64_t n, std::int64_t k, T alpha, const MatrixView<T>& a,
                    const MatrixView<T>& b, T beta, T* c, std::int64_t stride);

/// Threads that share products and other loops of this process's operators (team.hpp), unless the user has said in
/// OPENBLAS_NUM_THREADS how many. Returns how many they are then.
int set_cpu_threads(int threads);
/// "OpenBLAS", "CBLAS" or "plain loops".
[[nodiscard]] const char* blas_name();

}  // namespace rehearse
