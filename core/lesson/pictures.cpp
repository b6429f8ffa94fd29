#include "core/lesson/pictures.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/format.h>

#include "core/base/index.hpp"
#include "core/report/formats/format.hpp"

namespace rehearse {

namespace {

constexpr int kLeastRoom = 20;

using PicturesAnswers = std::vector<LessonAnswer>;

/// A bar of parts, each a character repeated.
struct Bar {
  std::string label;
  std::vector<std::pair<char, double>> parts;
  std::string value;  ///< Stands behind it.
  [[nodiscard]] double length() const {
    double sum = 0;
    for (const auto& [symbol, size] : parts) sum += size;
    return sum;
  }
};

/// To the scale of the longest; ends of parts are rounded, so that bars of equal length stay equal.
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

struct Part {
  char symbol;
  const char* meaning;
};

/// What of a step counts as what. Later rows of a bar stand further right.
constexpr std::array<Part, 6> kTimeParts{{{'#', "compute"},
                                          {'r', "recomputation"},
                                          {'o', "optimizer"},
                                          {'=', "communication and copies"},
                                          {'i', "input"},
                                          {'.', "waiting"}}};

std::size_t time_part(TimeCategory c) {
  switch (c) {
    case TimeCategory::recompute: return 1;
    case TimeCategory::optimizer: return 2;
    case TimeCategory::input: return 4;
    case TimeCategory::bubble: return 5;
    case TimeCategory::overlap_slowdown: return 3;
    default: return c >= TimeCategory::exposed_tp && c <= TimeCategory::exposed_copy ? 3 : 0;
  }
}

template <std::size_t N>
std::string legend(const std::array<Part, N>& parts, const std::vector<Bar>& bars) {
  std::string out;
  for (const Part& p : parts) {
    const bool used = std::any_of(bars.begin(), bars.end(), [&](const Bar& b) {
      return std::any_of(b.parts.begin(), b.parts.end(),
                         [&](const auto& part) { return part.first == p.symbol && part.second > 0; });
    });
    if (used) out += fmt::format("{}{} {}", out.empty() ? "" : ", ", p.symbol, p.meaning);
  }
  return out;
}

template <std::size_t N>
std::vector<std::pair<char, double>> in_order(const std::array<Part, N>& parts, const std::array<double, N>& sizes) {
  std::vector<std::pair<char, double>> out;
  for (std::size_t i = 0; i < N; ++i) out.emplace_back(parts[i].symbol, sizes[i]);
  return out;
}

Bar time_bar(const LessonAnswer& a) {
  std::array<double, kTimeParts.size()> sizes{};
  for (int c = 0; c < kTimeCategories; ++c)
    sizes[time_part(static_cast<TimeCategory>(c))] += nth(a.report.breakdown.seconds, c).value();
  return {a.key, in_order(kTimeParts, sizes), to_string(a.report.metrics.step_time)};
}

constexpr std::array<Part, 6> kMemoryParts{{{'w', "weights"},
                                            {'g', "gradients"},
                                            {'o', "optimizer"},
                                            {'a', "activations"},
                                            {'b', "buffers"},
                                            {'f', "framework and reserve"}}};

/// What the device must have: by category, and the rest of `needed`.
Bar memory_bar(const LessonAnswer& a) {
  const StageMemory& worst = a.report.memory.tightest();
  std::array<double, kMemoryParts.size()> sizes{};
  const auto of = [&](MemoryCategory c) { return nth(worst.memory.by_category, c).value(); };
  sizes = {of(MemoryCategory::weights),
           of(MemoryCategory::gradients),
           of(MemoryCategory::optimizer),
           of(MemoryCategory::activations),
           of(MemoryCategory::communication) + of(MemoryCategory::workspace),
           0};
  double sum = 0;
  for (const double s : sizes) sum += s;
  sizes.back() = std::max(0.0, worst.needed.value() - sum);
  return {a.key, in_order(kMemoryParts, sizes),
          fmt::format("{:.2f} of {:.0f} GiB{}", worst.needed.value() / (1ULL << 30),
                      worst.capacity.value() / (1ULL << 30), worst.fits() ? "" : " OVER")};
}

template <std::size_t N>
Picture stacked(const std::string& title, const std::array<Part, N>& parts, std::vector<Bar> bars) {
  return {title, [&parts, bars = std::move(bars)](const TextStyle& style) {
            return draw_bars(bars, style) + wrap(legend(parts, bars), style.width) + "\n";
          }};
}

std::vector<const LessonAnswer*> chosen(const LessonPicture& picture, const PicturesAnswers& answers, bool times) {
  std::vector<const LessonAnswer*> out;
  for (const LessonAnswer& a : answers) {
    const bool named =
        picture.plans.empty() || std::find(picture.plans.begin(), picture.plans.end(), a.key) != picture.plans.end();
    if (named && (!times || a.report.memory.fits())) out.push_back(&a);
  }
  return out;
}

std::string draw_steps(const std::vector<LessonAnswer>& shown, const TextStyle& style) {
  Seconds longest{0};
  std::size_t label = 0;
  const auto name = [](const LessonAnswer& a, const GanttRow& row) {
    return a.report.rows.size() == 1 ? a.key : a.key + " " + row.label;
  };
  for (const LessonAnswer& a : shown) {
    longest = std::max(longest, a.report.metrics.step_time);
    for (const GanttRow& row : a.report.rows) label = std::max(label, name(a, row).size());
  }
  std::string out;
  for (const LessonAnswer& a : shown) {
    std::vector<GanttRow> rows = a.report.rows;
    for (GanttRow& row : rows) row.label = fmt::format("{:<{}}", name(a, row), label);
    GanttOptions options;
    options.communication = true;
    options.cut = false;
    options.until = a.report.begin + a.report.metrics.step_time;
    options.axis = &a == &shown.back();
    out += draw_gantt(*a.report.trace, rows, a.report.begin, a.report.begin + longest, style, options);
  }
  return out;
}

DocumentBlock steps(const std::string& title, const std::vector<const LessonAnswer*>& answers) {
  std::vector<LessonAnswer> shown;
  for (const LessonAnswer* a : answers)
    if (a->report.trace && !a->report.rows.empty()) shown.push_back(*a);
  if (shown.empty()) return Paragraph{"No plan fits into memory: there is no step to draw."};
  return Picture{title, [shown](const TextStyle& style) { return draw_steps(shown, style); }};
}

DocumentBlock bars_of(const LessonPicture& picture, const std::vector<const LessonAnswer*>& answers) {
  std::vector<Bar> bars;
  for (const LessonAnswer* a : answers) {
    const std::optional<double> v = figure({*a}, a->key + "." + picture.figure);
    bars.push_back({a->key, {{'#', v.value_or(0)}}, v ? figure_text(*v, picture.form) : "does not fit"});
  }
  return Picture{picture.title.empty() ? picture.figure : picture.title,
                 [bars](const TextStyle& style) { return draw_bars(bars, style); }};
}

}  // namespace

DocumentBlock draw_picture(const LessonPicture& picture, const PicturesAnswers& answers) {
  const auto title = [&](const char* own) { return picture.title.empty() ? std::string(own) : picture.title; };
  std::vector<Bar> bars;
  switch (picture.kind) {
    case PictureKind::steps: return steps(title("One step, all to one scale"), chosen(picture, answers, true));
    case PictureKind::bars: return bars_of(picture, chosen(picture, answers, false));
    case PictureKind::time:
      for (const LessonAnswer* a : chosen(picture, answers, true)) bars.push_back(time_bar(*a));
      return stacked(title("Where the step goes, on the slowest GPU"), kTimeParts, std::move(bars));
    case PictureKind::memory:
      for (const LessonAnswer* a : chosen(picture, answers, false)) bars.push_back(memory_bar(*a));
      return stacked(title("Memory that the fullest GPU needs"), kMemoryParts, std::move(bars));
  }
  return Paragraph{};
}

}  // namespace rehearse
