// A library's convolutions, as the product asks cuDNN for them, by plain loops over what their shape says. It takes
// bfloat16 and fp32, which round once, and refuses addresses that cuDNN would.

#include "gpu_backend/cuda/library_convolution.hpp"

#include <cstdlib>
#include <string_view>
#include <vector>

#include "core/base/error.hpp"
#include "gpu_backend/execute/numerics.hpp"
#include "tests/gpu/on_cpu/streams.hpp"

namespace rehearse::cuda {

namespace {

double get(const Reals& x, std::int64_t i) {
  if (x.type == ElementType::real32) return static_cast<double>(static_cast<const float*>(x.data)[i]);
  return static_cast<double>(from_bfloat16(static_cast<const std::uint16_t*>(x.data)[i]));
}
void set(const Reals& x, std::int64_t i, double value) {
  if (x.type == ElementType::real32)
    static_cast<float*>(x.data)[i] = static_cast<float>(value);
  else
    static_cast<std::uint16_t*>(x.data)[i] = to_bfloat16(static_cast<float>(value));
}
using Sides = std::array<std::int64_t, ConvolutionShape::kSides>;
std::int64_t count(const Sides& x) { return x[0] * x[1] * x[2]; }
/// Calls f(coordinates, number) for all of a box.
template <class F>
void each(const Sides& box, F f) {
  std::int64_t n = 0;
  for (std::int64_t i = 0; i < box[0]; ++i)
    for (std::int64_t j = 0; j < box[1]; ++j)
      for (std::int64_t k = 0; k < box[2]; ++k) f(Sides{i, j, k}, n++);
}

struct Convolving {
  ConvolutionShape z;
  ConvolutionResult result;
  Reals small, weights, large;

  void operator()() const {
    const std::int64_t small_pixels = count(z.small), large_pixels = count(z.large), window = count(z.window),
                       per_group = z.small_channels / z.groups, inner = z.large_channels / z.groups;
    const Reals& to = result == ConvolutionResult::small_image   ? small
                      : result == ConvolutionResult::large_image ? large
                                                                 : weights;
    std::vector<double> sums(
        static_cast<std::size_t>(result == ConvolutionResult::small_image   ? z.batch * z.small_channels * small_pixels
                                 : result == ConvolutionResult::large_image ? z.batch * z.large_channels * large_pixels
                                                                            : z.small_channels * inner * window));
    for (std::int64_t b = 0; b < z.batch; ++b)
      for (std::int64_t o = 0; o < z.small_channels; ++o)
        for (std::int64_t i = 0; i < inner; ++i)
          each(z.window, [&](const Sides& k, std::int64_t of_window) {
            const std::int64_t of_weights = (o * inner + i) * window + of_window;
            each(z.small, [&](const Sides& at, std::int64_t pixel) {
              std::int64_t there = 0;
              for (std::size_t d = 0; d < at.size(); ++d) {
                const std::int64_t x = at[d] * z.stride[d] - z.before[d] + k[d] * z.dilation[d];
                if (x < 0 || x >= z.large[d]) return;
                there = there * z.large[d] + x;
              }
              const std::int64_t of_small = (b * z.small_channels + o) * small_pixels + pixel,
                                 of_large = (b * z.large_channels + o / per_group * inner + i) * large_pixels + there;
              if (result == ConvolutionResult::small_image)
                sums[static_cast<std::size_t>(of_small)] += get(weights, of_weights) * get(large, of_large);
              else if (result == ConvolutionResult::large_image)
                sums[static_cast<std::size_t>(of_large)] += get(weights, of_weights) * get(small, of_small);
              else
                sums[static_cast<std::size_t>(of_weights)] += get(small, of_small) * get(large, of_large);
            });
          });
    for (std::size_t n = 0; n < sums.size(); ++n) set(to, static_cast<std::int64_t>(n), sums[n]);
  }
};

bool aligned(const Reals& x) { return reinterpret_cast<std::uintptr_t>(x.data) % 16 == 0; }
/// As cuDNN counts the elements of the small image.
bool fits(const ConvolutionShape& z) {
  for (std::size_t d = 0; d < ConvolutionShape::kSides; ++d) {
    const std::int64_t reach = z.dilation[d] * (z.window[d] - 1) + 1;
    if (z.before[d] < 0 || z.after[d] < 0 ||
        (z.large[d] + z.before[d] + z.after[d] - reach) / z.stride[d] + 1 != z.small[d])
      return false;
  }
  return true;
}

}  // namespace

struct LibraryConvolution::Impl {
  bool off = false;
};
LibraryConvolution::LibraryConvolution(const LibraryConvolutionOptions&) : impl_(std::make_unique<Impl>()) {
  const char* wish = std::getenv("REHEARSE_CUDNN");
  impl_->off = wish != nullptr && std::string_view(wish) == "off";
}
LibraryConvolution::~LibraryConvolution() = default;
void LibraryConvolution::prepare(ConvolutionResult, const ConvolutionShape&) {}
bool LibraryConvolution::run(cudaStream_t stream, ConvolutionResult result, Reals small, Reals weights, Reals large,
                             const ConvolutionShape& z, const Scratch&) {
  if (impl_->off || !aligned(small) || !aligned(weights) || !aligned(large)) return false;
  if (!fits(z)) throw Error(ErrorKind::check_failed, "a convolution whose sides do not fit each other", "cuda");
  ++on_cpu::issued.products;
  return on_cpu_do(stream, [=] {
           if (on_cpu::settings().computes) Convolving{z, result, small, weights, large}();
         }) == cudaSuccess;
}
std::string LibraryConvolution::description() const { return {}; }

}  // namespace rehearse::cuda
