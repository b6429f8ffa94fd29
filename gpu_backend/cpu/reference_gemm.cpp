#include "gpu_backend/cpu/blas.hpp"

namespace rehearse {

template <class T>
void reference_gemm(std::int64_t m, std::int64_t n, std::int64_t k, T alpha, const MatrixView<T>& a,
                    const MatrixView<T>& b, T beta, T* c, std::int64_t stride) {
  for (std::int64_t i = 0; i < m; ++i) {
    for (std::int64_t j = 0; j < n; ++j) {
      T sum{0};
      for (std::int64_t x = 0; x < k; ++x)
        sum += (a.transposed ? a.data[x * a.stride + i] : a.data[i * a.stride + x]) *
               (b.transposed ? b.data[j * b.stride + x] : b.data[x * b.stride + j]);
      T& out = c[i * stride + j];
      out = alpha * sum + (beta == T{0} ? T{0} : beta * out);
    }
  }
}

template void reference_gemm(std::int64_t, std::int64_t, std::int64_t, float, const MatrixView<float>&,
                             const MatrixView<float>&, float, float*, std::int64_t);
template void reference_gemm(std::int64_t, std::int64_t, std::int64_t, double, const MatrixView<double>&,
                             const MatrixView<double>&, double, double*, std::int64_t);

}  // namespace rehearse
