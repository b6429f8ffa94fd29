// Convolutions by cuDNN, or where it declines as products of cuBLASLt's, of windows laid out as columns; operands as in
// cpu/ops/convolution.cpp. Samples are worked on together as far as their columns have room. Windows of one element
// need no columns.

#include <algorithm>
#include <optional>

#include "gpu_backend/cuda/ops/image_operands.hpp"

namespace rehearse::cuda {

namespace {

// Enough samples at once to fill a GPU, next to nothing of its memory.
constexpr std::int64_t kColumnBytes = std::int64_t{128} << 20;

/// An image as a convolution reads or makes it: without the halo that is only stored.
struct Plane {
  Reals data;
  ImageSides sides;
  std::int64_t channels;
};
Plane plane(const TensorView& image) { return {reals(image), sides_of(image), image.extent(1)}; }

Reals at(const Reals& x, std::int64_t element) {
  return {static_cast<std::byte*>(x.data) + element * static_cast<std::int64_t>(size_of(x.type)), x.type};
}
Reals scratch(const OperatorCall& c, std::int64_t elements, ElementType type) {
  return {c.launch->scratch(static_cast<std::size_t>(elements) * size_of(type)), type};
}
GemmOperand matrix(const Reals& x, std::int64_t stride, bool transposed = false, std::int64_t next = 0) {
  return {x.data, x.type, stride, transposed, next};
}

/// Two images and the weights [small channels, large channels of a group, window] between them.
struct Convolution {
  Joined z;
  std::int64_t groups, small_channels, large_channels, batch;

  Convolution(const OperatorCall& c, const Plane& small, const Plane& large, std::size_t sides, std::int64_t samples)
      : z{small.sides, large.sides, window_of(c, sides)},
        groups(static_cast<std::int64_t>(c.task->scalars.at(4 * sides))),
        small_channels(small.channels / groups),
        large_channels(large.channels / groups),
        batch(samples) {}

