// Products of the CPU operators beside the BLAS called directly, in turns, on the same sizes. The task's copy of its
// call and the allocation of its output are the operator's; ratios above 1 are what they cost.

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include <cblas.h>

#include "gpu_backend/calibrate/calibrate.hpp"
#include "gpu_backend/calibrate/kernel_cases.hpp"
#include "gpu_backend/calibrate/kernel_run.hpp"
#include "gpu_backend/cpu/blas.hpp"
#include "gpu_backend/cpu/cpu_device.hpp"

using namespace rehearse;

namespace {

struct Shape {
  std::int64_t m, n, k;
};

template <class T>
void direct(const char* variant, const Shape& s, const T* a, const T* b, T* c) {
  const auto m = static_cast<blasint>(s.m), n = static_cast<blasint>(s.n), k = static_cast<blasint>(s.k);
  const bool forward = variant[6] == '\0', input = variant[7] == 'i';
  const CBLAS_TRANSPOSE ta = forward || input ? CblasNoTrans : CblasTrans, tb = forward ? CblasTrans : CblasNoTrans;
  const blasint lda = forward || input ? k : m, ldb = forward ? k : n;
  const T beta = forward || input ? T{0} : T{1};
  if constexpr (sizeof(T) == 4)
    cblas_sgemm(CblasRowMajor, ta, tb, m, n, k, T{1}, a, lda, b, ldb, beta, c, n);
  else
    cblas_dgemm(CblasRowMajor, ta, tb, m, n, k, T{1}, a, lda, b, ldb, beta, c, n);
}

template <class T>
void compare(ComputeDevice& device, double seconds, std::vector<double>& ratios) {
  for (const char* variant : {"linear", "linear_input_grad", "linear_weight_grad"})
    for (const Shape s : {Shape{64, 64, 64},
                          {128, 256, 256},
                          {512, 256, 1024},
                          {256, 1024, 256},
                          {1000, 300, 700},
                          {1024, 1024, 1024}}) {
      const KernelCase what = product_case(device, variant, s.m, s.n, s.k);
      KernelRun run(device, what);
      const auto filled = [](std::int64_t n) { return std::vector<T>(static_cast<std::size_t>(n), T{0.5}); };
      const std::vector<T> a = filled(s.m * s.k), b = filled(s.k * s.n);
      std::vector<T> c = filled(s.m * s.n);
      std::vector<double> ours, theirs;
      const double begin = device.now();
      while (ours.size() < 5 || device.now() - begin < seconds) {
        ours.push_back(run.once());
        const double before = device.now();
        direct<T>(variant, s, a.data(), b.data(), c.data());
        theirs.push_back(device.now() - before);
      }
      const Spread mine = spread_of(ours), blas = spread_of(theirs);
      ratios.push_back(mine.median / blas.median);
      std::printf("%-4s %-20s %5ld %5ld %5ld  %9.1f us  %9.1f us  %6.1f GFLOP/s  ratio %.3f  spread %.0f %%\n",
                  sizeof(T) == 4 ? "fp32" : "fp64", variant, long(s.m), long(s.n), long(s.k), mine.median * 1e6,
                  blas.median * 1e6, 2e-9 * double(s.m) * double(s.n) * double(s.k) / mine.median, ratios.back(),
                  100 * std::max(mine.relative, blas.relative));
    }
}

}  // namespace

int main(int argc, char** argv) {
  const int threads = argc > 1 ? std::atoi(argv[1]) : 1;
  const double seconds = argc > 2 ? std::atof(argv[2]) : 0.3;
  set_cpu_threads(threads);
  std::printf("%s, %d thread%s; operator, BLAS called directly\n", blas_name(), threads, threads == 1 ? "" : "s");
  std::vector<double> ratios;
  compare<float>(*make_cpu_device(Numerics::fp32), seconds, ratios);
  compare<double>(*make_cpu_device(Numerics::fp64), seconds, ratios);
  std::sort(ratios.begin(), ratios.end());
  std::printf("ratio operator / BLAS: median %.3f, worst %.3f of %zu\n", ratios[ratios.size() / 2], ratios.back(),
              ratios.size());
  return 0;
}
