// Attention of the networks in models/, by this project's kernels and by cuDNN's: seconds (medians), how far the
// results lie apart, what backward borrows, and whether it repeats bit for bit. Prints JSON lines. Usage:
// bench_attention
#include <algorithm>
#include <cmath>
#include <functional>
#include <vector>

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include "gpu_backend/cuda/check.hpp"
#include "gpu_backend/cuda/device_probe.hpp"
#include "gpu_backend/cuda/fused_attention.hpp"
#include "gpu_backend/execute/random.hpp"

using namespace rehearse;

namespace {

constexpr int kRepeats = 15;

struct Network {
  const char* name;
  std::int64_t batch, sequence, heads, kv_heads, d;
};
constexpr Network kNetworks[] = {{"gpt2_124m", 16, 1024, 12, 12, 64},
                                 {"gpt2_350m", 8, 1024, 16, 16, 64},
                                 {"gpt2_1.5b", 4, 1024, 25, 25, 64},
                                 {"llama_1b", 4, 2048, 32, 8, 64},
                                 {"llama_8b", 1, 4096, 32, 8, 128}};

/// Device memory for bfloat16 or fp32 numbers.
class Buffer {
 public:
  Buffer(std::int64_t elements, ElementType type) : elements_(static_cast<std::size_t>(elements)), type_(type) {
    REHEARSE_CUDA(cudaMalloc(&data_, bytes()));
    REHEARSE_CUDA(cudaMemset(data_, 0xff, bytes()));  // Not a number, until it is written.
  }
  Buffer(std::int64_t elements, std::uint64_t seed) : Buffer(elements, ElementType::real16) {
    std::vector<std::uint16_t> host(elements_);
    const RandomKey key(seed);
    for (std::size_t i = 0; i < elements_; ++i)
      host[i] = to_bfloat16(static_cast<float>(3.4 * (key.uniform(i) - 0.5)));  // Of variance 1.
    REHEARSE_CUDA(cudaMemcpy(data_, host.data(), bytes(), cudaMemcpyHostToDevice));
  }
  ~Buffer() { cudaFree(data_); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  [[nodiscard]] cuda::Reals reals() const { return {data_, type_}; }
  [[nodiscard]] std::vector<std::byte> stored() const {
    std::vector<std::byte> host(bytes());
    REHEARSE_CUDA(cudaMemcpy(host.data(), data_, bytes(), cudaMemcpyDeviceToHost));
    return host;
  }

 private:
  [[nodiscard]] std::size_t bytes() const { return elements_ * size_of(type_); }
  std::size_t elements_;
  ElementType type_;
  void* data_ = nullptr;
};

double median_seconds(const std::function<void()>& run) {
  cudaEvent_t begin = nullptr, end = nullptr;
  REHEARSE_CUDA(cudaEventCreate(&begin));
  REHEARSE_CUDA(cudaEventCreate(&end));
  std::vector<double> seconds;
  for (int i = 0; i < kRepeats + 3; ++i) {
    REHEARSE_CUDA(cudaEventRecord(begin, nullptr));
    run();
    REHEARSE_CUDA(cudaEventRecord(end, nullptr));
    REHEARSE_CUDA(cudaEventSynchronize(end));
    float ms = 0;
    REHEARSE_CUDA(cudaEventElapsedTime(&ms, begin, end));
    if (i >= 3) seconds.push_back(static_cast<double>(ms) * 1e-3);
  }
  cudaEventDestroy(begin);
  cudaEventDestroy(end);
  std::sort(seconds.begin(), seconds.end());
  return seconds[seconds.size() / 2];
}

double value(const std::vector<std::byte>& stored, ElementType type, std::size_t i) {
  return type == ElementType::real16
             ? static_cast<double>(from_bfloat16(reinterpret_cast<const std::uint16_t*>(stored.data())[i]))
             : static_cast<double>(reinterpret_cast<const float*>(stored.data())[i]);
}
/// |a - b| / |b|, of all values together; not a number where a is.
double apart(const std::vector<std::byte>& a, const std::vector<std::byte>& b, ElementType type) {
  double difference = 0, size = 0;
  for (std::size_t i = 0; i < a.size() / size_of(type); ++i) {
    const double x = value(a, type, i), y = value(b, type, i);
    difference += (x - y) * (x - y), size += y * y;
  }
  return std::sqrt(difference / size);
}

void measure(const Network& n) {
  const std::int64_t rows = n.batch * n.sequence, wide = rows * n.heads * n.d, few = rows * n.kv_heads * n.d;
  const Buffer q(wide, std::uint64_t{1}), k(few, std::uint64_t{2}), v(few, std::uint64_t{3}),
      dout(wide, std::uint64_t{4});
  cuda::AttentionShape z{};
  z.batch = n.batch, z.queries = z.keys = n.sequence, z.heads = n.heads, z.kv_heads = n.kv_heads, z.d = z.v = n.d;
  z.scale = 1 / std::sqrt(static_cast<double>(n.d)), z.causal = true;
  z.query = z.key = {0, n.sequence, 0}, z.sample = {0, n.batch, 0}, z.head = {0, n.heads, 0};
  z.all_heads = n.heads, z.all_queries = z.all_keys = n.sequence;
  const std::int64_t of_q = n.heads * n.d, of_k = n.kv_heads * n.d;
  z.apart = {of_q, of_k, of_k, of_q, of_k, of_k};

  void* scratch = nullptr;
  std::size_t room = 0, asked = 0;
  const cuda::FusedAttention::Scratch lend = [&](std::size_t bytes) {
    asked = bytes;
    if (bytes > room) {
      REHEARSE_CUDA(cudaFree(scratch));
      REHEARSE_CUDA(cudaMalloc(&scratch, bytes));
      room = bytes;
    }
    return scratch;
  };
  constexpr auto kHalf = ElementType::real16, kSums = ElementType::real32;
  struct Results {
    Buffer out, lse, dq, dk, dv;
    Results(std::int64_t many, std::int64_t shared, std::int64_t queries)
        : out(many, kHalf), lse(queries, kSums), dq(many, kHalf), dk(shared, kHalf), dv(shared, kHalf) {}
    [[nodiscard]] std::vector<std::vector<std::byte>> all() const {
      return {out.stored(), lse.stored(), dq.stored(), dk.stored(), dv.stored()};
    }
  };
  const Results own(wide, few, rows * n.heads);
  const double own_forward = median_seconds(
      [&] { cuda::attention(nullptr, q.reals(), k.reals(), v.reals(), own.out.reals(), own.lse.reals(), z); });
  void* delta = lend(cuda::attention_scratch_bytes(z, kHalf));
  const double own_backward = median_seconds([&] {
    cuda::attention_grad(nullptr, dout.reals(), q.reals(), k.reals(), v.reals(), own.out.reals(), own.lse.reals(),
                         own.dq.reals(), own.dk.reals(), own.dv.reals(), z, delta);
  });
  const auto expected = own.all();
  const double flops =
      2.0 * static_cast<double>(n.batch * n.heads * n.sequence * n.sequence * n.d);  // Half of 4: causal.
  fmt::print(
      "{{\"attention\": \"{}\", \"by\": \"own\", \"forward_s\": {:.3e}, \"backward_s\": {:.3e}, "
      "\"forward_flops_per_s\": {:.3e}, \"backward_flops_per_s\": {:.3e}}}\n",
      n.name, own_forward, own_backward, flops / own_forward, 2.5 * flops / own_backward);
  for (const bool deterministic : {true, false}) {
    cuda::FusedAttention fused({.deterministic = deterministic, .most_scratch = std::size_t{16} << 30});
    const Results made(wide, few, rows * n.heads);
    bool forward = false, backward = false;
    const double forward_s = median_seconds([&] {
      forward = fused.forward(nullptr, q.reals(), k.reals(), v.reals(), made.out.reals(), made.lse.reals(), z, lend);
    });
    const double backward_s = median_seconds([&] {
      backward = fused.backward(nullptr, dout.reals(), q.reals(), k.reals(), v.reals(), made.out.reals(),
                                made.lse.reals(), made.dq.reals(), made.dk.reals(), made.dv.reals(), z, lend);
    });
    if (!forward || !backward) {
      fmt::print("{{\"attention\": \"{}\", \"by\": \"cuDNN\", \"deterministic\": {}, \"declined\": \"{}\"}}\n", n.name,
                 deterministic, fused.description());
      continue;
    }
    const auto got = made.all();
    bool repeats = true;
    for (int i = 0; i < 2; ++i) {
      (void)fused.backward(nullptr, dout.reals(), q.reals(), k.reals(), v.reals(), made.out.reals(), made.lse.reals(),
                           made.dq.reals(), made.dk.reals(), made.dv.reals(), z, lend);
      repeats = repeats && got == made.all();
    }
    std::string differences;
    for (std::size_t i = 0; i < got.size(); ++i)
      differences += fmt::format("{}{:.1e}", i == 0 ? "" : ", ", apart(got[i], expected[i], i == 1 ? kSums : kHalf));
    fmt::print(
        "{{\"attention\": \"{}\", \"by\": \"cuDNN\", \"deterministic\": {}, \"forward_s\": {:.3e}, "
        "\"backward_s\": {:.3e}, \"forward_flops_per_s\": {:.3e}, \"backward_flops_per_s\": {:.3e}, "
        "\"scratch_bytes\": {}, \"repeats\": {}, \"apart_out_lse_dq_dk_dv\": [{}], \"what\": \"{}\"}}\n",
        n.name, deterministic, forward_s, backward_s, flops / forward_s, 2.5 * flops / backward_s, asked, repeats,
        differences, fused.description());
    std::fflush(stdout);
  }
  REHEARSE_CUDA(cudaFree(scratch));
}

}  // namespace

int main() {
  if (const auto probe = probe_cuda_devices(); probe.devices.empty()) {
    fmt::print(stderr, "skipped: {}\n", probe.none_because);
    return 77;
  }
  for (const Network& n : kNetworks) measure(n);
}
