// Casts to fp8 and back: a value becomes the nearest that its format and scale can express, stored in the run's own
// type. Products then multiply what tensor cores would, and add exactly.

#include <algorithm>
#include <cmath>

#include "gpu_backend/cpu/cpu_device.hpp"
#include "gpu_backend/execute/quantised.hpp"

namespace rehearse {

namespace {

/// To nearest, ties to even; too large becomes the largest.
double rounded(double x, const Fp8Format& f) {
  if (x == 0 || std::isnan(x)) return x;
  const int exponent = std::max(std::ilogb(x), f.smallest);
  const double step = std::ldexp(1.0, exponent - f.mantissa);
  return std::clamp(std::nearbyint(x / step) * step, -f.largest, f.largest);
}

/// Scale that brings `largest` to the largest number of the format.
double scale_for(double largest, const Fp8Format& f) { return largest > 0 ? f.largest / largest : 1.0; }

template <class T>
double largest_of(const T* x, std::int64_t n) {
  double out = 0;
  for (std::int64_t i = 0; i < n; ++i) out = std::max(out, std::abs(static_cast<double>(x[i])));
  return out;
}

/// A matrix of `rows` by `columns` in blocks that share a scale; `power_of_two` rounds scales down to one, exactly: a
/// logarithm could round up.
template <class T>
void cast_blocks(const T* from, T* to, std::int64_t rows, std::int64_t columns, std::int64_t high, std::int64_t wide,
                 const Fp8Format& f, bool power_of_two) {
  for (std::int64_t r = 0; r < rows; r += high) {
    for (std::int64_t c = 0; c < columns; c += wide) {
      const std::int64_t bottom = std::min(r + high, rows), right = std::min(c + wide, columns);
      double largest = 0;
      for (std::int64_t i = r; i < bottom; ++i)
        largest = std::max(largest, largest_of(from + i * columns + c, right - c));
      double scale = scale_for(largest, f);
      if (power_of_two) scale = std::ldexp(1.0, std::ilogb(scale));
      for (std::int64_t i = r; i < bottom; ++i)
        for (std::int64_t j = c; j < right; ++j)
          to[i * columns + j] = static_cast<T>(rounded(static_cast<double>(from[i * columns + j]) * scale, f) / scale);
    }
  }
}

template <class T>
void cast_all(const TensorView& from, const TensorView* copy, double scale, const Fp8Format& f) {
  if (copy == nullptr) return;
  for (std::int64_t i = 0; i < from.elements(); ++i)
    copy->as<T>()[i] =
        scale > 0 ? static_cast<T>(rounded(static_cast<double>(from.as<T>()[i]) * scale, f) / scale) : from.as<T>()[i];
}

/// Scales of the three roles and this step's largest values; then tensors. Without a scale (the first step) values are
/// not rounded: one of 1, as frameworks begin with, would treat a gradient by how many replicas its mean is taken over.
/// scalars: format (3), role, whether rows and columns are made
template <class T>
struct Delayed {
  static void run(const OperatorCall& c) {
    const Fp8Format f = fp8_format(*c.task);
    T* state = c.operand(0).as<T>();
    const std::size_t role = fp8_role(*c.task);
    const auto scale = static_cast<double>(state[role]);
    for_each_cast(c, 1, [&](std::size_t, const TensorView& from, const TensorView* rows, const TensorView* columns) {
      state[3 + role] = std::max(state[3 + role], static_cast<T>(largest_of(from.as<T>(), from.elements())));
      cast_all<T>(from, rows, scale, f);
      cast_all<T>(from, columns, scale, f);
    });
  }
};

/// Scales of the next step from the largest values of this one, which begin at zero again.
template <class T>
struct UpdateScales {
  static void run(const OperatorCall& c) {
    for (const TensorView& x : c.operands) {
      for (std::size_t role = 0; role < 3; ++role) {
        T* state = x.as<T>();
        state[role] = static_cast<T>(
            state[3 + role] > 0 ? kFormatOfRole[role].largest / static_cast<double>(state[3 + role]) : 0.0);
        state[3 + role] = T{0};
      }
    }
  }
};

/// tensors..., their largest values
template <class T>
struct Amax {
  static void run(const OperatorCall& c) {
    for (std::size_t i = 0; i + 1 < c.operands.size(); ++i)
      c.operands.back().as<T>()[i] = static_cast<T>(largest_of(c.operand(i).as<T>(), c.operand(i).elements()));
  }
};

/// largest values, then tensors
template <class T>
struct Tensorwise {
  static void run(const OperatorCall& c) {
    const Fp8Format f = fp8_format(*c.task);
    for_each_cast(c, 1,
                  [&](std::size_t number, const TensorView& from, const TensorView* rows, const TensorView* columns) {
                    const double scale = scale_for(static_cast<double>(c.operand(0).as<T>()[number]), f);
                    cast_all<T>(from, rows, scale, f);
                    cast_all<T>(from, columns, scale, f);
                  });
  }
};

template <class T>
void cast_in_blocks(const OperatorCall& c, const Fp8Blocks& b) {
  const Fp8Format f = fp8_format(*c.task);
  const std::int64_t across = block_height(*c.task, b);
  for_each_cast(c, 0,
                [&](std::size_t number, const TensorView& from, const TensorView* rows, const TensorView* columns) {
                  const std::int64_t wide = std::max<std::int64_t>(1, c.dims.at(number)), high = from.elements() / wide;
                  if (rows != nullptr)
                    cast_blocks(from.as<T>(), rows->as<T>(), high, wide, across, b.along, f, b.power_of_two);
                  if (columns != nullptr)
                    cast_blocks(from.as<T>(), columns->as<T>(), high, wide, b.along, across, f, b.power_of_two);
                });
}

template <class T>
struct Rowwise {
  static void run(const OperatorCall& c) { cast_in_blocks<T>(c, kRowwise); }
};
template <class T>
struct Blockwise {
  static void run(const OperatorCall& c) { cast_in_blocks<T>(c, kBlockwise); }
};
template <class T>
struct Mxfp8 {
  static void run(const OperatorCall& c) { cast_in_blocks<T>(c, kMx); }
};

[[maybe_unused]] const bool registered_quantise =
    cpu_operators().add({"quantise.delayed", "to fp8 by the scale of the step before", {}, both<Delayed>()}) &&
    cpu_operators().add({"quantise.update_scales", "scales of the next step", {}, both<UpdateScales>()}) &&
    cpu_operators().add({"quantise.amax", "largest value of each tensor", {}, both<Amax>()}) &&
    cpu_operators().add({"quantise.tensorwise", "to fp8 by one scale", {}, both<Tensorwise>()}) &&
    cpu_operators().add({"quantise.rowwise", "to fp8 by a scale per row", {}, both<Rowwise>()}) &&
    cpu_operators().add({"quantise.blockwise", "to fp8 by a scale per 128 or 128 x 128", {}, both<Blockwise>()}) &&
    cpu_operators().add({"quantise.mxfp8", "to fp8 by a power of two per 32", {}, both<Mxfp8>()});

}  // namespace

}  // namespace rehearse
