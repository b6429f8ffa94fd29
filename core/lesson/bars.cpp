#include "core/lesson/bars.hpp"

#include <cmath>

#include <fmt/format.h>

#include "core/report/formats/format.hpp"

namespace rehearse {

namespace {
constexpr int kLeastRoom = 20;
}  // namespace

double Bar::length() const {
  double sum = 0;
  for (const auto& [symbol, size] : parts) sum += size;
  return sum;
}

std::string draw_bars(const std::vector<Bar>& bars, const TextStyle& style) {
  std::size_t label = 0, value = 0;
  double longest = 0;
  for (const Bar& b : bars) {
    label = std::max(label, b.label.size());
    value = std::max(value, b.value.size());
    longest = std::max(longest, b.length());
  }
  const int room = std::max(kLeastRoom, style.width - static_cast<int>(label + value) - 4);
  std::string out;
  for (const Bar& b : bars) {
    std::string cells;
    double end = 0;
    for (const auto& [symbol, size] : b.parts) {
      end += size;
      const auto until = static_cast<std::size_t>(longest > 0 ? std::lround(end / longest * room) : 0);
      if (until > cells.size()) cells.append(until - cells.size(), symbol);
    }
    out += fmt::format("{:<{}} |{:<{}} {:>{}}\n", b.label, label, cells, room, b.value, value);
  }
  return out;
}

std::string legend(const std::vector<BarPart>& parts, const std::vector<Bar>& bars) {
  std::string out;
  for (const BarPart& p : parts) {
    const bool used = std::any_of(bars.begin(), bars.end(), [&](const Bar& b) {
      return std::any_of(b.parts.begin(), b.parts.end(),
                         [&](const auto& part) { return part.first == p.symbol && part.second > 0; });
    });
    if (used) out += fmt::format("{}{} {}", out.empty() ? "" : ", ", p.symbol, p.meaning);
  }
  return out;
}

Picture stacked_bars(const std::string& title, std::vector<BarPart> parts, std::vector<Bar> bars) {
  return {title, [parts = std::move(parts), bars = std::move(bars)](const TextStyle& style) {
            return draw_bars(bars, style) + wrap(legend(parts, bars), style.width) + "\n";
          }};
}

}  // namespace rehearse
