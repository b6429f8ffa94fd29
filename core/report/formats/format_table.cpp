// "table": for people, as wide as the terminal.

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "core/report/formats/format.hpp"

namespace rehearse {

namespace {

constexpr int kGap = 2;
constexpr int kLeastBar = 10, kMostBar = 40, kLeastValue = 20, kLeastText = 24;

class TablePrinter {
 public:
  explicit TablePrinter(const TextStyle& style) : style_(style) {}

  void operator()(const Heading& h) { out_ += bold(wrap(h.text, style_.width)) + "\n"; }
  void operator()(const Paragraph& p) { out_ += wrap(p.text, style_.width) + "\n"; }
  void operator()(const Picture& p) {
    title(p.title);
    out_ += p.draw(style_);
  }

  void operator()(const Facts& facts) {
    title(facts.title);
    int label = 0;
    for (const auto& [name, value] : facts.rows) label = std::max(label, columns_of(name));
    for (const auto& [name, value] : facts.rows)
      out_ += padded(name, label + kGap, false) +
              wrap(value, std::max(kLeastValue, style_.width - label - kGap), label + kGap) + "\n";
  }

  void operator()(const Table& table) {
    title(table.title);
    std::vector<int> widths;
    for (std::size_t c = 0; c < table.columns.size(); ++c) {
      int width = columns_of(table.columns[c].title);
      for (const auto& row : table.rows) width = std::max(width, columns_of(row[c]));
      widths.push_back(width);
    }
    shorten_last(table, widths);
    for (std::size_t first = 1; first < table.columns.size() || first == 1;) first = piece(table, widths, first);
  }

  std::string take() { return std::move(out_); }

 private:
  [[nodiscard]] std::string bold(const std::string& text) const {
    return style_.colour ? "\033[1m" + text + "\033[0m" : text;
  }

  void title(const std::string& text) {
    if (!text.empty()) out_ += bold(wrap(text, style_.width)) + "\n";
  }

  [[nodiscard]] static std::string padded(const std::string& text, int width, bool right) {
    const std::string space(static_cast<std::size_t>(std::max(0, width - columns_of(text))), ' ');
    return right ? space + text : text + space;
  }

  /// A last column of text takes the room that the others leave it on the line, and wraps there.
  void shorten_last(const Table& table, std::vector<int>& widths) const {
    if (widths.size() < 2 || table.columns.back().number || !table.bars.empty()) return;
    int others = 0;
    for (std::size_t c = 0; c + 1 < widths.size(); ++c) others += widths[c] + kGap;
    const int beside = style_.width - others, alone = style_.width - widths.front() - kGap;
    const int room = beside >= kLeastText ? beside : alone;
    if (room >= kLeastText) widths.back() = std::min(widths.back(), room);
  }

  /// Prints column 0 and as many columns from `first` on as fit; returns the first that does not.
  std::size_t piece(const Table& table, const std::vector<int>& widths, std::size_t first) {
    if (first > 1) out_ += "\n";
    std::size_t last = first;
    int used = widths[0];
    while (last < widths.size() && (last == first || used + kGap + widths[last] <= style_.width))
      used += kGap + widths[last++];
    // Alone on its line and still too long, text wraps.
    const int room_for_text = style_.width - widths[0] - kGap;
    const bool too_long =
        last == first + 1 && used > style_.width && !table.columns[first].number && room_for_text >= kLeastText;
    const auto width_of = [&](std::size_t c) { return too_long && c == first ? room_for_text : widths[c]; };
    const bool whole = last == widths.size() && first == 1;
    const int room = whole && !table.bars.empty() ? std::min(kMostBar, style_.width - used - kGap) : 0;
    const auto line = [&](const auto& cell) {
      std::string text = padded(cell(0), widths[0], table.columns[0].number);
      for (std::size_t c = first; c < last; ++c)
        text += std::string(kGap, ' ') + (too_long || wraps(table, c)
                                              ? wrap(cell(c), width_of(c), columns_of(text) + kGap)
                                              : padded(cell(c), widths[c], table.columns[c].number));
      return text;
    };
    const auto trimmed = [](std::string text) { return text.erase(text.find_last_not_of(' ') + 1) + "\n"; };
    if (std::any_of(table.columns.begin(), table.columns.end(), [](const Column& c) { return !c.title.empty(); }))
      out_ += trimmed(line([&](std::size_t c) { return table.columns[c].title; }));
    for (std::size_t r = 0; r < table.rows.size(); ++r) {
      std::string text = line([&](std::size_t c) { return table.rows[r][c]; });
      if (room >= kLeastBar)
        text += std::string(kGap, ' ') +
                std::string(static_cast<std::size_t>(std::lround(std::clamp(table.bars[r], 0.0, 1.0) * room)), '#');
      out_ += trimmed(text);
    }
    return std::max(last, first + 1);
  }

  [[nodiscard]] static bool wraps(const Table& table, std::size_t column) {
    return column + 1 == table.columns.size() && !table.columns[column].number && table.bars.empty();
  }

  const TextStyle& style_;
  std::string out_;
};

std::string print_format_table(const Document& document, const TextStyle& style) {
  TablePrinter printer(style);
  std::string out;
  for (const DocumentBlock& block : document.blocks) {
    std::visit(printer, block);
    const std::string text = printer.take();
    if (!out.empty()) out += "\n";
    out += text;
  }
  return out;
}

[[maybe_unused]] const bool registered_format_table =
    formats().add({"table", "for people, as wide as the terminal", {}, print_format_table});

}  // namespace

}  // namespace rehearse
