#include "core/report/pictures/gantt.hpp"

#include <algorithm>
#include <cmath>
#include <compare>
#include <map>
#include <tuple>

#include <fmt/format.h>

#include "core/report/formats/format.hpp"

namespace rehearse {

namespace {

constexpr int kLeastCells = 20;
const std::string kCut = " ~ ";
constexpr char kIdle = '.', kReduce = '=', kOptimizer = 'o', kInput = 'i';

/// What a span is drawn as: passes are told apart though they share a character.
struct Mark {
  char symbol = kIdle;
  int microbatch = -1;
  auto operator<=>(const Mark&) const = default;
  [[nodiscard]] bool pass() const { return microbatch >= 0; }
};

Mark mark_of(const Span& span) {
  if (span.kind == SpanKind::input) return {kInput};
  if (span.kind != SpanKind::compute) return {kReduce};
  if (span.microbatch < 0) return {kOptimizer};
  return {static_cast<char>(span.backward ? 'a' + span.microbatch % 26 : '0' + span.microbatch % 10), span.microbatch};
}

const char* colour_of(char symbol) {
  if (symbol == kIdle || symbol == ' ' || symbol == '~') return "\033[90m";
  if (symbol == kReduce || symbol == kInput) return "\033[33m";
  if (symbol == kOptimizer) return "\033[35m";
  return symbol <= '9' ? "\033[34m" : "\033[32m";
}

/// What a rank's compute stream does, and what its gradient reduction does meanwhile: both matter to a picture, nothing
/// else does.
bool drawn(const Span& span, const GanttOptions& options) {
  if (span.kind == SpanKind::compute) return true;
  if (options.communication) return span.kind != SpanKind::wait && span.kind != SpanKind::host;
  return span.kind == SpanKind::collective && span.category == TimeCategory::exposed_dp;
}

class Cells {
 public:
  Cells(Seconds begin, Seconds end, int count)
      : begin_(begin), slice_((end - begin) / count), shares_(static_cast<std::size_t>(count)) {}

  void add(const Span& span) {
    const double first = (span.begin - begin_) / slice_, last = (span.end - begin_) / slice_;
    const auto n = static_cast<double>(shares_.size());
    for (auto c = static_cast<std::size_t>(std::clamp(first, 0.0, n));
         c < shares_.size() && static_cast<double>(c) < last; ++c) {
      const double at = static_cast<double>(c);
      shares_[c][mark_of(span)] += std::min(at + 1, last) - std::max(at, first);
    }
  }

  /// What filled most of each slice. A pass that nowhere fills most of one gets the slice that it has the most of,
  /// where what stood there keeps another. `hidden` counts the passes for which there is none.
  [[nodiscard]] std::string text(std::size_t& hidden) const {
    std::vector<Mark> marks;
    std::map<Mark, int> cells;
    for (const auto& shares : shares_) ++cells[marks.emplace_back(most_of(shares))];
    std::map<Mark, std::pair<double, std::size_t>> lost;  // The largest share of each, and where.
    for (std::size_t c = 0; c < shares_.size(); ++c)
      for (const auto& [mark, share] : shares_[c])
        if (mark.pass() && !cells.contains(mark)) lost[mark] = std::max(lost[mark], {share, c});
    for (const auto& [mark, best] : lost) {
      Mark& there = marks[best.second];
      if (there.symbol != kIdle && cells[there] < 2) {
        ++hidden;
        continue;
      }
      --cells[there];
      there = mark;
      cells[mark] = 1;
    }
    std::string out;
    for (const Mark& mark : marks) out += mark.symbol;
    return out;
  }

 private:
  static Mark most_of(const std::map<Mark, double>& shares) {
    Mark best;
    double most = 0, computing = 0, reducing = 0, reading = 0;
    for (const auto& [mark, share] : shares) {
      const char s = mark.symbol;
      (s == kReduce ? reducing : s == kInput ? reading : computing) += share;
      if (s != kReduce && s != kInput && share > most) {
        best = mark;
        most = share;
      }
    }
    if (computing >= 0.5) return best;
    if (reducing >= 0.5) return {kReduce};
    return {reading >= 0.5 ? kInput : kIdle};
  }

