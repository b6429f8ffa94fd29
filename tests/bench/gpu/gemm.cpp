// How good cuBLASLt's first choice is: the products of a network's layers by the algorithm that the product uses, and
// by the fastest of all that cuBLASLt proposes. Prints JSON lines. Usage: bench_gemm [TOKENS]
#include <cstdlib>
#include <vector>

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include "gpu_backend/cuda/check.hpp"
#include "gpu_backend/cuda/device_probe.hpp"
#include "gpu_backend/cuda/gemm.hpp"
#include "gpu_backend/execute/random.hpp"

using namespace rehearse;

namespace {

constexpr int kRepeats = 20;

struct Shape {
  const char* name;
  std::int64_t out, in;
};
constexpr Shape kShapes[] = {
    {"gpt2_124m.up", 3072, 768},   {"gpt2_124m.down", 768, 3072}, {"gpt2_124m.head", 50304, 768},
    {"gpt2_350m.up", 4096, 1024},  {"gpt2_1.5b.up", 6400, 1600},  {"gpt2_1.5b.down", 1600, 6400},
    {"llama_1b.gate", 8192, 2048}, {"llama_1b.down", 2048, 8192}, {"llama_1b.k", 512, 2048}};

void* filled(std::size_t elements, std::uint64_t seed) {
  std::vector<std::uint16_t> host(elements);
  const RandomKey key(seed);
  for (std::size_t i = 0; i < elements; ++i) host[i] = to_bfloat16(static_cast<float>(key.uniform(i)) - 0.5f);
  void* out = nullptr;
  REHEARSE_CUDA(cudaMalloc(&out, 2 * elements));
  REHEARSE_CUDA(cudaMemcpy(out, host.data(), 2 * elements, cudaMemcpyHostToDevice));
  return out;
}

}  // namespace

int main(int count, char** arguments) {
  const std::int64_t tokens = count > 1 ? std::atoll(arguments[1]) : 8192;
  if (const auto probe = probe_cuda_devices(); probe.devices.empty()) {
    fmt::print(stderr, "skipped: {}\n", probe.none_because);
    return 77;
  }
  cuda::Gemm gemm(std::size_t{32} << 20);
  constexpr auto kHalf = ElementType::real16;
  for (const Shape& s : kShapes) {
    void *x = filled(static_cast<std::size_t>(tokens * s.in), 1),
         *w = filled(static_cast<std::size_t>(s.out * s.in), 2),
         *y = filled(static_cast<std::size_t>(tokens * s.out), 3);
    const cuda::GemmCall call{
        .m = tokens, .n = s.out, .k = s.in, .a = {x, kHalf, s.in}, .b = {w, kHalf, s.in, true}, .c = {y, kHalf, s.out}};
    const auto c = gemm.compare(nullptr, call, kRepeats);
    fmt::print(
        "{{\"product\": \"{}\", \"m\": {}, \"n\": {}, \"k\": {}, \"used_s\": {:.3e}, \"best_s\": {:.3e}, "
        "\"over_best\": {:.4f}, \"candidates\": {}, \"flops_per_s\": {:.4e}}}\n",
        s.name, call.m, call.n, call.k, c.used_s, c.best_s, c.used_s / c.best_s - 1, c.candidates,
        2.0 * static_cast<double>(call.m * call.n * call.k) / c.used_s);
    for (void* p : {x, w, y}) REHEARSE_CUDA(cudaFree(p));
  }
}
