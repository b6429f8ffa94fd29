#include "core/report/results/validation_report.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "core/play/words.hpp"
#include "core/report/results/error_figures.hpp"

namespace rehearse {

namespace {

using Json = nlohmann::ordered_json;

std::vector<ValidationRow> by_time(const Validation& v) {
  std::vector<ValidationRow> rows = v.rows;
  std::stable_sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) {
    return std::pair(a.kernel, a.measured) > std::pair(b.kernel, b.measured);
  });
  return rows;
}

Table table_of(const Validation& v) {
  Table out{
      "Where the step goes, mean over ranks",
      {{"what"}, {"calls", true}, {"predicted ms", true}, {"measured ms", true}, {"share", true}, {"error", true}},
      {}};
  const auto add = [&](const std::string& name, double calls, Seconds predicted, Seconds measured) {
    out.rows.push_back({name, calls > 0 ? fmt::format("{:.0f}", calls) : "", milliseconds(predicted),
                        milliseconds(measured), fmt::format("{:.1f} %", 100 * (measured / v.measured)),
                        measured > Seconds{0} ? signed_percent(relative_error(predicted, measured)) + " %" : ""});
  };
  for (const ValidationRow& r : by_time(v)) add(r.name, r.calls, r.predicted, r.measured);
  add("step", 0, v.predicted, v.measured);
  return out;
}

Json row_json(const std::string& id, Seconds predicted, Seconds measured) {
  return {{"id", id},
          {"quantity", id == "step" ? "step_time" : "time_in_step"},
          {"unit", "s"},
          {"predicted", predicted.value()},
          {"measured", measured.value()},
          {"error", relative_error(predicted, measured)},
          {"skipped", nullptr}};
}

std::string json_of(const Validation& v) {
  Json out{{"schema", "rehearse/validation/v1"},
           {"scenario", v.scenario},
           {"machine", v.machine},
           {"backend", v.backend},
           {"ranks", v.ranks},
           {"steps", v.steps}};
  std::vector<double> errors;
  for (const ValidationRow& r : by_time(v)) {
    out["rows"].push_back(row_json(r.name, r.predicted, r.measured));
    if (r.measured > Seconds{0}) errors.push_back(relative_error(r.predicted, r.measured));
  }
  out["rows"].push_back(row_json("step", v.predicted, v.measured));
  out["step"] = {{"predicted_s", v.predicted.value()},
                 {"measured_s", v.measured.value()},
                 {"measured_p5_s", v.p5.value()},
                 {"measured_p95_s", v.p95.value()},
                 {"error", relative_error(v.predicted, v.measured)}};
  out["not_calibrated"] = v.not_calibrated;
  const auto known = [](const std::optional<double>& x) { return x ? Json(*x) : Json(nullptr); };
  out["load"] = {{"busy", !doubts_of(v).empty()},
                 {"taken_by_others", known(v.taken_by_others)},
                 {"profile_taken_by_others", known(v.profile_taken_by_others)},
                 {"pace", known(v.pace)},
                 {"doubts", doubts_of(v)}};
  Json summary{{"predicted_rows", errors.size()}, {"skipped_rows", 0}};
  summary.update(error_figures_json(statistics(errors)));
  out["summary"] = std::move(summary);
  return out.dump(2) + "\n";
}

}  // namespace

double relative_error(Seconds predicted, Seconds measured) {
  return measured > Seconds{0} ? predicted / measured - 1 : 0;
}

std::optional<std::string> busy_words(std::optional<double> taken_by_others, int ranks) {
  if (taken_by_others.value_or(0) <= kBusyShare) return std::nullopt;
  return fmt::format("other programs took {:.0f} % of the processors' time while {} rank{} measured",
                     100 * *taken_by_others, ranks, ranks == 1 ? " was" : "s were");
}

std::vector<std::string> doubts_of(const Validation& v) {
  std::vector<std::string> out;
  if (const auto busy = busy_words(v.taken_by_others, v.ranks))
    out.push_back(fmt::format("The machine is busy: {}. On a quiet one steps are shorter.", *busy));
  if (const auto busy = busy_words(v.profile_taken_by_others, v.ranks))
    out.push_back(fmt::format("The profile is of a busy machine: {} for it. Calibrate again.", *busy));
  if (v.pace && std::abs(*v.pace - 1) > kPaceApart)
    out.push_back(
        fmt::format("The machine takes {:.2f} times as long for the same work as when it was calibrated. Validate "
                    "again, or calibrate again where it stays so.",
                    *v.pace));
  return out;
}

Document validation_document(const Validation& v) {
  Document out;
  out.blocks.emplace_back(
      Heading{fmt::format("{} on {}, {} rank{}", v.scenario, v.machine, v.ranks, v.ranks == 1 ? "" : "s")});
  out.blocks.emplace_back(
      Facts{"",
            {{"step measured", fmt::format("{:.3f} ms median, {:.3f} to {:.3f} ms (5 to 95 % of {})",
                                           v.measured.value() * 1e3, v.p5.value() * 1e3, v.p95.value() * 1e3, v.steps)},
             {"step predicted", fmt::format("{:.3f} ms by {}, {}", v.predicted.value() * 1e3, v.backend,
                                            signed_percent(relative_error(v.predicted, v.measured)) + " %")}}});
  out.blocks.emplace_back(table_of(v));
  for (const std::string& doubt : doubts_of(v)) out.blocks.emplace_back(Paragraph{doubt});
  if (!v.not_calibrated.empty())
    out.blocks.emplace_back(Paragraph{
        fmt::format("Not in the profile, priced by the kernel model: {}.", fmt::join(v.not_calibrated, ", "))});
  out.records = {"", {{"id"}, {"predicted_s", true}, {"measured_s", true}, {"error", true}}, {}};
  const auto record = [&](const std::string& id, Seconds p, Seconds m) {
    out.records.rows.push_back(
        {id, fmt::format("{}", p.value()), fmt::format("{}", m.value()), fmt::format("{}", relative_error(p, m))});
  };
  for (const ValidationRow& r : by_time(v)) record(r.name, r.predicted, r.measured);
  record("step", v.predicted, v.measured);
  out.json = json_of(v);
  return out;
}

}  // namespace rehearse