  [[nodiscard]] std::int64_t rows() const { return large_channels * z.window.elements(); }
  [[nodiscard]] std::int64_t pixels() const { return z.small.pixels(); }
  [[nodiscard]] std::int64_t small_sample() const { return groups * small_channels * z.small.pixels(); }
  [[nodiscard]] std::int64_t large_sample() const { return groups * large_channels * z.large.pixels(); }
  [[nodiscard]] Reals small_at(const Reals& x, std::int64_t sample, std::int64_t group) const {
    return at(x, sample * small_sample() + group * small_channels * z.small.pixels());
  }
  [[nodiscard]] Reals large_at(const Reals& x, std::int64_t sample, std::int64_t group) const {
    return at(x, sample * large_sample() + group * large_channels * z.large.pixels());
  }
  [[nodiscard]] Reals weights(const Reals& w, std::int64_t group) const {
    return at(w, group * small_channels * rows());
  }
  /// Whether the large image's pixels are the columns.
  [[nodiscard]] bool pointwise() const {
    bool out = z.window.elements() == 1;
    for (int d = 0; d < 3; ++d)
      out = out && z.window.stride[d] == 1 && z.window.padding[d] == 0 && z.small.length[d] == z.large.length[d] &&
            z.small.first[d] == z.large.first[d];
    return out;
  }
  [[nodiscard]] std::int64_t samples_at_once(ElementType type) const {
    return std::clamp<std::int64_t>(
        kColumnBytes / std::max<std::int64_t>(1, rows() * pixels() * static_cast<std::int64_t>(size_of(type))), 1,
        std::max<std::int64_t>(1, batch));
  }
  /// Calls f(first sample, how many, group).
  template <class F>
  void each(std::int64_t at_once, F f) const {
    for (std::int64_t first = 0; first < batch; first += at_once)
      for (std::int64_t g = 0; g < groups; ++g) f(first, std::min(at_once, batch - first), g);
  }
};

/// As cuDNN knows it, by what is stored. Nothing where a tile's window begins inside it.
std::optional<ConvolutionShape> library_shape(const Convolution& s) {
  ConvolutionShape out{s.batch, s.groups, s.groups * s.small_channels, s.groups * s.large_channels};
  for (std::size_t d = 0; d < ConvolutionShape::kSides; ++d) {
    const WindowShape& w = s.z.window;
    const std::int64_t small = s.z.small.length[d], large = s.z.large.length[d], stride = w.stride[d],
                       reach = w.dilation[d] * (w.kernel[d] - 1) + 1,
                       before = w.padding[d] + s.z.large.first[d] - s.z.small.first[d] * stride,
                       needed = (small - 1) * stride + reach - large - before;
    if (small < 1 || large < 1 || before < 0 || s.batch < 1) return {};
    // The same on both sides where that makes no further elements: more kernels take it.
    const std::int64_t after =
        needed <= before && before < needed + stride ? before : std::max<std::int64_t>(0, needed);
    if ((large + before + after - reach) / stride + 1 != small) return {};
    out.small[d] = small, out.large[d] = large, out.window[d] = w.kernel[d], out.stride[d] = stride;
    out.before[d] = before, out.after[d] = after, out.dilation[d] = w.dilation[d];
  }
  return out;
}

struct Operands {
  Reals small, weights, large;
};
/// The shape where cuDNN may be asked: all in bfloat16, or in fp32 whose factors may be rounded to tf32.
std::optional<ConvolutionShape> library_shape(const OperatorCall& c, const Convolution& s, const Operands& x) {
  const ElementType type = x.large.type;
  if (x.small.type != type || x.weights.type != type) return {};
  if (type != ElementType::real16 && !(type == ElementType::real32 && in_tf32(c))) return {};
  std::optional<ConvolutionShape> out = library_shape(s);
  if (out) out->type = type;
  return out;
}
bool by_library(const OperatorCall& c, const Convolution& s, ConvolutionResult result, const Operands& x) {
  const std::optional<ConvolutionShape> shape = library_shape(c, s, x);
  return shape && c.launch->convolution->run(stream(c), result, x.small, x.weights, x.large, *shape, c.launch->scratch);
}

/// small = weights * columns of large
void gather(const OperatorCall& c, const Convolution& s, const Plane& large, const Reals& w, const Reals& small) {
  const bool direct = s.pointwise();
  const std::int64_t at_once = direct ? s.batch : s.samples_at_once(large.data.type), n = s.pixels();
  const Reals columns = direct ? Reals{} : scratch(c, at_once * s.rows() * n, large.data.type);
  s.each(at_once, [&](std::int64_t first, std::int64_t samples, std::int64_t g) {
    const Reals image = s.large_at(large.data, first, g), to = s.small_at(small, first, g), weights = s.weights(w, g);
    if (!direct)
      image_to_columns(stream(c), image, columns, s.z,
                       {samples, s.large_channels, s.groups * s.large_channels, n, s.rows() * n});
    c.launch->gemm->run(
        stream(c), {.m = s.small_channels,
                    .n = n,
                    .k = s.rows(),
                    .batch = samples,
                    .a = matrix(weights, s.rows()),
                    .b = direct ? matrix(image, n, false, s.large_sample()) : matrix(columns, n, false, s.rows() * n),
                    .c = matrix(to, n, false, s.small_sample()),
                    .tf32 = in_tf32(c)});
  });
}

/// large = sums of (weights^T * small) as columns
void spread(const OperatorCall& c, const Convolution& s, const Plane& small, const Reals& w, const Reals& large) {
  const bool direct = s.pointwise();
  // Sums of 16-bit products are not rounded before they are added up.
  const ElementType type = direct ? large.type : large.type == ElementType::real16 ? ElementType::real32 : large.type;
  const std::int64_t at_once = direct ? s.batch : s.samples_at_once(type), n = s.pixels();
  const Reals columns = direct ? Reals{} : scratch(c, at_once * s.rows() * n, type);
  s.each(at_once, [&](std::int64_t first, std::int64_t samples, std::int64_t g) {
    const Reals from = s.small_at(small.data, first, g), image = s.large_at(large, first, g), weights = s.weights(w, g);
    c.launch->gemm->run(
        stream(c), {.m = s.rows(),
                    .n = n,
                    .k = s.small_channels,
                    .batch = samples,
                    .a = matrix(weights, s.rows(), true),
                    .b = matrix(from, n, false, s.small_sample()),
                    .c = direct ? matrix(image, n, false, s.large_sample()) : matrix(columns, n, false, s.rows() * n),
                    .tf32 = in_tf32(c)});
    if (!direct)
      columns_to_image(stream(c), columns, image, s.z,
                       {samples, s.large_channels, s.groups * s.large_channels, n, s.rows() * n});
  });
}

/// Adds small * columns of large^T, pixels of all samples in one line.
void weight_grad(const OperatorCall& c, const Convolution& s, const Plane& small, const Plane& large,
                 const TensorView& dw) {
  const ElementType type = large.data.type;
  const std::int64_t at_once = s.samples_at_once(type), n = s.pixels(), line = at_once * n;
  const Reals columns = scratch(c, s.rows() * line, type), rows = scratch(c, s.small_channels * line, type);
  s.each(at_once, [&](std::int64_t first, std::int64_t samples, std::int64_t g) {
    image_to_columns(stream(c), s.large_at(large.data, first, g), columns, s.z,
                     {samples, s.large_channels, s.groups * s.large_channels, line, n});
    image_to_columns(stream(c), s.small_at(small.data, first, g), rows, {s.z.small, s.z.small, {}},
                     {samples, s.small_channels, s.groups * s.small_channels, line, n});
    c.launch->gemm->run(stream(c), {.m = s.small_channels,
                                    .n = s.rows(),
                                    .k = samples * n,
                                    .a = matrix(rows, line),
                                    .b = matrix(columns, line, true),
                                    .c = matrix(s.weights(reals(dw), g), s.rows()),
                                    .beta = 1,
                                    .tf32 = in_tf32(c)});
  });
}

/// What an image holds without its halo, as if stored by itself.
Plane own_plane(const TensorView& image) {
  Plane out = plane(image);
  const Own own = own_of(image);
  const std::size_t sides = image.rank() - 2;
  for (std::size_t i = 0; i < sides; ++i) {
    const std::size_t d = 2 + i, to = 3 - sides + i;
    out.sides.first[to] += own.first[d];
    out.sides.length[to] = own.length[d];
  }
  return out;
}
/// Makes the image's own part by f(where): itself, or scratch that is copied to where it belongs.
template <class F>
void into_own_part(const OperatorCall& c, const TensorView& image, F f) {
  if (!image.held->haloed()) return f(reals(image));
  Elements own{reals(image), own_of(image)}, from = own;
  from.own.whole = true;
  from.data = scratch(c, own.own.from(0), image.type);
  f(from.data);
  copy_own(stream(c), from, own);
}

/// x, weight, y; or dy, weight, dx, where what is small and what is large are the other way round. Pixels are columns
/// as they are: a product by itself is no more work than what cuDNN would do, without its copies to another layout.
struct ImageOf {
  Plane from, to;
  bool spreads;
  Convolution s;
  ImageOf(const OperatorCall& c, bool backward)
      : from(plane(c.operand(0))),
        to(own_plane(c.operand(2))),
        spreads(transposed(c, c.operand(0)) != backward),
        s(c, spreads ? from : to, spreads ? to : from, c.operand(0).rank() - 2, c.operand(0).extent(0)) {}
  [[nodiscard]] ConvolutionResult result() const {
    return spreads ? ConvolutionResult::large_image : ConvolutionResult::small_image;
  }
  [[nodiscard]] Operands operands(const OperatorCall& c) const {
    return {(spreads ? from : to).data, reals(c.operand(1)), (spreads ? to : from).data};
  }
};
template <bool kBackward>
void image_of(const OperatorCall& c) {
  ImageOf z(c, kBackward);
  into_own_part(c, c.operand(2), [&](const Reals& to) {
    z.to.data = to;
    if (!z.s.pointwise() && by_library(c, z.s, z.result(), z.operands(c))) return;
    z.spreads ? spread(c, z.s, z.from, reals(c.operand(1)), to) : gather(c, z.s, z.from, reals(c.operand(1)), to);
  });
}
/// Plans of cuDNN's load kernels, which can wait for all that runs.
template <bool kBackward>
void prepare_image(const OperatorCall& c) {
  const ImageOf z(c, kBackward);
  if (z.s.pointwise()) return;
  if (const auto shape = library_shape(c, z.s, z.operands(c))) c.launch->convolution->prepare(z.result(), *shape);
}

/// x, dy, weight gradient (added to)
struct WeightsOf {
  bool swapped;
  Plane small, large;
  Convolution s;
  explicit WeightsOf(const OperatorCall& c)
      : swapped(transposed(c, c.operand(0))),
        small(plane(c.operand(swapped ? 0 : 1))),
        large(plane(c.operand(swapped ? 1 : 0))),
        s(c, small, large, c.operand(0).rank() - 2, c.operand(0).extent(0)) {}
  /// With cuDNN's gradient at `made`, in the images' type: to be added to sums in fp32.
  [[nodiscard]] Operands operands(void* made) const { return {small.data, {made, large.data.type}, large.data}; }
};
void run_weight(const OperatorCall& c) {
  const WeightsOf z(c);
  const TensorView& dw = c.operand(2);
  if (library_shape(c, z.s, z.operands(nullptr))) {
    const Reals made = scratch(c, dw.elements(), z.large.data.type);
    if (by_library(c, z.s, ConvolutionResult::weights, z.operands(made.data))) {
      const Own all = own_of(dw);
      return add_own(stream(c), {reals(dw), all}, {made, all}, {reals(dw), all});
    }
  }
  weight_grad(c, z.s, z.small, z.large, dw);
}
void prepare_weight(const OperatorCall& c) {
  const WeightsOf z(c);
  if (const auto shape = library_shape(c, z.s, z.operands(nullptr)))
    c.launch->convolution->prepare(ConvolutionResult::weights, *shape);
}

[[maybe_unused]] const bool registered_convolution =
    cuda_operators().add(
        {"convolution", "windows of an image times weights", {}, any(image_of<false>, prepare_image<false>)}) &&
    cuda_operators().add(
        {"convolution_grad.input", "gradient of the image", {}, any(image_of<true>, prepare_image<true>)}) &&
    cuda_operators().add({"convolution_grad.weight", "gradient of the weights", {}, any(run_weight, prepare_weight)});

}  // namespace

}  // namespace rehearse::cuda
