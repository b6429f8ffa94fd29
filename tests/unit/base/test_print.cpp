#include <limits>
#include <random>

#include "core/base/units.hpp"
#include "tests/support/catch.hpp"

using namespace rehearse;

TEST_CASE("quantities print with an SI prefix and no needless digits") {
  CHECK(to_string(Bytes{25e6}) == "25 MB");
  CHECK(to_string(Bytes{12}) == "12 B");
  CHECK(to_string(Seconds{13.8}) == "13.8 s");
  CHECK(to_string(Seconds{5e-6}) == "5 us");
  CHECK(to_string(Seconds{1.23456e-3}) == "1.235 ms");
  CHECK(to_string(BytesPerSecond{450e9}) == "450 GB/s");
  CHECK(to_string(FlopsPerSecond{312e12}) == "312 TFLOP/s");
  CHECK(to_string(Flops{6 * 175e9 * 300e9}) == "315 ZFLOP");
  CHECK(to_string(Watts{10200}) == "10.2 kW");
  CHECK(to_string(Dollars{1234567}) == "$1.235M");
  CHECK(to_string(Dollars{-2.5}) == "-$2.5");
  CHECK(to_string(Bytes{123456}, 2) == "120 kB");
  CHECK(to_string_iec(Bytes{79.2 * 1024 * 1024 * 1024}) == "79.2 GiB");
}

TEST_CASE("long times print in minutes, hours and days") {
  CHECK(to_string(Seconds{599}) == "599 s");
  CHECK(to_string(Seconds{900}) == "15 min");
  CHECK(to_string(Seconds{5 * 3600}) == "5 h");
  CHECK(to_string(Seconds{84.5 * 86400}) == "84.5 d");
}

TEST_CASE("the prefix is chosen after rounding") {
  CHECK(to_string(Bytes{999.9999e6}) == "1 GB");
  CHECK(to_string(Bytes{999.9e6}) == "999.9 MB");
  CHECK(to_string(Seconds{0.99999999}) == "1 s");
  CHECK(to_string_iec(Bytes{1023.99999 * 1024}) == "1 MiB");
  CHECK(to_string_iec(Bytes{1023 * 1024}) == "1023 KiB");
}

TEST_CASE("zero, negative and unbounded values print") {
  CHECK(to_string(Seconds{0}) == "0 s");
  CHECK(to_string(Seconds{-0.0}) == "0 s");
  CHECK(to_string(Seconds{-3e-3}) == "-3 ms");
  CHECK(to_string(Seconds{std::numeric_limits<double>::infinity()}) == "inf s");
  CHECK(to_string(Bytes{0.25}) == "0.25 B");
  CHECK(to_string(Bytes{1e30}, 3) == "1e+12 EB");
}

namespace {

template <class Q>
void check_round_trip() {
  std::mt19937_64 random(7);
  std::uniform_real_distribution<double> exponent(-11, 23);
  for (int i = 0; i < 2000; ++i) {
    const Q q{std::pow(10.0, exponent(random))};
    CAPTURE(q.value(), to_string(q, 17), to_string(q));
    CHECK(parse<Q>(to_string(q, 17)).value() == Approx(q.value()).epsilon(1e-15));
    CHECK(parse<Q>(to_string(q)).value() == Approx(q.value()).epsilon(5.01e-4));
  }
}

}  // namespace

TEST_CASE("what is printed parses back to the same quantity") {
  check_round_trip<Bytes>();
  check_round_trip<Seconds>();
  check_round_trip<Flops>();
  check_round_trip<BytesPerSecond>();
  check_round_trip<FlopsPerSecond>();
  check_round_trip<Watts>();
  check_round_trip<Dollars>();
  for (double gib = 0.001; gib < 1e9; gib *= 1.7) {
    const Bytes q{gib * 1073741824.0};
    CHECK(parse<Bytes>(to_string_iec(q, 17)).value() == Approx(q.value()).epsilon(1e-15));
  }
}

TEST_CASE("dimensions follow arithmetic") {
  static_assert(std::is_same_v<decltype(Bytes{} / BytesPerSecond{1}), Seconds>);
  static_assert(std::is_same_v<decltype(Watts{} * Seconds{}), Joules>);
  static_assert(std::is_same_v<decltype(Bytes{1} / Bytes{1}), double>);
  CHECK((Bytes{100e9} / BytesPerSecond{50e9}).value() == 2.0);
  CHECK(max(Seconds{1}, Seconds{2}) == Seconds{2});
  CHECK(min(Seconds{1}, Seconds{2}) == Seconds{1});
}
