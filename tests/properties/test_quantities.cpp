// Arithmetic of physical quantities over their whole range of use, from single bytes to a year of an exaflop machine.
#include <cmath>
#include <type_traits>

#include "core/base/units.hpp"
#include "tests/support/property.hpp"

using namespace rehearse;

namespace {

/// A magnitude between 1e-9 and 1e27, evenly spread over the decades, of either sign.
double any_magnitude() {
  const double decade = *rc::gen::inRange(-9, 27);
  const double digits = *rc::gen::inRange(1000, 10000) / 1000.0;
  return (*rc::gen::arbitrary<bool>() ? -digits : digits) * std::pow(10.0, decade);
}

bool close(double a, double b) { return std::abs(a - b) <= 4e-16 * std::max(std::abs(a), std::abs(b)); }

}  // namespace

TEST_CASE("dimensions follow from the arithmetic") {
  STATIC_REQUIRE(std::is_same_v<decltype(Bytes{} / BytesPerSecond{}), Seconds>);
  STATIC_REQUIRE(std::is_same_v<decltype(BytesPerSecond{} * Seconds{}), Bytes>);
  STATIC_REQUIRE(std::is_same_v<decltype(Flops{} / Seconds{}), FlopsPerSecond>);
  STATIC_REQUIRE(std::is_same_v<decltype(Watts{} * Seconds{}), Joules>);
  STATIC_REQUIRE(std::is_same_v<decltype(Bytes{} / Bytes{}), double>);
  STATIC_REQUIRE(std::is_same_v<decltype(Flops{} / Bytes{} * BytesPerSecond{}), FlopsPerSecond>);  // roofline
}

TEST_CASE("a transfer's time gives back its bytes") {
  check_property("(bytes / rate) * rate == bytes", [] {
    const Bytes bytes{any_magnitude()};
    const BytesPerSecond rate{any_magnitude()};
    RC_ASSERT(close(((bytes / rate) * rate).value(), bytes.value()));
  });
}

TEST_CASE("quantities of one kind form an ordered group") {
  check_property("addition commutes and subtraction undoes negation", [] {
    const Seconds a{any_magnitude()}, b{any_magnitude()};
    RC_ASSERT(a + b == b + a);
    RC_ASSERT(a - b == a + (-b));
    RC_ASSERT(a - a == Seconds{});
  });
  check_property("in-place operators agree with the others", [] {
    const Joules a{any_magnitude()}, b{any_magnitude()};
    const double k = any_magnitude();
    Joules sum = a, difference = a, scaled = a;
    RC_ASSERT((sum += b) == a + b);
    RC_ASSERT((difference -= b) == a - b);
    RC_ASSERT((scaled *= k) == k * a);
  });
  check_property("exactly one of a<b, a==b, a>b holds, and scaling by a positive number keeps it", [] {
    const Flops a{any_magnitude()}, b{any_magnitude()};
    RC_ASSERT((a < b) + (a == b) + (a > b) == 1);
    RC_ASSERT((a < b) == (2.0 * a < 2.0 * b));
  });
}

TEST_CASE("min and max are the two values in order") {
  check_property("min <= max and together they are a and b", [] {
    const Dollars a{any_magnitude()}, b{any_magnitude()};
    RC_ASSERT(min(a, b) <= max(a, b));
    RC_ASSERT((min(a, b) == a && max(a, b) == b) || (min(a, b) == b && max(a, b) == a));
  });
}

TEST_CASE("a ratio has no unit") {
  check_property("(k * a) / a == k", [] {
    const Bytes a{any_magnitude()};
    const double k = any_magnitude();
    RC_ASSERT(close((k * a) / a, k));
  });
}
