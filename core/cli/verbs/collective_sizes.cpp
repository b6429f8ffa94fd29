#include "core/cli/verbs/collective_sizes.hpp"

#include <array>
#include <cmath>
#include <cstdlib>

#include <fmt/format.h>

#include "core/base/error.hpp"
#include "core/base/registry.hpp"
#include "core/base/units.hpp"

namespace rehearse::cli {
namespace {

constexpr std::size_t kMostSizes = 10'000;
constexpr double kMostBytes = 1e18;

/// Number and one letter, K to T; a negative number where `text` is something else.
double binary_size(const std::string& text) {
  char* end = nullptr;
  const double number = std::strtod(text.c_str(), &end);
  const std::string rest = end;
  if (end == text.c_str() || rest.size() > 1) return -1;
  constexpr std::string_view kLetters = "KMGT";
  if (rest.empty()) return number;
  const auto power = kLetters.find(static_cast<char>(std::toupper(static_cast<unsigned char>(rest.front()))));
  return power == kLetters.npos ? -1 : number * std::pow(1024.0, static_cast<double>(power + 1));
}

}  // namespace

double parse_size(const std::string& text, const std::string& option) {
  double out = binary_size(text);
  try {
    if (out < 0) out = parse<Bytes>(text).value();
  } catch (const Error&) {
    out = -1;
  }
  if (!(out >= 1 && out <= kMostBytes))
    throw Error(ErrorKind::usage, fmt::format("'{}' is no size", text), option,
                "bytes such as 8, 64K, 1G (powers of 1024) or 1MB");
  return std::floor(out);
}

std::vector<double> sizes_of(const SizeRange& r) {
  if (r.first > r.last)
    throw Error(ErrorKind::usage, fmt::format("from {:.0f} to {:.0f} bytes there is no size", r.first, r.last),
                "-b, -e", "-e must not be below -b");
  if (r.increment == 0 && !(r.factor > 1))
    throw Error(ErrorKind::usage, fmt::format("sizes times {} never reach the last", r.factor), "-f",
                "a factor above 1");
  std::vector<double> out;
  for (double size = r.first; size <= r.last;
       size = r.increment > 0 ? size + r.increment : std::max(std::floor(size * r.factor), size + 1)) {
    out.push_back(size);
    if (out.size() > kMostSizes)
      throw Error(ErrorKind::usage, fmt::format("more than {} sizes", kMostSizes), "-b, -e", "take a larger step");
  }
  return out;
}

ElementType parse_element_type(const std::string& name) {
  struct Known {
    const char* name;
    const char* alias;
    int bytes;
    bool is_fp8;
    bool in_switch;
  };
  static constexpr std::array<Known, 12> kTypes{{{"int8", "", 1, false, false},
                                                 {"uint8", "", 1, false, false},
                                                 {"int32", "", 4, false, true},
                                                 {"uint32", "", 4, false, true},
                                                 {"int64", "", 8, false, true},
                                                 {"uint64", "", 8, false, true},
                                                 {"half", "fp16", 2, false, true},
                                                 {"float", "fp32", 4, false, true},
                                                 {"double", "fp64", 8, false, true},
                                                 {"bfloat16", "bf16", 2, false, true},
                                                 {"f8e4m3", "fp8", 1, true, false},
                                                 {"f8e5m2", "", 1, true, false}}};
  std::vector<std::string> valid;
  for (const Known& t : kTypes) {
    if (name == t.name || (*t.alias != 0 && name == t.alias)) return {t.name, t.bytes, t.is_fp8, t.in_switch};
    valid.emplace_back(t.name);
  }
  Error e = unknown_name("type", name, valid);
  e.where = "--dtype";
  throw e;
}

Buffer buffer_of(CollectiveOp op, double size, int element_bytes, int ranks) {
  const bool divided =
      op == CollectiveOp::all_gather || op == CollectiveOp::reduce_scatter || op == CollectiveOp::all_to_all;
  const double whole = std::floor(size / element_bytes);
  if (!divided) return {whole, whole * element_bytes};
  const double line = std::max(1, 16 / element_bytes);
  const double count = std::floor(std::floor(whole / ranks) / line) * line;
  return {count, count * element_bytes * ranks};
}

}  // namespace rehearse::cli
