// The loss of scores that are to be high or low. Scores are few: one block adds them up.

#include "gpu_backend/cuda/kernels/images.hpp"
#include "gpu_backend/cuda/kernels/numbers.cuh"

namespace rehearse::cuda {

namespace {

/// As in cpu/ops/adversarial.cpp.
template <class A>
struct Judgement {
  A sign;
  int form;
  __device__ A loss(A x) const {
    const A z = sign * x, below = z < A(0) ? -z : A(0);
    if (form == 2) return -z;
    if (form == 1) return A(1) - z > A(0) ? A(1) - z : A(0);
    return log1p(exp(z < A(0) ? z : -z)) + below;
  }
  __device__ A slope(A x) const {
    const A z = sign * x;
    if (form == 2) return -sign;
    if (form == 1) return z < A(1) ? -sign : A(0);
    return -sign / (A(1) + exp(z));
  }
};
template <class A>
__global__ void score_loss_kernel(Reals scores, std::int64_t n, Judgement<A> judge, Reals loss, double* total) {
  double sum = 0;
  for (std::int64_t i = threadIdx.x; i < n; i += blockDim.x) sum += static_cast<double>(judge.loss(get<A>(scores, i)));
  sum = over_block<Sum>(sum, 0.0);
  if (threadIdx.x != 0) return;
  put(loss, 0, sum / static_cast<double>(n > 0 ? n : 1));
  *total = sum;
}
template <class A>
struct ScoreGrad {
  Reals scores, out;
  Judgement<A> judge;
  A over;
  template <int>
  __device__ void at(std::int64_t i) const {
    put(out, i, judge.slope(get<A>(scores, i)) / over);
  }
};

}  // namespace

void score_loss(cudaStream_t stream, Reals scores, std::int64_t n, const ScoreForm& f, Reals loss, double* total) {
  with_sums_of(scores.type, [&](auto a) {
    using A = decltype(a);
    launch(&score_loss_kernel<A>, dim3(1), dim3(1024), 0, stream, scores, n,
           Judgement<A>{static_cast<A>(f.sign), f.form}, loss, total);
  });
}
void score_loss_grad(cudaStream_t stream, Reals scores, Reals out, std::int64_t n, const ScoreForm& f, double over) {
  with_sums_of(scores.type, [&](auto a) {
    using A = decltype(a);
    each_one(stream, ScoreGrad<A>{scores, out, {static_cast<A>(f.sign), f.form}, static_cast<A>(over)}, n);
  });
}

}  // namespace rehearse::cuda
