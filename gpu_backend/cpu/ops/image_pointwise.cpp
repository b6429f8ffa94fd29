// Activations, joins, repetitions and the loss of images.

#include <cmath>

#include "gpu_backend/cpu/cpu_device.hpp"
#include "gpu_backend/cpu/ops/curves.hpp"
#include "gpu_backend/cpu/ops/image.hpp"

namespace rehearse {

namespace {

/// What is left of x below 0: nothing, or the slope in the scalars.
template <class T>
T slope_of(const OperatorCall& c) {
  return c.task->scalars.empty() ? T{0} : static_cast<T>(c.task->scalars[0]);
}

/// x, [mask], y
template <class T>
struct Relu {
  static void run(const OperatorCall& c) {
    const TensorView &x = c.operand(0), &y = c.operands.back();
    const bool masked = c.operands.size() > 2;
    const T slope = slope_of<T>(c);
    shared_rows<3>({&x, &y, &c.operand(1)}, [&](const Index&, const auto& at, std::int64_t n) {
      const T* from = x.as<T>() + at[0];
      if (masked) {
        std::uint8_t* __restrict mask = c.operand(1).as<std::uint8_t>() + at[2];
        for (std::int64_t i = 0; i < n; ++i) mask[i] = from[i] > T{0} ? 1 : 0;
      }
      T* to = y.as<T>() + at[1];
      const T below = slope;
      for (std::int64_t i = 0; i < n; ++i) to[i] = from[i] * (from[i] > T{0} ? T{1} : below);  // No branch to foresee.
    });
  }
};
/// dy, y or mask, dx
template <class T>
struct ReluGrad {
  static void run(const OperatorCall& c) {
    const TensorView &dy = c.operand(0), &kept = c.operand(1), &dx = c.operand(2);
    const bool mask = kept.type == ElementType::byte;
    const T slope = slope_of<T>(c);
    const auto pass = [&](const auto* known) {
      shared_rows<3>({&dy, &kept, &dx}, [&](const Index&, const auto& at, std::int64_t n) {
        const T* from = dy.as<T>() + at[0];
        const auto* of = known + at[1];
        T* to = dx.as<T>() + at[2];
        const T below = slope;
        for (std::int64_t i = 0; i < n; ++i) to[i] = from[i] * (of[i] > 0 ? T{1} : below);
      });
    };
    if (mask)
      pass(kept.as<std::uint8_t>());
    else
      pass(kept.as<T>());
  }
};

constexpr double kLeak = 0.2;  // Yu et al. 2019, the authors' implementation.
template <class T>
T leaky(T x) {
  return x > T{0} ? x : static_cast<T>(kLeak) * x;
}

/// features, gates, y
template <class T>
struct Gate {
  static void run(const OperatorCall& c) {
    own_elements<3>({&c.operand(0), &c.operand(1), &c.operand(2)}, [&](const auto& at) {
      c.operand(2).as<T>()[at[2]] = leaky(c.operand(0).as<T>()[at[0]]) * sigmoid(c.operand(1).as<T>()[at[1]]);
    });
  }
};
/// dy, features, gates, their gradients
template <class T>
struct GateGrad {
  static void run(const OperatorCall& c) {
    own_elements<5>({&c.operand(0), &c.operand(1), &c.operand(2), &c.operand(3), &c.operand(4)}, [&](const auto& at) {
      const T g = c.operand(0).as<T>()[at[0]], x = c.operand(1).as<T>()[at[1]],
              s = sigmoid(c.operand(2).as<T>()[at[2]]);
      c.operand(3).as<T>()[at[3]] = g * s * (x > T{0} ? T{1} : static_cast<T>(kLeak));
      c.operand(4).as<T>()[at[4]] = g * leaky(x) * s * (T{1} - s);
    });
  }
};

/// Copies the channels of `part` from or to those of `whole` that begin at `first`.
template <class T>
void copy_channels(const TensorView& whole, const TensorView& part, std::int64_t first, bool join) {
  const Held& h = *whole.held;
  const std::int64_t channel = whole.from(2);
  own_rows<1>({&part}, [&](const Index& at, const auto& starts, std::int64_t n) {
    std::int64_t to = at[0] * whole.extent(1) + at[1] + first, place = 0;
    for (std::size_t d = 2; d < h.extents.size(); ++d)
      place = place * h.extents[d] + h.inner[d].first + (d + 1 < h.extents.size() ? at[d] : 0);
    to = to * channel + place;
    if (join)
      std::copy_n(part.as<T>() + starts[0], n, whole.as<T>() + to);
    else
      std::copy_n(whole.as<T>() + to, n, part.as<T>() + starts[0]);
  });
}

/// parts..., y
template <class T>
struct Concat {
  static void run(const OperatorCall& c) {
    std::int64_t first = 0;
    for (std::size_t i = 0; i + 1 < c.operands.size(); ++i) {
      copy_channels<T>(c.operands.back(), c.operand(i), first, true);
      first += c.operand(i).extent(1);
    }
  }
};
/// dy, gradients of parts...; scalars: first channel of each
template <class T>
struct Split {
  static void run(const OperatorCall& c) {
    for (std::size_t i = 1; i < c.operands.size(); ++i)
      copy_channels<T>(c.operand(0), c.operand(i), static_cast<std::int64_t>(c.task->scalars.at(i - 1)), false);
  }
};

/// Pixels that one pixel of a longer image is made of, along one side.
struct Source {
  std::int64_t at[2];
  double weight[2];
};
Source nearest(std::int64_t pixel, std::int64_t from, std::int64_t to) { return {{pixel * from / to, 0}, {1, 0}}; }
/// Between the two whose centres are nearest; at the edge the image goes on as it ends.
Source bilinear(std::int64_t pixel, std::int64_t from, std::int64_t to) {
  const double at =
      std::max(0.0, (static_cast<double>(pixel) + 0.5) * static_cast<double>(from) / static_cast<double>(to) - 0.5);
  const auto below = static_cast<std::int64_t>(at);
  const double above = at - static_cast<double>(below);
  return {{below, std::min(from - 1, below + 1)}, {1 - above, above}};
}

/// Calls `f(pixel of the long image, pixel of the short one, weight)` for all that meet among those stored.
template <class F>
void each_source(const Sides& longer, const Sides& shorter, Source (*source)(std::int64_t, std::int64_t, std::int64_t),
                 F f) {
  const auto stored = [&](std::size_t d, std::int64_t x) {
    return x >= shorter.first[d] && x < shorter.first[d] + shorter.length[d];
  };
  for (std::int64_t p = 0; p < longer.pixels(); ++p) {
    const std::array<std::int64_t, 3> at{p / (longer.length[1] * longer.length[2]),
                                         p / longer.length[2] % longer.length[1], p % longer.length[2]};
    std::array<Source, 3> s;
    for (std::size_t d = 0; d < 3; ++d) s[d] = source(at[d] + longer.first[d], shorter.global[d], longer.global[d]);
    for (int corner = 0; corner < 8; ++corner) {
      double weight = 1;
      std::int64_t local = 0;
      bool here = true;
      for (std::size_t d = 0; d < 3; ++d) {
        const int side = corner >> d & 1;
        weight *= s[d].weight[side];
        if (weight == 0) break;
        here = here && stored(d, s[d].at[side]);
        local = local * shorter.length[d] + s[d].at[side] - shorter.first[d];
      }
      if (here && weight != 0) f(p, local, weight);
    }
  }
}

/// x, y; or dy, dx: which is longer tells. A longer image without own part here is made whole: its halo is filled by
/// its neighbours after.
template <class T, Source (*kSource)(std::int64_t, std::int64_t, std::int64_t)>
struct Upsample {
  static void run(const OperatorCall& c) {
    const TensorView &from = c.operand(0), &to = c.operand(1);
    const bool forward = to.held->shape.back() >= from.held->shape.back();
    const Sides longer(forward ? to : from), shorter(forward ? from : to);
    std::fill_n(to.as<T>(), to.elements(), T{0});
    for (std::int64_t image = 0; image < to.extent(0) * to.extent(1); ++image) {
      const T* x = from.as<T>() + image * (forward ? shorter : longer).pixels();
      T* y = to.as<T>() + image * (forward ? longer : shorter).pixels();
      each_source(longer, shorter, kSource, [&](std::int64_t p, std::int64_t q, double weight) {
        if (forward)
          y[p] += static_cast<T>(weight) * x[q];
        else
          y[q] += static_cast<T>(weight) * x[p];
      });
    }
  }
};
template <class T>
using UpsampleNearest = Upsample<T, nearest>;
template <class T>
using UpsampleBilinear = Upsample<T, bilinear>;

/// Logits of one pixel, `stride` apart. One class alone is told from none of it.
template <class T>
struct Pixel {
  const T* logits;
  std::int64_t stride, classes;
  [[nodiscard]] T at(std::int64_t k) const { return logits[k * stride]; }
  [[nodiscard]] T loss(std::int64_t label) const {
    if (classes == 1)
      return std::log1p(std::exp(-std::abs(at(0)))) + std::max(at(0), T{0}) - (label != 0 ? at(0) : T{0});
    return log_sum() - at(label);
  }
  [[nodiscard]] T slope(std::int64_t k, std::int64_t label) const {
    if (classes == 1) return sigmoid(at(0)) - (label != 0 ? T{1} : T{0});
    return std::exp(at(k) - log_sum()) - (k == label ? T{1} : T{0});
  }

