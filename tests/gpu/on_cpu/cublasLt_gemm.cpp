// The product's Gemm without cuBLASLt: plain loops over operands of any type, sums in double.

#include <stdexcept>

#include "gpu_backend/cuda/gemm.hpp"

namespace rehearse::cuda {

namespace {

double get(const GemmOperand& x, std::int64_t at) {
  switch (x.type) {
    case ElementType::real32: return static_cast<double>(static_cast<const float*>(x.data)[at]);
    case ElementType::real64: return static_cast<const double*>(x.data)[at];
    case ElementType::real16: return static_cast<double>(from_bfloat16(static_cast<const std::uint16_t*>(x.data)[at]));
    default: throw std::logic_error("a product of integers");
  }
}
void set(const GemmOperand& x, std::int64_t at, double value) {
  void* to = const_cast<void*>(x.data);
  if (x.type == ElementType::real32)
    static_cast<float*>(to)[at] = static_cast<float>(value);
  else if (x.type == ElementType::real64)
    static_cast<double*>(to)[at] = value;
  else
    static_cast<std::uint16_t*>(to)[at] = to_bfloat16(static_cast<float>(value));
}
double element(const GemmOperand& x, std::int64_t matrix, std::int64_t row, std::int64_t column) {
  return get(x, matrix * x.next + (x.transposed ? column * x.stride + row : row * x.stride + column));
}

void multiply(const GemmCall& g) {
  if (!on_cpu::settings().computes) return;
  const GemmOperand bias{g.bias, g.c.type};
  for (std::int64_t b = 0; b < g.batch; ++b)
    for (std::int64_t i = 0; i < g.m; ++i)
      for (std::int64_t j = 0; j < g.n; ++j) {
        double sum = 0;
        for (std::int64_t x = 0; x < g.k; ++x) sum += element(g.a, b, i, x) * element(g.b, b, x, j);
        const std::int64_t at = b * g.c.next + i * g.c.stride + j;
        set(g.c, at,
            g.alpha * sum + (g.beta != 0 ? g.beta * get(g.c, at) : 0.0) + (g.bias != nullptr ? get(bias, j) : 0.0));
      }
}

}  // namespace

struct Gemm::Impl {};
Gemm::Gemm(std::size_t) {}
Gemm::~Gemm() = default;
void Gemm::run(cudaStream_t stream, const GemmCall& g) {
  if (g.a.type != g.b.type ||
      (g.c.type != g.a.type && !(g.a.type == ElementType::real16 && g.c.type == ElementType::real32)))
    throw std::logic_error("types that the tensor cores do not multiply");
  if (reinterpret_cast<std::uintptr_t>(g.bias) % 16 != 0) throw std::logic_error("a bias that cuBLASLt may misread");
  (void)on_cpu_do(stream, [g] { multiply(g); });
}

}  // namespace rehearse::cuda