  Seconds begin_, slice_;
  std::vector<std::map<Mark, double>> shares_;
};

/// Time of one pass: the median over chunks and microbatches of what their forward spans add up to.
Seconds forward_pass(const Trace& trace) {
  std::map<std::tuple<int, int, int>, Seconds> passes;
  for (const Span& s : trace.spans)
    if (s.kind == SpanKind::compute && s.microbatch >= 0 && !s.backward)
      passes[{s.rank, s.chunk, s.microbatch}] += s.end - s.begin;
  if (passes.empty()) return Seconds{0};
  std::vector<Seconds> times;
  for (const auto& [pass, time] : passes) times.push_back(time);
  std::nth_element(times.begin(), times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2), times.end());
  return times[times.size() / 2];
}

struct Window {
  Seconds begin, end;
  int cells;
};

/// The whole, or its beginning and its end with one character per forward pass.
std::vector<Window> windows_of(const Trace& trace, Seconds begin, Seconds end, int room, bool cut) {
  const Seconds pass = cut ? forward_pass(trace) : Seconds{0};
  if (pass * room >= end - begin || pass <= Seconds{0}) return {{begin, end, room}};
  const int half = (room - static_cast<int>(kCut.size())) / 2;
  return {{begin, begin + pass * half, half}, {end - pass * half, end, half}};
}

/// Only the first `share` of the cells, the rest blank.
std::string blank_after_gantt(std::string cells, double share) {
  const auto shown =
      static_cast<std::size_t>(std::ceil(std::clamp(share, 0.0, 1.0) * static_cast<double>(cells.size())));
  std::fill(cells.begin() + static_cast<std::ptrdiff_t>(shown), cells.end(), ' ');
  return cells;
}

std::string coloured(const std::string& cells) {
  std::string out;
  const char* last = nullptr;
  for (const char c : cells) {
    if (const char* colour = colour_of(c); colour != last) {
      out += colour;
      last = colour;
    }
    out += c;
  }
  return out + "\033[0m";
}

struct Frame {
  std::size_t label;  ///< Characters before a row.
  std::vector<Window> windows;
};

Frame frame_of(const Trace& trace, const std::vector<GanttRow>& rows, Seconds begin, Seconds end,
               const TextStyle& style, bool cut) {
  std::size_t label = 0;
  for (const GanttRow& row : rows) label = std::max(label, row.label.size());
  const int room = std::max(kLeastCells, style.width - static_cast<int>(label) - 3);
  return {label, windows_of(trace, begin, end, room, cut)};
}

}  // namespace

bool is_cut(const Trace& trace, const std::vector<GanttRow>& rows, Seconds begin, Seconds end, const TextStyle& style,
            const GanttOptions& options) {
  return frame_of(trace, rows, begin, end, style, options.cut).windows.size() > 1;
}

std::vector<GanttRow> sampled(const std::vector<GanttRow>& rows, std::size_t most) {
  if (rows.size() <= most) return rows;
  if (most == 1) return {rows.front()};
  std::vector<GanttRow> out;
  for (std::size_t i = 0; i < most; ++i) out.push_back(rows[i * (rows.size() - 1) / (most - 1)]);
  return out;
}

std::string draw_gantt(const Trace& trace, const std::vector<GanttRow>& rows, Seconds begin, Seconds end,
                       const TextStyle& style, const GanttOptions& options) {
  const auto [label, windows] = frame_of(trace, rows, begin, end, style, options.cut);
  std::string out;
  std::size_t hidden = 0;
  for (const GanttRow& row : rows) {
    std::string line;
    for (const Window& w : windows) {
      Cells cells(w.begin, w.end, w.cells);
      for (const Span& span : trace.spans)
        if (span.rank == row.rank && drawn(span, options)) cells.add(span);
      line += (line.empty() ? "" : kCut) +
              blank_after_gantt(cells.text(hidden), (options.until - w.begin) / (w.end - w.begin));
    }
    out += fmt::format("{:<{}} |{}|\n", row.label, label, style.colour ? coloured(line) : line);
  }
  if (!options.axis) return out;
  std::string axis;
  for (const Window& w : windows) {
    const std::string left = to_string(w.begin - begin), right = to_string(w.end - begin);
    axis += (axis.empty() ? "" : kCut) + fmt::format("{}{:>{}}", left, right, w.cells - static_cast<int>(left.size()));
  }
  out += fmt::format("{:<{}}  {}\n", "", label, axis);
  const std::string legend = fmt::format(
      "1 character = {}; 0-9 forward (microbatch mod 10), a-z backward (mod 26), = {} alone, o optimizer, . idle{}",
      to_string((windows[0].end - windows[0].begin) / windows[0].cells, 3),
      options.communication ? "communication" : "gradient reduction", windows.size() > 1 ? ", ~ left out" : "");
  const std::string shorter = hidden > 0 ? fmt::format("; {} passes are too short to be seen here", hidden) : "";
  return out + wrap(legend + shorter, style.width) + "\n";
}

}  // namespace rehearse
