#pragma once
// Bars of parts, each a character repeated. Private to this folder.

#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

#include "core/report/formats/document.hpp"

namespace rehearse {

struct Bar {
  std::string label;
  std::vector<std::pair<char, double>> parts;
  std::string value;  ///< Stands behind it.
  [[nodiscard]] double length() const;
};

/// What a character of a bar stands for.
struct BarPart {
  char symbol;
  const char* meaning;
};

/// To the scale of the longest; ends of parts are rounded, so that bars of equal length stay equal.
[[nodiscard]] std::string draw_bars(const std::vector<Bar>& bars, const TextStyle& style);
/// The meanings of those parts that the bars have.
[[nodiscard]] std::string legend(const std::vector<BarPart>& parts, const std::vector<Bar>& bars);
/// Bars with a legend under them.
[[nodiscard]] Picture stacked_bars(const std::string& title, std::vector<BarPart> parts, std::vector<Bar> bars);

template <std::size_t N>
std::vector<std::pair<char, double>> in_order(const std::array<BarPart, N>& parts, const std::array<double, N>& sizes) {
  std::vector<std::pair<char, double>> out;
  for (std::size_t i = 0; i < N; ++i) out.emplace_back(parts[i].symbol, sizes[i]);
  return out;
}
template <std::size_t N>
Picture stacked(const std::string& title, const std::array<BarPart, N>& parts, std::vector<Bar> bars) {
  return stacked_bars(title, {parts.begin(), parts.end()}, std::move(bars));
}

}  // namespace rehearse
