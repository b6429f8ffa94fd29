#include "core/lesson/pictures.hpp"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "core/base/index.hpp"
#include "core/lesson/bars.hpp"
#include "core/lesson/fleet_pictures.hpp"
#include "core/lesson/ring_picture.hpp"
#include "core/report/formats/format.hpp"

namespace rehearse {

namespace {

using PicturesAnswers = std::vector<LessonAnswer>;

/// What of a step counts as what. Later rows of a bar stand further right.
constexpr std::array<BarPart, 6> kTimeParts{{{'#', "compute"},
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

Bar time_bar(const LessonAnswer& a) {
  std::array<double, kTimeParts.size()> sizes{};
  for (int c = 0; c < kTimeCategories; ++c)
    sizes[time_part(static_cast<TimeCategory>(c))] += nth(a.report.breakdown.seconds, c).value();
  return {a.key, in_order(kTimeParts, sizes), to_string(a.report.metrics.step_time)};
}

constexpr std::array<BarPart, 6> kMemoryParts{{{'w', "weights"},
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

std::vector<const LessonAnswer*> chosen(const LessonPicture& picture, const PicturesAnswers& answers, bool times) {
  std::vector<const LessonAnswer*> out;
  for (const LessonAnswer& a : answers) {
    const bool named =
        picture.plans.empty() || std::find(picture.plans.begin(), picture.plans.end(), a.key) != picture.plans.end();
    if (named && (!times || a.fleet || a.report.memory.fits())) out.push_back(&a);
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

DocumentBlock bars_of(const LessonPicture& picture, const PicturesAnswers& answers) {
  std::vector<Bar> bars;
  for (const PlanFigure& f : figures_shown(picture, answers))
    bars.push_back({f.plan, {{'#', f.value.value_or(0)}}, f.text});
  return Picture{picture.title.empty() ? picture.figure : picture.title,
                 [bars](const TextStyle& style) { return draw_bars(bars, style); }};
}

DocumentBlock rings(const std::string& title, const std::vector<const LessonAnswer*>& answers) {
  std::vector<std::pair<std::string, int>> shown;
  for (const LessonAnswer* a : answers) shown.emplace_back(a->key, static_cast<int>(a->report.head.plan.gpus));
  return Picture{title, [shown](const TextStyle& style) {
                   std::string out;
                   for (const auto& [key, gpus] : shown)
                     out += (shown.size() > 1 ? key + ":\n" : "") + draw_ring(gpus, style);
                   return out;
                 }};
}

}  // namespace

std::vector<PlanFigure> figures_shown(const LessonPicture& picture, const PicturesAnswers& answers) {
  std::vector<PlanFigure> out;
  for (const LessonAnswer* a : chosen(picture, answers, false)) {
    const std::optional<double> v = figure({*a}, a->key + "." + picture.figure);
    out.push_back({a->key, v, v ? figure_text(*v, picture.form) : "does not fit"});
  }
  return out;
}

DocumentBlock draw_picture(const LessonPicture& picture, const PicturesAnswers& answers) {
  const auto title = [&](const char* own) { return picture.title.empty() ? std::string(own) : picture.title; };
  std::vector<Bar> bars;
  switch (picture.kind) {
    case PictureKind::steps: return steps(title("One step, all to one scale"), chosen(picture, answers, true));
    case PictureKind::ring: return rings(title("A ring all-reduce, step by step"), chosen(picture, answers, false));
    case PictureKind::bars: return bars_of(picture, answers);
    case PictureKind::time:
      for (const LessonAnswer* a : chosen(picture, answers, true)) bars.push_back(time_bar(*a));
      return stacked(title("Where the step goes, on the slowest GPU"), kTimeParts, std::move(bars));
    case PictureKind::memory:
      for (const LessonAnswer* a : chosen(picture, answers, false)) bars.push_back(memory_bar(*a));
      return stacked(title("Memory that the fullest GPU needs"), kMemoryParts, std::move(bars));
    case PictureKind::nodes: return draw_nodes(title("Who holds the nodes, over time"), chosen(picture, answers, true));
    case PictureKind::hours:
      for (const LessonAnswer* a : chosen(picture, answers, true)) bars.push_back(hours_bar(*a));
      return stacked(title("Where the GPU-hours go"), kHoursParts, std::move(bars));
  }
  return Paragraph{};
}

}  // namespace rehearse
