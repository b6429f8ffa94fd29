#include "core/play/words.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/base/index.hpp"

namespace rehearse {

std::string_view words_of(TimeCategory c) {
  constexpr std::array<std::string_view, kTimeCategories> kWords{"matrix products",
                                                                 "attention",
                                                                 "memory-bound kernels",
                                                                 "loss",
                                                                 "recomputation",
                                                                 "launch overhead",
                                                                 "slowdown beside communication",
                                                                 "optimizer",
                                                                 "tp communication, exposed",
                                                                 "cp communication, exposed",
                                                                 "ep communication, exposed",
                                                                 "dp communication, exposed",
                                                                 "pp communication, exposed",
                                                                 "tile communication, exposed",
                                                                 "copies, exposed",
                                                                 "input",
                                                                 "bubble (waiting for others)"};
  return nth(kWords, c);
}

std::vector<std::string> percentages(const std::vector<double>& parts) {
  const double sum = std::accumulate(parts.begin(), parts.end(), 0.0);
  std::vector<int> tenths;
  std::vector<std::pair<double, std::size_t>> remainders;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const double exact = sum > 0 ? parts[i] / sum * 1000 : 0;
    tenths.push_back(static_cast<int>(std::floor(exact)));
    remainders.emplace_back(std::floor(exact) - exact, i);
  }
  std::stable_sort(remainders.begin(), remainders.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  int left = sum > 0 ? 1000 - std::accumulate(tenths.begin(), tenths.end(), 0) : 0;
  for (std::size_t i = 0; left > 0 && i < remainders.size(); ++i, --left) ++tenths[remainders[i].second];
  std::vector<std::string> out;
  for (const int t : tenths) out.push_back(fmt::format("{}.{}", t / 10, t % 10));
  return out;
}

std::string with_commas(double whole) {
  std::string digits = fmt::format("{:.0f}", whole);
  for (auto at = static_cast<int>(digits.size()) - 3; at > (digits[0] == '-' ? 1 : 0); at -= 3)
    digits.insert(static_cast<std::size_t>(at), ",");
  return digits;
}

std::string gib(Bytes b) { return fmt::format("{:.2f}", b.value() / kGib); }

std::string milliseconds(Seconds t) { return fmt::format("{:.3f}", t.value() * 1e3); }

std::string signed_time(Seconds t, int digits) {
  return t < Seconds{0} ? "-" + to_string(-t, digits) : "+" + to_string(t, digits);
}

std::string percent(double share) { return fmt::format("{:.1f}", 100 * share); }

std::string signed_percent(double share) { return fmt::format("{:+.1f}", 100 * share); }

nlohmann::ordered_json breakdown_json(const Breakdown& b) {
  auto out = nlohmann::ordered_json::object();
  for (int c = 0; c < kTimeCategories; ++c)
    out[std::string(name_of(static_cast<TimeCategory>(c)))] = nth(b.seconds, c).value();
  return out;
}

}  // namespace rehearse
