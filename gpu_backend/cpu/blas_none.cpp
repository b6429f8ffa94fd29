#include "gpu_backend/cpu/blas.hpp"
#include "gpu_backend/cpu/team.hpp"

namespace rehearse {

template <class T>
void gemm(std::int64_t m, std::int64_t n, std::int64_t k, T alpha, const MatrixView<T>& a, const MatrixView<T>& b,
          T beta, T* c, std::int64_t stride) {
  reference_gemm(m, n, k, alpha, a, b, beta, c, stride);
}
template void gemm(std::int64_t, std::int64_t, std::int64_t, float, const MatrixView<float>&, const MatrixView<float>&,
                   float, float*, std::int64_t);
template void gemm(std::int64_t, std::int64_t, std::int64_t, double, const MatrixView<double>&,
                   const MatrixView<double>&, double, double*, std::int64_t);

int set_cpu_threads(int threads) {
  set_team(threads);
  return team_size();
}
const char* blas_name() { return "plain loops"; }

}  // namespace rehearse
