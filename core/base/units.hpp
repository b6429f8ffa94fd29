#pragma once
// Strong physical quantities. A quantity is a double with its dimension in the type, so that bytes are never
// added to seconds and bytes divided by bytes/s are seconds. SI base units: byte, floating-point operation,
// second, joule, US dollar. Construct with an explicit value in base units: `Bytes{25e6}`, `Seconds{5e-6}`.
//
// Text forms have one parser and one printer, declared below and defined in units.cpp.

#include <cmath>
#include <compare>
#include <string>
#include <string_view>

namespace rehearse {

/// A quantity of dimension byte^B * flop^F * second^S * joule^J * dollar^D.
template <int B, int F, int S, int J = 0, int D = 0>
class Quantity {
 public:
  constexpr Quantity() = default;
  constexpr explicit Quantity(double value) : value_(value) {}

  /// The value in base units (bytes, FLOPs, seconds, joules, dollars).
  [[nodiscard]] constexpr double value() const { return value_; }

  constexpr auto operator<=>(const Quantity&) const = default;
  constexpr Quantity& operator+=(Quantity other) {
    value_ += other.value_;
    return *this;
  }
  constexpr Quantity& operator-=(Quantity other) {
    value_ -= other.value_;
    return *this;
  }
  constexpr Quantity& operator*=(double k) {
    value_ *= k;
    return *this;
  }
  friend constexpr Quantity operator+(Quantity a, Quantity b) { return Quantity{a.value_ + b.value_}; }
  friend constexpr Quantity operator-(Quantity a, Quantity b) { return Quantity{a.value_ - b.value_}; }
  friend constexpr Quantity operator-(Quantity a) { return Quantity{-a.value_}; }
  friend constexpr Quantity operator*(Quantity a, double k) { return Quantity{a.value_ * k}; }
  friend constexpr Quantity operator*(double k, Quantity a) { return Quantity{a.value_ * k}; }
  friend constexpr Quantity operator/(Quantity a, double k) { return Quantity{a.value_ / k}; }

 private:
  double value_ = 0.0;
};

namespace detail {
template <int B, int F, int S, int J, int D>
constexpr auto strip(double v) {
  if constexpr (B == 0 && F == 0 && S == 0 && J == 0 && D == 0)
    return v;
  else
    return Quantity<B, F, S, J, D>{v};
}
}  // namespace detail

/// Product and quotient; a result without dimension is a plain double.
template <int B, int F, int S, int J, int D, int B2, int F2, int S2, int J2, int D2>
constexpr auto operator*(Quantity<B, F, S, J, D> a, Quantity<B2, F2, S2, J2, D2> b) {
  return detail::strip<B + B2, F + F2, S + S2, J + J2, D + D2>(a.value() * b.value());
}
template <int B, int F, int S, int J, int D, int B2, int F2, int S2, int J2, int D2>
constexpr auto operator/(Quantity<B, F, S, J, D> a, Quantity<B2, F2, S2, J2, D2> b) {
  return detail::strip<B - B2, F - F2, S - S2, J - J2, D - D2>(a.value() / b.value());
}

using Bytes = Quantity<1, 0, 0>;
using Flops = Quantity<0, 1, 0>;  ///< A count of operations; a multiply-add is two.
using Seconds = Quantity<0, 0, 1>;
using BytesPerSecond = Quantity<1, 0, -1>;
using FlopsPerSecond = Quantity<0, 1, -1>;
using Joules = Quantity<0, 0, 0, 1>;
using Watts = Quantity<0, 0, -1, 1>;
using Dollars = Quantity<0, 0, 0, 0, 1>;

inline constexpr double kGib = 1024.0 * 1024 * 1024;  ///< Bytes of a GiB.
inline constexpr double kMicrosecond = 1e-6;          ///< Seconds of a microsecond.

template <int B, int F, int S, int J, int D>
constexpr auto max(Quantity<B, F, S, J, D> a, Quantity<B, F, S, J, D> b) {
  return a < b ? b : a;
}
template <int B, int F, int S, int J, int D>
constexpr auto min(Quantity<B, F, S, J, D> a, Quantity<B, F, S, J, D> b) {
  return b < a ? b : a;
}

/// Parses text such as "25MB" (25e6), "80GiB" (80 * 2^30), "5us", "450GB/s", "200Gb/s" (bits: 25e9 B/s), "312TFLOP/s".
/// SI and IEC prefixes; `b` is a bit and `B` a byte. A bare number is refused: the unit must be stated.
/// Throws Error (kind usage) naming the text, the accepted units and an example. Negative, NaN and infinite values are
/// refused. Defined for Bytes, Seconds, Flops, BytesPerSecond, FlopsPerSecond, Watts, Dollars.
template <class Q>
[[nodiscard]] Q parse(std::string_view text);

/// Shortest readable form with an SI prefix and at most `digits` significant digits: "25 MB", "13.8 s", "450 GB/s".
[[nodiscard]] std::string to_string(Bytes q, int digits = 4);
[[nodiscard]] std::string to_string(Seconds q, int digits = 4);
[[nodiscard]] std::string to_string(Flops q, int digits = 4);
[[nodiscard]] std::string to_string(BytesPerSecond q, int digits = 4);
[[nodiscard]] std::string to_string(FlopsPerSecond q, int digits = 4);
[[nodiscard]] std::string to_string(Watts q, int digits = 4);
[[nodiscard]] std::string to_string(Dollars q, int digits = 4);
/// Bytes with an IEC prefix: "79.2 GiB". Memory sizes are printed this way.
[[nodiscard]] std::string to_string_iec(Bytes q, int digits = 4);

}  // namespace rehearse
