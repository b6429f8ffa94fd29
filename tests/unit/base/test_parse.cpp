#include "core/base/units.hpp"

#include "core/base/error.hpp"
#include "tests/support/catch.hpp"

using namespace rehearse;

namespace {

template <class Q>
Error refused(const std::string& text) {
  try {
    (void)parse<Q>(text);
  } catch (const Error& e) {
    return e;
  }
  FAIL("accepted: " << text);
  throw std::logic_error("unreachable");
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("SI prefixes are powers of ten and IEC prefixes powers of two") {
  CHECK(parse<Bytes>("25MB").value() == 25e6);
  CHECK(parse<Bytes>("80GiB").value() == 80.0 * 1024 * 1024 * 1024);
  CHECK(parse<Bytes>("1kB").value() == 1000);
  CHECK(parse<Bytes>("1KB").value() == 1000);
  CHECK(parse<Bytes>("1KiB").value() == 1024);
  CHECK(parse<Bytes>(" 1.5 TB ").value() == 1.5e12);
  CHECK(parse<Bytes>("2e3B").value() == 2000);
  CHECK(parse<Bytes>("1EB").value() == 1e18);
  CHECK(parse<Bytes>("0B").value() == 0);
}

TEST_CASE("a small b is a bit, an eighth of a byte") {
  CHECK(parse<BytesPerSecond>("200Gb/s").value() == 25e9);
  CHECK(parse<BytesPerSecond>("200Gbps").value() == 25e9);
  CHECK(parse<BytesPerSecond>("200GB/s").value() == 200e9);
  CHECK(parse<BytesPerSecond>("400Gbit/s").value() == 50e9);
  CHECK(parse<BytesPerSecond>("8GiB/s").value() == 8.0 * 1024 * 1024 * 1024);
  CHECK(parse<Bytes>("8Mb").value() == 1e6);
  CHECK(parse<Bytes>("8Mib").value() == 1024 * 1024);
}

TEST_CASE("times are the nearest double to what is written") {
  CHECK(parse<Seconds>("5us").value() == 5e-6);
  CHECK(parse<Seconds>("5 \u00b5s").value() == 5e-6);
  CHECK(parse<Seconds>("5\u03bcs").value() == 5e-6);
  CHECK(parse<Seconds>("3ns").value() == 3e-9);
  CHECK(parse<Seconds>("7ms").value() == 7e-3);
  CHECK(parse<Seconds>("2min").value() == 120);
  CHECK(parse<Seconds>("1.5h").value() == 5400);
  CHECK(parse<Seconds>("30d").value() == 30 * 86400.0);
}

TEST_CASE("compute, power and money") {
  CHECK(parse<FlopsPerSecond>("312TFLOP/s").value() == 312e12);
  CHECK(parse<FlopsPerSecond>("312TFLOPS").value() == 312e12);
  CHECK(parse<FlopsPerSecond>("1.5PFLOPs/s").value() == 1.5e15);
  CHECK(parse<Flops>("3ZFLOP").value() == 3e21);
  CHECK(parse<Flops>("12FLOPs").value() == 12);
  CHECK(parse<Watts>("700W").value() == 700);
  CHECK(parse<Watts>("10.2kW").value() == 10200);
  CHECK(parse<Dollars>("2.5USD").value() == 2.5);
  CHECK(parse<Dollars>("$2.5").value() == 2.5);
  CHECK(parse<Dollars>("2.5$").value() == 2.5);
  CHECK(parse<Dollars>("$1.2M").value() == 1.2e6);
  CHECK(parse<Dollars>("3 MUSD").value() == 3e6);
}

TEST_CASE("a number without a unit is refused and the units are named") {
  const Error e = refused<Bytes>("25");
  CHECK(e.kind == ErrorKind::usage);
  CHECK(contains(e.what(), "'25'"));
  CHECK(contains(e.what(), "unit is missing"));
  CHECK(contains(e.hint, "MiB"));
  CHECK(contains(e.hint, "example: 25MB"));
  CHECK(contains(refused<Seconds>("5").hint, "example: 5us"));
}

TEST_CASE("a unit of another dimension, an unknown one and a wrong case are refused") {
  CHECK(contains(refused<Bytes>("25s").what(), "unknown unit 's'"));
  CHECK(contains(refused<BytesPerSecond>("25GB").what(), "unknown unit 'GB'"));
  CHECK(contains(refused<Flops>("1TFLOPS").what(), "unknown unit 'TFLOPS'"));  // A rate is not a count.
  CHECK(contains(refused<FlopsPerSecond>("1TFLOP").what(), "unknown unit 'TFLOP'"));
  CHECK(contains(refused<Bytes>("25mb").what(), "unknown unit 'mb'"));  // No millibits.
  CHECK(contains(refused<Seconds>("5Gs").what(), "unknown unit 'Gs'"));
  CHECK(contains(refused<Bytes>("25MBMB").what(), "unknown unit"));
  CHECK(contains(refused<Bytes>("$25").what(), "does not start with a number"));
}

TEST_CASE("negative, NaN, infinite, overflowing and empty values are refused") {
  CHECK(contains(refused<Bytes>("-1MB").what(), "negative"));
  CHECK(contains(refused<Bytes>("-1e-300B").what(), "negative"));
  CHECK(contains(refused<Seconds>("nan s").what(), "not finite"));
  CHECK(contains(refused<Seconds>("inf s").what(), "not finite"));
  CHECK(contains(refused<Bytes>("1e400B").what(), "out of range"));
  CHECK(contains(refused<Bytes>("1e300EB").what(), "out of range"));
  CHECK(contains(refused<Bytes>("").what(), "empty"));
  CHECK(contains(refused<Bytes>("   ").what(), "empty"));
  CHECK(contains(refused<Bytes>("MB").what(), "does not start with a number"));
}

TEST_CASE("an endless text is quoted short") {
  CHECK(std::string(refused<Bytes>(std::string(100000, 'x')).what()).size() < 200);
}
