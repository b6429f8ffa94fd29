#include "core/report/results/scoreboard_report.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "core/base/index.hpp"
#include "core/play/words.hpp"
#include "core/report/results/error_figures.hpp"
#include "core/report/results/judgement_tables.hpp"
#include "core/report/results/range_words.hpp"

namespace rehearse {

namespace {

using nlohmann::ordered_json;

std::string seconds(Seconds t) { return fmt::format("{:.4g}", t.value()); }

/// Peak memory as it was measured: what an allocator handed out, or what it reserved.
struct Peak {
  const char* quantity;
  Bytes predicted, measured;
};

std::optional<Peak> peak_of(const ScoredRow& r) {
  const Measured& m = r.row.job->measured;
  if (!r.memory_error) return std::nullopt;
  if (m.peak_allocated) return Peak{"peak_allocated", r.prediction.peak_allocated, *m.peak_allocated};
  return Peak{"peak_reserved", r.prediction.peak_reserved, *m.peak_reserved};
}

/// "61.3-78.0"; empty where it was not measured, or nobody knows.
std::string likely_peak(const ScoredRow& r) {
  const std::optional<Peak> peak = peak_of(r);
  if (!peak || r.memory_range.rows == 0) return {};
  const double gib = peak->predicted.value() / kGib;
  return fmt::format("{:.1f}-{:.1f}", gib * r.memory_range.p10, gib * r.memory_range.p90);
}

/// For spreadsheets: `factor` times the predicted peak in GiB.
std::string memory_end(const ScoredRow& r, double factor) {
  const std::optional<Peak> peak = peak_of(r);
  return peak && r.memory_range.rows > 0 ? fmt::format("{}", peak->predicted.value() / kGib * factor) : std::string();
}

std::vector<std::string> statistics_cells(const ErrorStatistics& s) {
  if (s.rows == 0) return {"0", "-", "-", "-", "-", "-"};
  return {with_commas(s.rows), percent(s.median), percent(s.mean),
          percent(s.p90),      percent(s.worst),  signed_percent(s.bias)};
}

Table rows_table(const Scoreboard& board) {
  Table table{"",
              {{"row"},
               {"predicted s", true},
               {"measured s", true},
               {"error %", true},
               {"likely s", true},
               {"memory %", true},
               {"likely GiB", true},
               {"bound by"},
               {""}},
              {}};
  const bool peaks = std::any_of(board.rows.begin(), board.rows.end(),
                                 [](const ScoredRow& r) { return r.predicted && !likely_peak(r).empty(); });
  constexpr std::ptrdiff_t kLikelyPeak = 6;
  if (!peaks) table.columns.erase(table.columns.begin() + kLikelyPeak);
  for (const ScoredRow& r : board.rows) {
    if (!r.predicted) continue;
    table.rows.push_back(
        {r.row.id, seconds(r.prediction.step_time), seconds(r.row.job->measured.time), signed_percent(r.error),
         fmt::format("{}-{}", seconds(r.prediction.step_time * r.range.p10),
                     seconds(r.prediction.step_time * r.range.p90)),
         r.memory_error ? signed_percent(*r.memory_error) : "", likely_peak(r),
         std::string(words_of(r.prediction.bound_by)),
         r.row.guessed.empty() ? "" : fmt::format("not counted: {} guessed", fmt::join(r.row.guessed, ", "))});
    if (!peaks) table.rows.back().erase(table.rows.back().begin() + kLikelyPeak);
  }
  return table;
}

std::vector<Column> statistics_columns(const std::string& what) {
  return {{what},           {"rows", true},    {"median %", true}, {"mean %", true},
          {"90th %", true}, {"worst %", true}, {"bias %", true}};
}

void add_row(Table& table, const std::string& name, const ErrorStatistics& s) {
  std::vector<std::string> cells{name};
  for (std::string& cell : statistics_cells(s)) cells.push_back(std::move(cell));
  table.rows.push_back(std::move(cells));
}

void add_groups(const Scoreboard& board, bool summary, std::vector<DocumentBlock>& out) {
  for (const std::string by : {"source", "generation", "model", "newest", "GPU", "strategy", "release"}) {
    if (summary && by == "GPU") break;
    Table table{by == "newest" ? "Step time on the newest release of each configuration" : "Step time by " + by,
                statistics_columns(by == "newest" ? "source, model" : by),
                {}};
    table.columns.push_back({"in range %", true});
    const auto add = [&table](const std::string& name, const ErrorStatistics& time, double inside) {
      add_row(table, name, time);
      table.rows.back().push_back(fmt::format("{:.0f}", 100 * inside));
    };
    for (const ScoreGroup& g : board.groups)
      if (g.by == by) add(g.name, g.time, g.inside);
    if (table.rows.empty()) continue;
    if (by == "source") add("all", board.time, board.inside);
    out.push_back(std::move(table));
  }
  if (board.memory.rows == 0) return;
  Table table{"Peak memory by source", statistics_columns("source"), {}};
  table.columns.push_back({"in range %", true});
  for (const ScoreGroup& g : board.groups) {
    if (g.by != "source" || g.memory.rows == 0) continue;
    add_row(table, g.name, g.memory);
    table.rows.back().push_back(g.memory_inside ? fmt::format("{:.0f}", 100 * *g.memory_inside) : "-");
  }
  out.push_back(std::move(table));
}

/// Sources whose own steps gave constants, without them.
Table left_out_table(const std::vector<LeftOut>& sources) {
  Table table{"Refit without each source",
              {{"source"},
               {"rows", true},
               {"median %", true},
               {"90th %", true},
               {"rows not fitted", true},
               {"median %", true},
               {"90th %", true},
               {"constants withdrawn", true},
               {"median % without", true},
               {"90th % without", true}},
              {}};
  for (const LeftOut& s : sources)
    table.rows.push_back({s.source, with_commas(s.fitted.rows), percent(s.fitted.median), percent(s.fitted.p90),
                          with_commas(s.unseen.rows), percent(s.unseen.median), percent(s.unseen.p90),
                          with_commas(s.constants), percent(s.without.median), percent(s.without.p90)});
  return table;
}

Table fitted_table(const std::vector<FittedClass>& classes) {
  Table table{
      "Fitted constants against the rows of their class",
      {{"GPUs"}, {"class"}, {"constants", true}, {"rows", true}, {"rows per constant", true}, {"rows fitted", true}},
      {}};
  for (const FittedClass& c : classes)
    table.rows.push_back({c.generation, c.group, with_commas(c.constants), with_commas(c.rows),
                          fmt::format("{:.1f}", static_cast<double>(c.rows) / c.constants), with_commas(c.fitted)});
  return table;
}

Table kernel_table(const KernelBoard& board) {
  Table table{"Kernels and collectives",
              {{"what"},
               {"rows fitted", true},
               {"median %", true},
               {"90th %", true},
               {"rows held out", true},
               {"median %", true},
               {"90th %", true},
               {"bias %", true}},
              {}};
  const auto cells = [](const ErrorStatistics& s) -> std::vector<std::string> {
    if (s.rows == 0) return {"0", "-", "-"};
    return {with_commas(s.rows), percent(s.median), percent(s.p90)};
  };
  for (const KernelGroup& g : board.groups) {
    std::vector<std::string> row{g.name};
    for (const ErrorStatistics* s : {&g.fitted, &g.held_out})
      for (std::string& c : cells(*s)) row.push_back(std::move(c));
    row.push_back(g.held_out.rows > 0 ? signed_percent(g.held_out.bias) : "-");
    table.rows.push_back(std::move(row));
  }
  return table;
}

/// Rows that a back end played, those that differ by more than 3 % with the category that does most.
void add_agreement(const Agreement& a, std::vector<DocumentBlock>& out) {
  if (a.rows.empty()) return;
  Table all{"Closed form against " + a.backend, statistics_columns("rows played"), {}};
  add_row(all, "all", a.difference);
  out.push_back(std::move(all));
  Table apart{
      "More than 3 % apart",
      {{"row"}, {"closed form s", true}, {"played s", true}, {"difference %", true}, {"most of it"}, {"s", true}},
      {}};
  for (const AgreedRow& r : a.rows)
    if (std::abs(r.difference()) > 0.03)
      apart.rows.push_back({r.id, seconds(r.closed_form), seconds(r.played), signed_percent(r.difference()),
                            std::string(words_of(r.most)), seconds(r.most_differs)});
  if (!apart.rows.empty()) out.push_back(std::move(apart));
}

Table skipped_table(const Scoreboard& board) {
  Table table{"Rows skipped", {{"reason"}, {"rows", true}}, {}};
  for (const auto& [reason, rows] : board.skipped) table.rows.push_back({reason, with_commas(rows)});
  return table;
}

ordered_json statistics_json(const ErrorStatistics& s) {
  ordered_json out{{"rows", s.rows}};
  out.update(error_figures_json(s));
  return out;
}

ordered_json row_json(const ScoredRow& r) {
  ordered_json out{{"id", r.row.id}, {"source", r.row.source}};
  if (!r.predicted) {
    out["skipped"] = r.row.skipped;
    if (!r.row.detail.empty()) out["detail"] = r.row.detail;
    return out;
  }
  const RowJob& job = *r.row.job;
  out.update(ordered_json{{"quantity", "step_time"},
                          {"unit", "s"},
                          {"predicted", r.prediction.step_time.value()},
                          {"measured", job.measured.time.value()},
                          {"error", r.error},
                          {"skipped", nullptr},
                          {"p10", r.prediction.step_time.value() * r.range.p10},
                          {"p90", r.prediction.step_time.value() * r.range.p90},
                          {"middle", r.prediction.step_time.value() * r.range.middle},
                          {"inside", r.inside()},
                          {"range_of", r.range.rows_of},
                          {"measured_as", job.measured.name},
                          {"measured_value", job.measured.value},
                          {"counts", r.counts()},
                          {"bound_by", name_of(r.prediction.bound_by)},
                          {"gpu", job.gpu},
                          {"strategy", job.strategy},
                          {"model_kind", job.model_kind},
                          {"framework", job.framework},
                          {"release", job.release}});
  if (const std::optional<Peak> peak = peak_of(r)) {
    const double gib = peak->predicted.value() / kGib;
    ordered_json& memory = out["memory"];
    memory = {{"quantity", peak->quantity},
              {"unit", "GiB"},
              {"predicted", gib},
              {"measured", peak->measured.value() / kGib},
              {"error", *r.memory_error}};
    if (r.memory_range.rows > 0)
      memory.update({{"p10", gib * r.memory_range.p10},
                     {"p90", gib * r.memory_range.p90},
                     {"inside", r.memory_inside()},
                     {"range_of", r.memory_range.rows_of}});
  }
  out["breakdown"] = breakdown_json(r.prediction.breakdown);
  if (!r.row.guessed.empty()) out["guessed"] = r.row.guessed;
  return out;
}

/// In how many predicted rows each field was guessed.
std::map<std::string, int> guessed_fields(const Scoreboard& board) {
  std::map<std::string, int> out;
  for (const ScoredRow& r : board.rows)
    if (r.predicted)
      for (const std::string& field : std::set<std::string>(r.row.guessed.begin(), r.row.guessed.end())) ++out[field];
  return out;
}

ordered_json kernel_json(const KernelRow& r) {
  ordered_json out{{"id", r.id}, {"group", r.group}};
  if (!r.skipped.empty()) {
    out["skipped"] = r.skipped;
    return out;
  }
  out.update(ordered_json{{"quantity", r.collective ? "collective_time" : "kernel_time"},
                          {"unit", "s"},
                          {"predicted", r.predicted.value()},
                          {"measured", r.measured.value()},
                          {"error", r.error()},
                          {"skipped", nullptr},
                          {"fitted", r.fitted}});
  return out;
}

ordered_json left_out_json(const LeftOut& s) {
  return {{"source", s.source},
          {"constants", s.constants},
          {"rows_fitted", s.rows_fitted},
          {"fitted", statistics_json(s.fitted)},
          {"unseen", statistics_json(s.unseen)},
          {"without", statistics_json(s.without)}};
}

void add_parts(ordered_json& out, const ScoreboardParts& parts) {
  for (const KernelRow& r : parts.kernels.rows) out["kernels"].push_back(kernel_json(r));
  for (const KernelGroup& g : parts.kernels.groups)
    out["kernel_groups"].push_back(
        {{"name", g.name}, {"fitted", statistics_json(g.fitted)}, {"held_out", statistics_json(g.held_out)}});
  for (const LeftOut& s : parts.left_out) out["left_out"].push_back(left_out_json(s));
  if (!parts.judgement.sources.empty()) out["ranges_left_out"] = judgement_json(parts.judgement);
  for (const AgreedRow& r : parts.agreement.rows) {
    out["agreement"].push_back({{"id", r.id},
                                {"backend", parts.agreement.backend},
                                {"closed_form", r.closed_form.value()},
                                {"played", r.played.value()},
                                {"difference", r.difference()},
                                {"most", name_of(r.most)},
                                {"most_differs", r.most_differs.value()}});
  }
  for (const FittedClass& c : parts.fitted)
    out["fitted"].push_back({{"gpus", c.generation},
                             {"class", c.group},
                             {"constants", c.constants},
                             {"rows", c.rows},
                             {"rows_fitted", c.fitted}});
}

int skipped_rows(const Scoreboard& board) {
  int out = 0;
  for (const auto& [reason, rows] : board.skipped) out += rows;
  return out;
}

std::string json_text(const Scoreboard& board, const ScoreboardParts& parts) {
  ordered_json out{{"schema", kScoreboardSchema}, {"rows", ordered_json::array()}};
  for (const ScoredRow& r : board.rows) out["rows"].push_back(row_json(r));
  ordered_json summary{
      {"predicted_rows", board.predicted()}, {"skipped_rows", skipped_rows(board)}, {"listed_rows", board.listed}};
  summary.update(statistics_json(board.time));
  summary["inside"] = board.inside;
  summary["inside_of_sources"] = board.inside_of_sources;
  summary["memory"] = statistics_json(board.memory);
  summary["guessed"] = guessed_fields(board);
  out["summary"] = std::move(summary);
  out["groups"] = ordered_json::array();
  for (const ScoreGroup& g : board.groups) {
    ordered_json group{{"by", g.by}, {"name", g.name}};
    group.update(statistics_json(g.time));
    group["inside"] = g.inside;
    if (g.memory.rows > 0) {
      group["memory"] = statistics_json(g.memory);
      if (g.memory_inside) group["memory"]["inside"] = *g.memory_inside;
    }
    out["groups"].push_back(std::move(group));
  }
  out["skipped"] = board.skipped;
  add_parts(out, parts);
  return out.dump(2) + "\n";
}

Table records(const Scoreboard& board) {
  Table table{"",
              {{"id"},
               {"source"},
               {"quantity"},
               {"unit"},
               {"predicted"},
               {"measured"},
               {"error"},
               {"counts"},
               {"bound_by"},
               {"gpu"},
               {"strategy"},
               {"model_kind"},
               {"p10"},
               {"p90"},
               {"memory_error"},
               {"memory_GiB_p10"},
               {"memory_GiB_p90"},
               {"skipped"}},
              {}};
  for (const ScoredRow& r : board.rows) {
    std::vector<std::string> cells{r.row.id, r.row.source};
    if (r.predicted) {
      const RowJob& job = *r.row.job;
      for (std::string cell :
           {std::string("step_time"), std::string("s"), fmt::format("{}", r.prediction.step_time.value()),
            fmt::format("{}", job.measured.time.value()), fmt::format("{}", r.error),
            std::string(r.counts() ? "true" : "false"), std::string(name_of(r.prediction.bound_by)), job.gpu,
            job.strategy, job.model_kind, fmt::format("{}", r.prediction.step_time.value() * r.range.p10),
            fmt::format("{}", r.prediction.step_time.value() * r.range.p90),
            r.memory_error ? fmt::format("{}", *r.memory_error) : std::string(), memory_end(r, r.memory_range.p10),
            memory_end(r, r.memory_range.p90), std::string()})
        cells.push_back(std::move(cell));
    } else {
      cells.resize(table.columns.size() - 1);
      cells.push_back(r.row.skipped);
    }
    table.rows.push_back(std::move(cells));
  }
  return table;
}

}  // namespace

Document scoreboard_document(const Scoreboard& board, const ScoreboardParts& parts) {
  Document out;
  out.blocks.push_back(
      Heading{fmt::format("{} rows: {} predicted, {} of them counted in error figures, {} skipped",
                          with_commas(static_cast<double>(board.rows.size())), with_commas(board.predicted()),
                          with_commas(board.time.rows), with_commas(skipped_rows(board)))});
  if (parts.rows && board.predicted() > 0) out.blocks.push_back(rows_table(board));
  add_groups(board, !parts.rows, out.blocks);
  if (!parts.left_out.empty()) out.blocks.push_back(left_out_table(parts.left_out));
  if (!parts.fitted.empty()) out.blocks.push_back(fitted_table(parts.fitted));
  for (DocumentBlock& block : judgement_blocks(parts.judgement)) out.blocks.push_back(std::move(block));
  if (!parts.kernels.groups.empty()) out.blocks.push_back(kernel_table(parts.kernels));
  add_agreement(parts.agreement, out.blocks);
  if (!board.skipped.empty()) out.blocks.push_back(skipped_table(board));
  if (const auto guessed = guessed_fields(board); !guessed.empty()) {
    Table table{"Guessed, so that rows do not count", {{"field"}, {"rows", true}}, {}};
    for (const auto& [field, rows] : guessed) table.rows.push_back({field, std::to_string(rows)});
    out.blocks.emplace_back(std::move(table));
  }
  out.blocks.push_back(Paragraph{
      "Errors are predicted / measured - 1 of seconds per step; bias is their median, negative where "
      "predictions are too fast. In range: measured steps that lie in the likely range of their prediction; of "
      "a source that nobody has seen 80 % would. Rows in which a field that matters is guessed "
      "are predicted and listed, and count in no error figure."});
  out.records = records(board);
  out.json = json_text(board, parts);
  return out;
}

Document row_document(const ScoredRow& r) {
  Document out;
  out.blocks.push_back(Heading{r.row.id + ": " + r.row.source});
  Table trail{"Taken for its scenario", {{"field"}, {"value"}, {"from"}}, {}};
  ordered_json fields = ordered_json::array();
  for (const Assumption& a : r.row.trail) {
    trail.rows.push_back({a.field, a.value.substr(0, 60), a.from});
    fields.push_back({{"field", a.field}, {"value", a.value}, {"from", a.from}, {"evidence", name_of(a.evidence)}});
  }
  if (!trail.rows.empty()) out.blocks.push_back(trail);
  out.records = std::move(trail);
  if (r.predicted) {
    Facts facts{"",
                {{"predicted", seconds(r.prediction.step_time) + " s"},
                 {"measured", fmt::format("{} s, from {} = {}", seconds(r.row.job->measured.time),
                                          r.row.job->measured.name, r.row.job->measured.value)},
                 {"error", signed_percent(r.error) + " %"},
                 {"likely range", range_text(r.prediction.step_time, r.range)}}};
    if (const std::optional<Peak> peak = peak_of(r)) {
      facts.rows.emplace_back("peak memory",
                              fmt::format("{} predicted, {} measured, {} %", to_string_iec(peak->predicted, 3),
                                          to_string_iec(peak->measured, 3), signed_percent(*r.memory_error)));
      if (r.memory_range.rows > 0)
        facts.rows.emplace_back("likely peak", fmt::format("{} GiB, for 8 of 10 such peaks: by {}", likely_peak(r),
                                                           rests_on(r.memory_range)));
    }
    if (!r.row.guessed.empty())
      facts.rows.emplace_back("not counted", fmt::format("{} guessed", fmt::join(r.row.guessed, ", ")));
    out.blocks.push_back(std::move(facts));
    Table parts{"Where the step goes, on the slowest stage", {{""}, {"seconds", true}, {"%", true}}, {}};
    for (int c = 0; c < kTimeCategories; ++c) {
      const Seconds s = nth(r.prediction.breakdown.seconds, c);
      if (s > Seconds{0})
        parts.rows.push_back(
            {std::string(words_of(static_cast<TimeCategory>(c))), seconds(s), percent(s / r.prediction.step_time)});
    }
    out.blocks.push_back(std::move(parts));
  } else {
    out.blocks.push_back(
        Paragraph{fmt::format("Skipped: {}{}", r.row.skipped, r.row.detail.empty() ? "" : ": " + r.row.detail)});
  }
  ordered_json json{{"schema", kScoreboardSchema}, {"row", row_json(r)}, {"fields", std::move(fields)}};
  out.json = json.dump(2) + "\n";
  return out;
}

}  // namespace rehearse