 private:
  [[nodiscard]] T log_sum() const {
    T max = at(0), sum{0};
    for (std::int64_t k = 1; k < classes; ++k) max = std::max(max, at(k));
    for (std::int64_t k = 0; k < classes; ++k) sum += std::exp(at(k) - max);
    return max + std::log(sum);
  }
};

/// Calls `f(pixel, label, place of its first logit)` for the own pixels of labels [batch, sides...] and logits [batch,
/// classes, sides...].
template <class T, class F>
void each_pixel(const TensorView& logits, const TensorView& labels, F f) {
  const Held& h = *logits.held;
  const std::int64_t stride = logits.from(2), classes = logits.extent(1);
  own_rows<1>({&labels}, [&](const Index& at, const auto& starts, std::int64_t n) {
    std::int64_t place = 0;
    for (std::size_t d = 2; d < h.extents.size(); ++d)
      place = place * h.extents[d] + h.inner[d].first + (d + 1 < h.extents.size() ? at[d - 1] : 0);
    for (std::int64_t i = 0; i < n; ++i) {
      const std::int64_t first = at[0] * classes * stride + place + i;
      f(Pixel<T>{logits.as<T>() + first, stride, classes}, labels.as<std::int64_t>()[starts[0] + i], at, i);
    }
  });
}

/// logits, labels, loss
template <class T>
struct PixelLoss {
  static void run(const OperatorCall& c) {
    double sum = 0;
    std::int64_t pixels = 0;
    each_pixel<T>(c.operand(0), c.operand(1), [&](const Pixel<T>& p, std::int64_t label, const Index&, std::int64_t) {
      sum += static_cast<double>(p.loss(label));
      ++pixels;
    });
    c.operand(2).as<T>()[0] = static_cast<T>(sum / static_cast<double>(std::max<std::int64_t>(1, pixels)));
    if (!c.first_replica) return;
    c.observed->loss_sum += sum;
    c.observed->tokens += pixels;
  }
};
/// logits, labels, gradient; dims: pixels that the loss is a mean over
template <class T>
struct PixelLossGrad {
  static void run(const OperatorCall& c) {
    const TensorView &logits = c.operand(0), &dx = c.operand(2);
    const std::int64_t channel = dx.from(2);
    each_pixel<T>(logits, c.operand(1), [&](const Pixel<T>& p, std::int64_t label, const Index& at, std::int64_t i) {
      std::int64_t place = 0;
      const Held& h = *dx.held;
      for (std::size_t d = 2; d < h.extents.size(); ++d)
        place = place * h.extents[d] + h.inner[d].first + (d + 1 < h.extents.size() ? at[d - 1] : 0);
      for (std::int64_t k = 0; k < p.classes; ++k)
        dx.as<T>()[(at[0] * p.classes + k) * channel + place + i] = p.slope(k, label) / static_cast<T>(c.dims.at(0));
    });
  }
};

[[maybe_unused]] const bool registered_image_pointwise =
    cpu_operators().add({"activation.relu", "larger of x and 0", {}, both<Relu>()}) &&
    cpu_operators().add({"activation_grad.relu", "gradient where x was above 0", {}, both<ReluGrad>()}) &&
    cpu_operators().add({"activation.leaky_relu", "x, and a fraction of it below 0", {}, both<Relu>()}) &&
    cpu_operators().add(
        {"activation_grad.leaky_relu", "gradient, and a fraction of it where x was below 0", {}, both<ReluGrad>()}) &&
    cpu_operators().add({"activation.gate", "leaky ReLU times sigmoid", {}, both<Gate>()}) &&
    cpu_operators().add({"activation_grad.gate", "gradients of features and gates", {}, both<GateGrad>()}) &&
    cpu_operators().add({"copy.concat", "channels one after the other", {}, both<Concat>()}) &&
    cpu_operators().add({"copy.split", "channels of each part", {}, both<Split>()}) &&
    cpu_operators().add(
        {"copy.upsample_nearest", "pixels repeated, or their gradients added up", {}, both<UpsampleNearest>()}) &&
    cpu_operators().add(
        {"copy.upsample_bilinear", "pixels interpolated, or their gradients added up", {}, both<UpsampleBilinear>()}) &&
    cpu_operators().add({"cross_entropy.pixels", "mean loss of pixels", {}, both<PixelLoss>()}) &&
    cpu_operators().add({"cross_entropy_grad.pixels", "gradient of their logits", {}, both<PixelLossGrad>()});

}  // namespace

}  // namespace rehearse
