#include "core/report/results/explanation.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/play/words.hpp"
#include "core/report/results/comparison.hpp"

namespace rehearse {

namespace {

constexpr std::size_t kMostParts = 4;
constexpr int kDigits = 3;      // Of times.
constexpr double kTold = 0.97;  // Share of all changes after which the rest is one part.

/// The largest parts of a difference first; they and "all else" add up to it.
std::string parts_text(const Breakdown& d) {
  std::vector<std::size_t> order(kTimeCategories);
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto size = [&d](std::size_t c) { return std::abs(d.seconds[c].value()); };
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return size(a) > size(b); });
  const double moved =
      std::accumulate(order.begin(), order.end(), 0.0, [&](double sum, std::size_t c) { return sum + size(c); });
  std::vector<std::string> parts;
  double told = 0;
  Seconds sum;
  for (const std::size_t c : order) {
    if (parts.size() == kMostParts || told > kTold * moved) break;
    parts.push_back(fmt::format("{} {}", signed_time(d.seconds[c], kDigits), words_of(static_cast<TimeCategory>(c))));
    told += size(c);
    sum += d.seconds[c];
  }
  const Seconds rest = d.total() - sum;
  if (std::abs(rest.value()) > 1e-3 * moved) parts.push_back(signed_time(rest, kDigits) + " all else");
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::string memory_text(const Evaluation& plan, const Evaluation& winner) {
  const Bytes more = plan.needed - winner.needed;
  if (std::abs(more.value()) < 1e-3 * winner.needed.value()) return "the same memory";
  return more < Bytes{0} ? to_string_iec(-more, 3) + " less memory" : to_string_iec(more, 3) + " more memory";
}

/// "5.2 % less time (17.7 s instead of 18.7 s): -0.9 s bubble (waiting for others), ...".
std::string against(const Evaluation& winner, const Evaluation& other) {
  const double less = 1 - winner.time() / other.time();
  const Breakdown d = difference(other.parts(), winner.parts());
  if (std::abs(less) < 5e-5) return fmt::format("as much time, {}", to_string(other.time()));
  return fmt::format("{:.2g} % {} time ({} instead of {}): {}", 100 * std::abs(less), less > 0 ? "less" : "more",
                     to_string(winner.time()), to_string(other.time()), parts_text(d));
}

}  // namespace

std::string trade_text(const Found& plan, const Found& winner) {
  if (&plan == &winner || (plan.order == winner.order && plan.settings == winner.settings)) return "the best";
  const Evaluation &a = winner.evaluation, &b = plan.evaluation;
  const Breakdown d = difference(a.parts(), b.parts());
  return fmt::format("{}: {}; {}", signed_time(b.time() - a.time(), kDigits), parts_text(d), memory_text(b, a));
}

std::string why_text(const SearchResult& result, Objective objective) {
  if (result.best.empty()) return "Nothing fits.";
  const Found& winner = result.best.front();
  const Evaluation& e = winner.evaluation;
  std::string out = fmt::format("{} takes {} a step and needs {} of {}.", plan_label(winner.settings),
                                to_string(e.time()), to_string_iec(e.needed, 3), to_string_iec(e.capacity, 3));
  if (objective == Objective::memory) out += " It needs the least memory.";
  if (result.best.size() > 1)
    out += fmt::format(" Against the next, {}: {}.", plan_label(result.best[1].settings),
                       against(e, result.best[1].evaluation));
  if (!result.own) return out;
  const Found& own = *result.own;
  if (!own.evaluation.fits)
    return out + fmt::format(" The scenario's own {} does not fit: it needs {} of {}.", plan_label(own.settings),
                             to_string_iec(own.evaluation.needed, 3), to_string_iec(own.evaluation.capacity, 3));
  if (setting_texts(own.settings) == setting_texts(winner.settings)) return out + " It is the scenario's own plan.";
  return out + fmt::format(" Against the scenario's own, {}: {}; it needs {}.", plan_label(own.settings),
                           against(e, own.evaluation), memory_text(e, own.evaluation));
}

}  // namespace rehearse
