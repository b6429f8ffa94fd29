#include "core/report/html/gantt_data.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include <nlohmann/json.hpp>

#include "core/base/index.hpp"

namespace rehearse {

namespace {

using nlohmann::ordered_json;

constexpr double kGanttDataUnits = 1e6;  // Of a period.
constexpr std::int64_t kTalkGap = 400;   // Units: runs of communication closer than a 2,500th of the picture are one.
constexpr int kSeveral = -2;

enum Pass { forward, backward, weight_gradient, optimizer, passes };

struct Block {
  std::int64_t begin, end;
  int pass, microbatch, chunk;
};

struct Row {
  std::string label;
  int rank = 0;
  double period = 0, idle = 0;
  std::array<double, passes> busy{};
  std::vector<Block> blocks;
  std::array<std::vector<Block>, 3> talks;
};

Pass pass_of(const Span& s) {
  if (s.microbatch < 0) return optimizer;
  if (!s.backward) return forward;
  return s.weight_gradients ? weight_gradient : backward;
}

int talk_of(SpanKind kind) {
  return kind == SpanKind::collective ? 0 : kind == SpanKind::send || kind == SpanKind::receive ? 1 : 2;
}

bool same(const Block& a, const Block& b) {
  return a.pass == b.pass && a.microbatch == b.microbatch && a.chunk == b.chunk;
}

/// Blocks of one kind that touch within `gap` become one.
std::vector<Block> joined(const std::vector<Block>& blocks, std::int64_t gap) {
  std::vector<Block> out;
  for (const Block& b : blocks)
    if (!out.empty() && b.begin - out.back().end <= gap && same(out.back(), b))
      out.back().end = std::max(out.back().end, b.end);
    else
      out.push_back(b);
  return out;
}

/// Of the blocks that begin in one slice of time and are shorter than it, one stays: what the slice shows most of.
std::vector<Block> sliced(const std::vector<Block>& blocks, std::int64_t slice) {
  std::vector<Block> out;
  std::array<std::int64_t, passes> shown{};
  std::int64_t open = -1;  // Slice of the last block, where more may join it.
  for (const Block& b : blocks) {
    const bool thin = b.end - b.begin < slice;
    if (!thin || b.begin / slice != open) {
      out.push_back(b);
      shown = {};
      open = thin ? b.begin / slice : -1;
    } else {
      out.back().end = std::max(out.back().end, b.end);
      out.back().microbatch = kSeveral;
    }
    nth(shown, b.pass) += b.end - b.begin;
    out.back().pass = static_cast<int>(std::max_element(shown.begin(), shown.end()) - shown.begin());
  }
  return out;
}

/// What compute spans cover of [begin, end], which may overlap on several streams.
double covered(std::vector<std::pair<double, double>> spans) {
  std::sort(spans.begin(), spans.end());
  double sum = 0, until = -1e300;
  for (const auto& [begin, end] : spans) {
    sum += std::max(0.0, end - std::max(begin, until));
    until = std::max(until, end);
  }
  return sum;
}

class RowMaker {
 public:
  RowMaker(const GanttSide& side, double unit) : side_(side), unit_(unit) {}

  Row make(const GanttRow& wanted) const {
    Row row{wanted.label, wanted.rank, side_.period.value(), 0, {}, {}, {}};
    std::vector<std::pair<double, double>> computing;
    for (const Span& s : side_.trace->spans) {
      if (s.rank != wanted.rank || s.kind == SpanKind::wait || s.kind == SpanKind::host) continue;
      const double begin = std::max(0.0, (s.begin - side_.begin).value()),
                   end = std::min((s.end - side_.begin).value(), side_.period.value());
      if (end <= begin) continue;
      const Block block{std::llround(begin / unit_),
                        std::max(std::llround(end / unit_), std::llround(begin / unit_) + 1), 0, s.microbatch, s.chunk};
      if (s.kind == SpanKind::compute) {
        const Pass pass = pass_of(s);
        row.busy[pass] += end - begin;
        computing.emplace_back(begin, end);
        row.blocks.push_back({block.begin, block.end, pass, block.microbatch, block.chunk});
      } else {
        nth(row.talks, talk_of(s.kind)).push_back({block.begin, block.end, 0, -1, 0});
      }
    }
    row.idle = std::max(0.0, side_.period.value() - covered(std::move(computing)));
    sort_and_join(row);
    return row;
  }

