#include <algorithm>
#include <cstdlib>

#include <cblas.h>

#include "gpu_backend/cpu/blas.hpp"
#include "gpu_backend/cpu/team.hpp"

namespace rehearse {

namespace {

blasint narrow(std::int64_t x) { return static_cast<blasint>(x); }
CBLAS_TRANSPOSE order(bool transposed) { return transposed ? CblasTrans : CblasNoTrans; }

void product(std::int64_t m, std::int64_t n, std::int64_t k, float alpha, const MatrixView<float>& a,
             const MatrixView<float>& b, float beta, float* c, std::int64_t stride) {
  cblas_sgemm(CblasRowMajor, order(a.transposed), order(b.transposed), narrow(m), narrow(n), narrow(k), alpha, a.data,
              narrow(a.stride), b.data, narrow(b.stride), beta, c, narrow(stride));
}
void product(std::int64_t m, std::int64_t n, std::int64_t k, double alpha, const MatrixView<double>& a,
             const MatrixView<double>& b, double beta, double* c, std::int64_t stride) {
  cblas_dgemm(CblasRowMajor, order(a.transposed), order(b.transposed), narrow(m), narrow(n), narrow(k), alpha, a.data,
              narrow(a.stride), b.data, narrow(b.stride), beta, c, narrow(stride));
}

constexpr std::int64_t kBlasBlock = 16;     // Rows or columns of the library's innermost product.
constexpr double kSharedProduct = 1 << 20;  // Multiply-adds.
constexpr std::int64_t kLeastBlocks = 4;    // Blocks of a part.

}  // namespace

/// The library itself works on one thread: its own threads sleep and wait for each other between small products.
template <class T>
void gemm(std::int64_t m, std::int64_t n, std::int64_t k, T alpha, const MatrixView<T>& a, const MatrixView<T>& b,
          T beta, T* c, std::int64_t stride) {
  if (m == 0 || n == 0) return;
  const double work = static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
  if (team_size() < 2 || work < kSharedProduct) return product(m, n, k, alpha, a, b, beta, c, stride);
  const std::int64_t longer = std::max(m, n), blocks = (longer + kBlasBlock - 1) / kBlasBlock;
  share(blocks, kLeastBlocks, [&](std::int64_t first, std::int64_t last) {
    const std::int64_t from = first * kBlasBlock, many = std::min(longer, last * kBlasBlock) - from;
    MatrixView<T> rows = a, columns = b;
    if (m >= n) {
      rows.data += from * (a.transposed ? 1 : a.stride);
      product(many, n, k, alpha, rows, columns, beta, c + from * stride, stride);
    } else {
      columns.data += from * (b.transposed ? b.stride : 1);
      product(m, many, k, alpha, rows, columns, beta, c + from, stride);
    }
  });
}
template void gemm(std::int64_t, std::int64_t, std::int64_t, float, const MatrixView<float>&, const MatrixView<float>&,
                   float, float*, std::int64_t);
template void gemm(std::int64_t, std::int64_t, std::int64_t, double, const MatrixView<double>&,
                   const MatrixView<double>&, double, double*, std::int64_t);

int set_cpu_threads(int threads) {
  if (std::getenv("OPENBLAS_NUM_THREADS") != nullptr) threads = openblas_get_num_threads();
  openblas_set_num_threads(1);
  set_team(threads);
  return team_size();
}
const char* blas_name() { return "OpenBLAS"; }

}  // namespace rehearse
