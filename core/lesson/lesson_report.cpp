#include "core/lesson/lesson_report.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/lesson/fleet_pictures.hpp"
#include "core/lesson/pictures.hpp"
#include "core/play/words.hpp"
#include "core/report/results/error_figures.hpp"

namespace rehearse {

namespace {

using nlohmann::ordered_json;
using LessonReportAnswers = std::vector<LessonAnswer>;

FigureLookup lookup(const LessonReportAnswers& answers) {
  return [&answers](const std::string& name) { return figure(answers, name); };
}

Facts plan_facts(const LessonReportAnswers& answers) {
  Facts facts{"Plans", {}};
  for (const LessonAnswer& a : answers) {
    if (a.fleet) {
      facts.rows.emplace_back(a.key, fmt::format("{}: {}", a.title, fleet_summary(*a.fleet)));
      continue;
    }
    const PlanSummary& p = a.report.head.plan;
    facts.rows.emplace_back(a.key, fmt::format("{}: {} on {} {}, {}: {}", a.title, p.model, with_commas(p.gpus),
                                               p.gpus == 1 ? "GPU" : "GPUs", p.cluster, p.strategy));
  }
  return facts;
}

std::string value_text(double v) { return std::abs(v) >= 1e4 ? with_commas(v) : fmt::format("{:.4g}", v); }

Table plan_table(const LessonReportAnswers& answers) {
  if (answers.front().fleet) return fleet_table(answers);
  const std::string samples = answers.front().report.head.plan.samples + "/s";
  Table table{
      "", {{""}, {"step time", true}, {samples, true}, {"MFU %", true}, {"memory needed", true}, {"there", true}}, {}};
  for (const LessonAnswer& a : answers) {
    const StageMemory& worst = a.report.memory.tightest();
    const bool fits = a.report.memory.fits();
    const StepMetrics& m = a.report.metrics;
    table.rows.push_back({a.key, fits ? to_string(m.step_time) : "does not fit",
                          fits ? value_text(m.samples_per_s) : "", fits ? fmt::format("{:.1f}", 100 * m.mfu) : "",
                          gib(worst.needed) + " GiB", gib(worst.capacity) + " GiB"});
  }
  return table;
}

Said not_said(const std::string& reason) { return {"A remark does not apply here: " + reason + ".", false}; }

/// Nothing where there is nothing to say.
std::optional<Said> said(const Saying& s, const std::vector<Showing>& claims, const LessonReportAnswers& answers) {
  const Said missing = not_said("a plan that it is about does not fit into memory");
  const FigureLookup look = lookup(answers);
  for (const Showing& claim : claims) {
    if (std::find(s.rests_on.begin(), s.rests_on.end(), claim.claim) == s.rests_on.end()) continue;
    const std::optional<double> so = claim.holds.value(look);
    if (!so) return missing;
    if (*so == 0) return not_said(fmt::format("it rests on this, which is not so: {}", claim.claim));
  }
  const FigureText* text = &s.text;
  if (s.condition) {
    const std::optional<double> chosen = s.condition->value(look);
    if (!chosen) return missing;
    if (*chosen == 0) text = s.otherwise ? &*s.otherwise : nullptr;
  }
  if (text == nullptr) return std::nullopt;
  const std::optional<std::string> sentence = filled(*text, answers);
  return sentence ? Said{*sentence, true} : missing;
}

/// Claims that do not hold, with why where it is not known.
std::vector<std::string> failures(const std::vector<Showing>& claims, const LessonReportAnswers& answers) {
  std::vector<std::string> out;
  for (const Showing& s : claims)
    if (!holds(s, answers))
      out.push_back(s.claim +
                    (s.holds.value(lookup(answers)) ? "" : ": not known, as a plan does not fit into memory"));
  return out;
}

std::string mark_of(const ReplayRow& row) {
  if (!row.predicted) return "no prediction";
  return row.measurement.standing == Standing::measured ? "" : std::string(name_of(row.measurement.standing));
}

Table row_table(const std::vector<ReplayRow>& rows) {
  Table table{
      "Prediction beside measurement", {{""}, {"predicted", true}, {"measured", true}, {"error %", true}, {""}}, {}};
  for (const ReplayRow& r : rows)
    table.rows.push_back({fmt::format("{}, {}", r.measurement.what, r.measurement.unit),
                          r.predicted ? value_text(*r.predicted) : "-", value_text(r.measurement.measured),
                          r.predicted ? fmt::format("{:+.1f}", 100 * r.error()) : "-", mark_of(r)});
  return table;
}

std::string summary_text(const ReplayErrors& e) {
  const int rows = e.counted.rows;
  std::string out =
      rows == 0 ? std::string("No row counts")
                : fmt::format("{} row{} count{}: median error {:.1f} %, worst {:.1f} %", rows, rows == 1 ? "" : "s",
                              rows == 1 ? "s" : "", 100 * e.counted.median, 100 * e.counted.worst);
  if (e.uncounted_rows > 0)
    out += fmt::format("; {} shown without counting, being claims or unverified", e.uncounted_rows);
  if (e.skipped_rows > 0) out += fmt::format("; {} without a prediction", e.skipped_rows);
  return out + ".";
}

/// Each source once, with the rows that rest on it.
Facts source_facts(const std::vector<ReplayRow>& rows) {
  Facts facts{"Sources", {}};
  for (const ReplayRow& r : rows) {
    const std::string source = r.measurement.source.empty() ? "none: said without a source" : r.measurement.source;
    const auto known =
        std::find_if(facts.rows.begin(), facts.rows.end(), [&](const auto& f) { return f.second == source; });
    if (known == facts.rows.end())
      facts.rows.emplace_back(r.measurement.id, source);
    else
      known->first += ", " + r.measurement.id;
  }
  for (auto& [ids, source] : facts.rows) {
    source += " (" + ids + ")";
    ids = "-";
  }
  return facts;
}

std::vector<std::string> row_notes(const std::vector<ReplayRow>& rows) {
  std::vector<std::string> out;
  for (const ReplayRow& r : rows) {
    const std::string note =
        r.predicted ? r.measurement.note : r.skipped + (r.measurement.note.empty() ? "" : ". " + r.measurement.note);
    if (!note.empty()) out.push_back(fmt::format("{}: {}", r.measurement.what, note));
  }
  return out;
}

Facts list_of(const std::string& title, const std::vector<std::string>& texts) {
  Facts facts{title, {}};
  for (const std::string& t : texts) facts.rows.emplace_back("-", t);
  return facts;
}

void add_replay(const Lesson& lesson, const std::vector<ReplayRow>& rows, Document& out) {
  if (rows.empty()) return;
  out.blocks.push_back(row_table(rows));
  out.blocks.push_back(Paragraph{summary_text(replay_errors(rows))});
  if (const std::vector<std::string> notes = row_notes(rows); !notes.empty())
    out.blocks.push_back(list_of("Notes", notes));
  out.blocks.push_back(source_facts(rows));
  if (!lesson.assumes.empty()) out.blocks.push_back(list_of("Taken where the source is silent", lesson.assumes));
}

ordered_json row_json(const ReplayRow& r) {
  ordered_json out{{"id", r.measurement.id},
                   {"quantity", r.measurement.what},
                   {"unit", r.measurement.unit},
                   {"predicted", nullptr},
                   {"measured", r.measurement.measured},
                   {"error", nullptr},
                   {"skipped", r.skipped.empty() ? ordered_json(nullptr) : ordered_json(r.skipped)},
                   {"standing", name_of(r.measurement.standing)},
                   {"source", r.measurement.source}};
  if (r.predicted) {
    out["predicted"] = *r.predicted;
    out["error"] = r.error();
  }
  return out;
}

ordered_json summary_json(const ReplayErrors& e) {
  ordered_json out{
      {"predicted_rows", e.counted.rows}, {"skipped_rows", e.skipped_rows}, {"uncounted_rows", e.uncounted_rows}};
  out.update(error_figures_json(e.counted));
  return out;
}

/// As text: pages draw some kinds by themselves, and show the others as they are.
ordered_json pictures_json(const Lesson& lesson, const LessonReportAnswers& answers) {
  constexpr int kPageWidth = 80;
  auto out = ordered_json::array();
  for (const LessonPicture& p : lesson.pictures) {
    const DocumentBlock block = draw_picture(p, answers);
    const auto* picture = std::get_if<Picture>(&block);
    if (picture == nullptr) continue;
    ordered_json& shown = out.emplace_back(ordered_json{
        {"kind", name_of(p.kind)}, {"title", picture->title}, {"text", picture->draw({.width = kPageWidth})}});
    if (p.kind != PictureKind::bars) continue;
    for (const PlanFigure& f : figures_shown(p, answers))
      shown["bars"].push_back(
          {{"plan", f.plan}, {"value", f.value ? ordered_json(*f.value) : ordered_json(nullptr)}, {"text", f.text}});
  }
  return out;
}

std::string json_text(const Lesson& lesson, const LessonReportAnswers& answers, const std::vector<ReplayRow>& rows) {
  ordered_json out{{"schema", kLessonResultSchema},
                   {"lesson", lesson.name},
                   {"title", lesson.title},
                   {"question", filled(lesson.question, answers).value_or("")},
                   {"plans", ordered_json::array()}};
  for (const LessonAnswer& a : answers)
    out["plans"].push_back({{"key", a.key}, {"title", a.title}, {"figures", a.figures}});
  out["pictures"] = pictures_json(lesson, answers);
  const std::vector<Said> said = sentences(lesson.says, lesson.shows, answers);
  out["says"] = texts(said, true);
  out["left_out"] = texts(said, false);
  out["shows"] = ordered_json::array();
  const std::vector<std::string> failed = not_holding(lesson.shows, answers);
  for (const Showing& s : lesson.shows)
    out["shows"].push_back(
        {{"claim", s.claim}, {"holds", std::find(failed.begin(), failed.end(), s.claim) == failed.end()}});
  out["rows"] = ordered_json::array();
  for (const ReplayRow& r : rows) out["rows"].push_back(row_json(r));
  out["summary"] = summary_json(replay_errors(rows));
  return out.dump(2) + "\n";
}

/// A record per plan and figure, then one per row.
Table records(const Lesson& lesson, const LessonReportAnswers& answers, const std::vector<ReplayRow>& rows) {
  Table table{"", {{"lesson"}, {"subject"}, {"quantity"}, {"value"}, {"measured"}, {"standing"}}, {}};
  for (const LessonAnswer& a : answers)
    for (const auto& [name, value] : a.figures)
      table.rows.push_back({lesson.name, a.key, name, fmt::format("{}", value), "", ""});
  for (const ReplayRow& r : rows)
    table.rows.push_back({lesson.name, r.measurement.id, r.measurement.what + ", " + r.measurement.unit,
                          r.predicted ? fmt::format("{}", *r.predicted) : "", fmt::format("{}", r.measurement.measured),
                          std::string(name_of(r.measurement.standing))});
  return table;
}

}  // namespace

std::vector<Said> sentences(const std::vector<Saying>& says, const std::vector<Showing>& claims,
                            const LessonReportAnswers& answers) {
  std::vector<Said> out;
  for (const Saying& s : says)
    if (std::optional<Said> one = said(s, claims, answers)) out.push_back(std::move(*one));
  return out;
}

std::vector<std::string> texts(const std::vector<Said>& said, bool applies) {
  std::vector<std::string> out;
  for (const Said& s : said)
    if (s.applies == applies) out.push_back(s.text);
  return out;
}

std::vector<ReplayRow> replay_rows(const Lesson& lesson, const LessonReportAnswers& answers) {
  std::vector<ReplayRow> out;
  for (const MeasuredFigure& m : lesson.measurements) {
    ReplayRow row{m, std::nullopt, m.skipped};
    if (m.predicted) row.predicted = m.predicted->value(lookup(answers));
    if (m.predicted && !row.predicted) row.skipped = "a plan of it does not fit into memory";
    out.push_back(std::move(row));
  }
  return out;
}

ReplayErrors replay_errors(const std::vector<ReplayRow>& rows) {
  ReplayErrors out;
  std::vector<double> errors;
  for (const ReplayRow& r : rows) {
    if (!r.predicted)
      ++out.skipped_rows;
    else if (r.counts())
      errors.push_back(r.error());
    else
      ++out.uncounted_rows;
  }
  out.counted = statistics(std::move(errors));
  return out;
}

bool holds(const Showing& showing, const LessonReportAnswers& answers) {
  return showing.holds.value(lookup(answers)).value_or(0) != 0;
}

std::vector<std::string> not_holding(const std::vector<Showing>& claims, const LessonReportAnswers& answers) {
  std::vector<std::string> out;
  for (const Showing& s : claims)
    if (!holds(s, answers)) out.push_back(s.claim);
  return out;
}

Document lesson_document(const Lesson& lesson, const LessonReportAnswers& answers) {
  const std::vector<ReplayRow> rows = replay_rows(lesson, answers);
  Document out;
  out.blocks.push_back(Heading{lesson.title});
  if (const auto question = filled(lesson.question, answers); question && !question->empty())
    out.blocks.push_back(Paragraph{*question});
  out.blocks.push_back(plan_facts(answers));
  out.blocks.push_back(plan_table(answers));
  for (const LessonPicture& p : lesson.pictures) out.blocks.push_back(draw_picture(p, answers));
  add_replay(lesson, rows, out);
  for (Said& s : sentences(lesson.says, lesson.shows, answers)) out.blocks.push_back(Paragraph{std::move(s.text)});
  for (const PopularClaim& c : lesson.claims)
    out.blocks.push_back(Facts{"Often said", {{"claim", c.claim}, {"verdict", c.verdict}, {"original", c.original}}});
  if (const std::vector<std::string> failed = failures(lesson.shows, answers); !failed.empty())
    out.blocks.push_back(list_of("Not so here", failed));
  if (!lesson.next.empty()) {
    Facts next{"Go on", {}};
    for (const std::string& command : lesson.next) next.rows.emplace_back("$", command);
    out.blocks.push_back(std::move(next));
  }
  out.records = records(lesson, answers, rows);
  out.json = json_text(lesson, answers, rows);
  return out;
}

}  // namespace rehearse
