#include "core/base/units.hpp"

#include <algorithm>
#include <array>
#include <span>

#include <fmt/format.h>

#include "core/base/error.hpp"
#include "core/base/portable.hpp"

namespace rehearse {
namespace {

// Scales are kept as multiplier and divisor: 5 / 1e6 is the double nearest to 5e-6, 5 * 1e-6 is not.
struct Scale {
  std::string_view text;
  double multiplier = 1.0;
  double divisor = 1.0;
};

struct Grammar {
  std::string_view quantity;
  std::span<const Scale> units;
  std::span<const Scale> prefixes;
  std::string_view accepted;
  std::string_view example;
};

constexpr double kKi = 1024.0, kMi = kKi * kKi, kGi = kMi * kKi, kTi = kGi * kKi, kPi = kTi * kKi, kEi = kPi * kKi;

constexpr std::array<Scale, 7> kSi{
    {{"k", 1e3}, {"K", 1e3}, {"M", 1e6}, {"G", 1e9}, {"T", 1e12}, {"P", 1e15}, {"E", 1e18}}};
constexpr std::array<Scale, 9> kSiFlop{
    {{"k", 1e3}, {"K", 1e3}, {"M", 1e6}, {"G", 1e9}, {"T", 1e12}, {"P", 1e15}, {"E", 1e18}, {"Z", 1e21}, {"Y", 1e24}}};
constexpr std::array<Scale, 13> kSiAndIec{{{"k", 1e3},
                                           {"K", 1e3},
                                           {"M", 1e6},
                                           {"G", 1e9},
                                           {"T", 1e12},
                                           {"P", 1e15},
                                           {"E", 1e18},
                                           {"Ki", kKi},
                                           {"Mi", kMi},
                                           {"Gi", kGi},
                                           {"Ti", kTi},
                                           {"Pi", kPi},
                                           {"Ei", kEi}}};
constexpr std::array<Scale, 6> kMoney{{{"k", 1e3}, {"K", 1e3}, {"M", 1e6}, {"B", 1e9}, {"G", 1e9}, {"T", 1e12}}};

constexpr std::array<Scale, 6> kByteUnits{{{"B"}, {"bytes"}, {"byte"}, {"b", 1, 8}, {"bit", 1, 8}, {"bits", 1, 8}}};
constexpr std::array<Scale, 5> kByteRateUnits{{{"B/s"}, {"Bps"}, {"b/s", 1, 8}, {"bit/s", 1, 8}, {"bps", 1, 8}}};
constexpr std::array<Scale, 10> kTimeUnits{{{"s"},
                                            {"ms", 1, 1e3},
                                            {"us", 1, 1e6},
                                            {"\u00b5s", 1, 1e6},
                                            {"\u03bcs", 1, 1e6},
                                            {"ns", 1, 1e9},
                                            {"ps", 1, 1e12},
                                            {"min", 60},
                                            {"h", 3600},
                                            {"d", 86400}}};
constexpr std::array<Scale, 2> kFlopUnits{{{"FLOP"}, {"FLOPs"}}};
constexpr std::array<Scale, 3> kFlopRateUnits{{{"FLOP/s"}, {"FLOPs/s"}, {"FLOPS"}}};
constexpr std::array<Scale, 2> kWattUnits{{{"W"}, {"mW", 1, 1e3}}};
constexpr std::array<Scale, 2> kDollarUnits{{{"USD"}, {"$"}}};

template <class Q>
constexpr Grammar grammar();
template <>
constexpr Grammar grammar<Bytes>() {
  return {"a size", kByteUnits, kSiAndIec,
          "B, kB, MB, GB, TB, PB (SI), KiB, MiB, GiB, TiB, PiB (IEC), b, kb, Mb, Gb (bits)", "25MB"};
}
template <>
constexpr Grammar grammar<BytesPerSecond>() {
  return {"a bandwidth", kByteRateUnits, kSiAndIec,
          "B/s, kB/s, MB/s, GB/s, TB/s, GiB/s, TiB/s, Mb/s, Gb/s, Gbps (bits)", "450GB/s"};
}
template <>
constexpr Grammar grammar<Seconds>() {
  return {"a time", kTimeUnits, {}, "ps, ns, us, ms, s, min, h, d", "5us"};
}
template <>
constexpr Grammar grammar<Flops>() {
  return {"a count of operations", kFlopUnits, kSiFlop, "FLOP, kFLOP, MFLOP, GFLOP, TFLOP, PFLOP, EFLOP, ZFLOP, YFLOP",
          "2.5PFLOP"};
}
template <>
constexpr Grammar grammar<FlopsPerSecond>() {
  return {"a compute rate", kFlopRateUnits, kSiFlop, "FLOP/s, GFLOP/s, TFLOP/s, PFLOP/s, EFLOP/s; FLOPS means FLOP/s",
          "312TFLOP/s"};
}
template <>
constexpr Grammar grammar<Watts>() {
  return {"a power", kWattUnits, kSi, "mW, W, kW, MW, GW", "700W"};
}
template <>
constexpr Grammar grammar<Dollars>() {
  return {"an amount of money", kDollarUnits, kMoney, "$ or USD, with k, M, B or T before it", "2.5USD or $2.5"};
}

std::string_view trimmed(std::string_view s) {
  while (!s.empty() && (s.front() == ' ' || s.front() == '\t')) s.remove_prefix(1);
  while (!s.empty() && (s.back() == ' ' || s.back() == '\t')) s.remove_suffix(1);
  return s;
}

std::string clipped(std::string_view s) {
  constexpr std::size_t kLongest = 60;
  return s.size() <= kLongest ? std::string(s) : std::string(s.substr(0, kLongest)) + "...";
}

[[noreturn]] void refuse(const Grammar& g, std::string_view text, std::string_view why) {
  throw Error(ErrorKind::usage, fmt::format("'{}' is not {}: {}", clipped(text), g.quantity, why), {},
              fmt::format("accepted units: {}; example: {}", g.accepted, g.example));
}

bool find_scale(const Grammar& g, std::string_view unit, Scale& found) {
  for (const Scale& base : g.units) {
    if (!unit.ends_with(base.text)) continue;
    const std::string_view before = unit.substr(0, unit.size() - base.text.size());
    if (before.empty()) {
      found = base;
      return true;
    }
    for (const Scale& prefix : g.prefixes)
      if (prefix.text == before) {
        found = {unit, base.multiplier * prefix.multiplier, base.divisor};
        return true;
      }
  }
  return false;
}

double parse_value(const Grammar& g, std::string_view text) {
  std::string_view rest = trimmed(text);
  if (rest.empty()) refuse(g, text, "it is empty");
  const bool leading_dollar = rest.front() == '$' && g.units.data() == kDollarUnits.data();
  if (leading_dollar) rest.remove_prefix(1);
  double number = 0;
  const auto [end, status] = number_from_chars(rest.data(), rest.data() + rest.size(), number);
  if (status == std::errc::result_out_of_range) refuse(g, text, "the number is out of range");
  if (status != std::errc{}) refuse(g, text, "it does not start with a number");
  if (!std::isfinite(number)) refuse(g, text, "the number is not finite");
  if (std::signbit(number) && number != 0) refuse(g, text, "it is negative");

  const std::string unit =
      std::string(trimmed(rest.substr(static_cast<std::size_t>(end - rest.data())))) + (leading_dollar ? "$" : "");
  if (unit.empty()) refuse(g, text, "the unit is missing");
  Scale scale;
  if (!find_scale(g, unit, scale)) refuse(g, text, fmt::format("unknown unit '{}'", clipped(unit)));
  const double value = std::abs(number) * scale.multiplier / scale.divisor;
  if (!std::isfinite(value)) refuse(g, text, "the number is out of range");
  return value;
}

/// `v` to `digits` significant digits, decimal point only where needed.
std::string plain(double v, int digits) {
  if (v == 0 || !std::isfinite(v)) return fmt::format("{}", std::abs(v));
  const int exponent = static_cast<int>(std::floor(std::log10(std::abs(v))));
  std::string s = fmt::format("{:.{}f}", v, std::max(0, digits - 1 - exponent));
  if (s.find('.') != std::string::npos) {
    s.erase(s.find_last_not_of('0') + 1);
    if (s.back() == '.') s.pop_back();
  }
  return s;
}

double rounded(double v, int digits) {
  const std::string s = fmt::format("{:.{}e}", v, digits - 1);
  double out = 0;
  number_from_chars(s.data(), s.data() + s.size(), out);
  return out;
}

struct Printed {
  std::string number;
  std::string_view unit;
};

// The largest unit of the ascending `ladder` that leaves a mantissa of at least one after rounding. The unit is chosen
// after rounding, so that 999.99 kB prints as 1 MB.
Printed on_ladder(double v, int digits, std::span<const Scale> ladder) {
  digits = std::clamp(digits, 1, 17);
  if (v == 0 || !std::isfinite(v)) {
    for (const Scale& s : ladder)
      if (s.multiplier == 1 && s.divisor == 1) return {plain(v, digits), s.text};
  }
  std::size_t i = ladder.size() - 1;
  const auto mantissa = [&] { return rounded(v * ladder[i].divisor / ladder[i].multiplier, digits); };
  while (i > 0 && std::abs(mantissa()) < 1) --i;
  const double m = mantissa();
  const bool off_scale = std::abs(m) < 1e-3 || std::abs(m) >= 1e6;
  return {off_scale ? fmt::format("{:.{}g}", m, digits) : plain(m, digits), ladder[i].text};
}

std::string joined(const Printed& p) { return fmt::format("{} {}", p.number, p.unit); }

}  // namespace

template <class Q>
Q parse(std::string_view text) {
  return Q{parse_value(grammar<Q>(), text)};
}
template Bytes parse<Bytes>(std::string_view);
template Seconds parse<Seconds>(std::string_view);
template Flops parse<Flops>(std::string_view);
template BytesPerSecond parse<BytesPerSecond>(std::string_view);
template FlopsPerSecond parse<FlopsPerSecond>(std::string_view);
template Watts parse<Watts>(std::string_view);
template Dollars parse<Dollars>(std::string_view);

std::string to_string(Bytes q, int digits) {
  static constexpr std::array<Scale, 7> ladder{
      {{"B"}, {"kB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"TB", 1e12}, {"PB", 1e15}, {"EB", 1e18}}};
  return joined(on_ladder(q.value(), digits, ladder));
}

std::string to_string_iec(Bytes q, int digits) {
  static constexpr std::array<Scale, 7> ladder{
      {{"B"}, {"KiB", kKi}, {"MiB", kMi}, {"GiB", kGi}, {"TiB", kTi}, {"PiB", kPi}, {"EiB", kEi}}};
  return joined(on_ladder(q.value(), digits, ladder));
}

std::string to_string(Seconds q, int digits) {
  static constexpr std::array<Scale, 5> ladder{
      {{"ps", 1, 1e12}, {"ns", 1, 1e9}, {"us", 1, 1e6}, {"ms", 1, 1e3}, {"s"}}};
  static constexpr std::array<Scale, 1> minutes{{{"min", 60}}}, hours{{{"h", 3600}}}, days{{{"d", 86400}}};
  const double s = std::abs(q.value());
  if (!std::isfinite(s) || s < 600) return joined(on_ladder(q.value(), digits, ladder));
  if (s < 2 * 3600) return joined(on_ladder(q.value(), digits, minutes));
  if (s < 2 * 86400) return joined(on_ladder(q.value(), digits, hours));
  return joined(on_ladder(q.value(), digits, days));
}

std::string to_string(Flops q, int digits) {
  static constexpr std::array<Scale, 9> ladder{{{"FLOP"},
                                                {"kFLOP", 1e3},
                                                {"MFLOP", 1e6},
                                                {"GFLOP", 1e9},
                                                {"TFLOP", 1e12},
                                                {"PFLOP", 1e15},
                                                {"EFLOP", 1e18},
                                                {"ZFLOP", 1e21},
                                                {"YFLOP", 1e24}}};
  return joined(on_ladder(q.value(), digits, ladder));
}

std::string to_string(BytesPerSecond q, int digits) {
  static constexpr std::array<Scale, 7> ladder{
      {{"B/s"}, {"kB/s", 1e3}, {"MB/s", 1e6}, {"GB/s", 1e9}, {"TB/s", 1e12}, {"PB/s", 1e15}, {"EB/s", 1e18}}};
  return joined(on_ladder(q.value(), digits, ladder));
}

std::string to_string(FlopsPerSecond q, int digits) {
  static constexpr std::array<Scale, 9> ladder{{{"FLOP/s"},
                                                {"kFLOP/s", 1e3},
                                                {"MFLOP/s", 1e6},
                                                {"GFLOP/s", 1e9},
                                                {"TFLOP/s", 1e12},
                                                {"PFLOP/s", 1e15},
                                                {"EFLOP/s", 1e18},
                                                {"ZFLOP/s", 1e21},
                                                {"YFLOP/s", 1e24}}};
  return joined(on_ladder(q.value(), digits, ladder));
}

std::string to_string(Watts q, int digits) {
  static constexpr std::array<Scale, 5> ladder{{{"mW", 1, 1e3}, {"W"}, {"kW", 1e3}, {"MW", 1e6}, {"GW", 1e9}}};
  return joined(on_ladder(q.value(), digits, ladder));
}

std::string to_string(Dollars q, int digits) {
  static constexpr std::array<Scale, 5> ladder{{{""}, {"k", 1e3}, {"M", 1e6}, {"B", 1e9}, {"T", 1e12}}};
  const Printed p = on_ladder(std::abs(q.value()), digits, ladder);
  return fmt::format("{}${}{}", q.value() < 0 ? "-" : "", p.number, p.unit);
}

}  // namespace rehearse