 private:
  /// Chunks as the rank counts them, from 0.
  static void number_chunks(Row& row) {
    std::map<int, int> local;
    for (const Block& b : row.blocks)
      if (b.pass != optimizer) local.try_emplace(b.chunk, 0);
    int next = 0;
    for (auto& [chunk, number] : local) number = next++;
    for (Block& b : row.blocks) b.chunk = b.pass == optimizer ? 0 : local.at(b.chunk);
  }

  static void sort_and_join(Row& row) {
    number_chunks(row);
    const auto by_begin = [](const Block& a, const Block& b) {
      return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
    };
    std::stable_sort(row.blocks.begin(), row.blocks.end(), by_begin);
    row.blocks = joined(row.blocks, 2);
    for (auto& talk : row.talks) {
      std::stable_sort(talk.begin(), talk.end(), by_begin);
      talk = joined(talk, kTalkGap);
    }
  }

  const GanttSide& side_;
  double unit_;
};

std::size_t blocks_in(const std::vector<Row>& rows) {
  std::size_t out = 0;
  for (const Row& r : rows) out += r.blocks.size();
  return out;
}

/// Coarser and coarser, until there are few enough. Returns whether anything was joined.
bool thin_out(std::vector<Row>& rows, std::size_t most) {
  bool thinned = false;
  for (std::int64_t slice = 50; blocks_in(rows) > most && slice < static_cast<std::int64_t>(kGanttDataUnits);
       slice *= 2) {
    for (Row& r : rows) r.blocks = joined(sliced(r.blocks, slice), slice / 10);
    thinned = true;
  }
  return thinned;
}

ordered_json row_json(const Row& row) {
  ordered_json spans = ordered_json::array(), talks = ordered_json::array();
  for (const Block& b : row.blocks)
    for (const std::int64_t v : {b.begin, b.end - b.begin, std::int64_t{b.pass},
                                 std::int64_t{b.pass == optimizer ? -1 : b.microbatch}, std::int64_t{b.chunk}})
      spans.push_back(v);
  for (std::size_t kind = 0; kind < row.talks.size(); ++kind)
    for (const Block& b : row.talks[kind])
      for (const std::int64_t v : {b.begin, b.end - b.begin, static_cast<std::int64_t>(kind)}) talks.push_back(v);
  return {{"label", row.label},
          {"rank", row.rank},
          {"period_s", row.period},
          {"seconds",
           {{"forward", row.busy[forward]},
            {"backward", row.busy[backward] + row.busy[weight_gradient]},
            {"optimizer", row.busy[optimizer]},
            {"idle", row.idle}}},
          {"spans", std::move(spans)},
          {"talks", std::move(talks)}};
}

}  // namespace

std::string gantt_json(const std::vector<GanttSide>& sides, const GanttDataOptions& options) {
  double period = 0;
  std::size_t most_rows = 0;
  for (const GanttSide& s : sides) {
    period = std::max(period, s.period.value());
    most_rows = std::max(most_rows, s.rows.size());
  }
  const double unit = period / kGanttDataUnits;
  std::vector<Row> rows;
  for (std::size_t r = 0; r < most_rows; ++r)
    for (const GanttSide& s : sides)
      if (r < s.rows.size()) rows.push_back(RowMaker(s, unit).make(s.rows[r]));
  const bool thinned = thin_out(rows, options.most_blocks);
  int chunks = 1;
  for (const Row& r : rows)
    for (const Block& b : r.blocks) chunks = std::max(chunks, b.chunk + 1);
  ordered_json out{{"unit_s", unit},     {"end", static_cast<std::int64_t>(kGanttDataUnits)},
                   {"period_s", period}, {"chunks", chunks},
                   {"thinned", thinned}, {"rows", ordered_json::array()}};
  for (const Row& r : rows) out["rows"].push_back(row_json(r));
  return out.dump();
}

}  // namespace rehearse
