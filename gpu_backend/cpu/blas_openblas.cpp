#include <cstdlib>

#include <cblas.h>

#include "gpu_backend/cpu/blas.hpp"

namespace rehearse {

namespace {

blasint narrow(std::int64_t x) { return static_cast<blasint>(x); }
CBLAS_TRANSPOSE order(bool transposed) { return transposed ? CblasTrans : CblasNoTrans; }

}  // namespace

template <>
void gemm(std::int64_t m, std::int64_t n, std::int64_t k, float alpha, const MatrixView<float>& a,
          const MatrixView<float>& b, float beta, float* c, std::int64_t stride) {
  if (m == 0 || n == 0) return;
  cblas_sgemm(CblasRowMajor, order(a.transposed), order(b.transposed), narrow(m), narrow(n), narrow(k), alpha, a.data,
              narrow(a.stride), b.data, narrow(b.stride), beta, c, narrow(stride));
}

template <>
void gemm(std::int64_t m, std::int64_t n, std::int64_t k, double alpha, const MatrixView<double>& a,
          const MatrixView<double>& b, double beta, double* c, std::int64_t stride) {
  if (m == 0 || n == 0) return;
  cblas_dgemm(CblasRowMajor, order(a.transposed), order(b.transposed), narrow(m), narrow(n), narrow(k), alpha, a.data,
              narrow(a.stride), b.data, narrow(b.stride), beta, c, narrow(stride));
}

int set_blas_threads(int threads) {
  if (std::getenv("OPENBLAS_NUM_THREADS") == nullptr) openblas_set_num_threads(threads);
  return openblas_get_num_threads();
}
const char* blas_name() { return "OpenBLAS"; }

}  // namespace rehearse
