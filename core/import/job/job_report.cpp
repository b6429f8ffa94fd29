#include "core/import/job/job_report.hpp"

#include <algorithm>
#include <map>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace rehearse::job {

namespace {

using Kind = Outcome::Kind;

std::string clipped(const std::string& text) {
  constexpr std::size_t kLongest = 48;
  return text.size() <= kLongest ? text : text.substr(0, kLongest - 3) + "...";
}

std::string stated(const Outcome& o) { return o.value.empty() ? o.setting : o.setting + " " + clipped(o.value); }

/// "train.sh:29": people know the folder.
std::string place(const std::string& where) { return where.substr(where.rfind('/') + 1); }

const char* outcome_word(Kind kind) {
  return kind == Kind::taken ? "taken" : kind == Kind::ignored ? "ignored" : "asked";
}

std::int64_t outcomes_of(const ImportedJob& job, Kind kind) {
  return std::count_if(job.draft.outcomes.begin(), job.draft.outcomes.end(),
                       [&](const Outcome& o) { return o.kind == kind; });
}

nlohmann::ordered_json json_of(const ImportedJob& job, const std::string& file, const std::string& written) {
  nlohmann::ordered_json out{{"schema", "rehearse/job_import/v1"},
                             {"file", file},
                             {"framework", job.framework},
                             {"program", job.program},
                             {"scenario", written},
                             {"settings", nlohmann::ordered_json::array()},
                             {"questions", nlohmann::ordered_json::array()},
                             {"notes", job.draft.notes},
                             {"jobs", job.launches}};
  for (const Outcome& o : job.draft.outcomes) {
    out["settings"].push_back({{"setting", o.setting},
                               {"value", o.value},
                               {"where", o.where},
                               {"outcome", outcome_word(o.kind)},
                               {"key", o.key},
                               {"result", o.result},
                               {"why", o.why}});
  }
  for (const Question& q : job.draft.questions) out["questions"].push_back({{"what", q.what}, {"how", q.how}});
  return out;
}

Table taken(const ImportedJob& job) {
  Table out{"Taken", {{"setting"}, {"is"}, {"where"}}, {}};
  for (const Outcome& o : job.draft.outcomes)
    if (o.kind == Kind::taken)
      out.rows.push_back({stated(o), fmt::format("{} = {}", o.key, clipped(o.result)), place(o.where)});
  return out;
}

Table asked(const ImportedJob& job) {
  Table out{"Asked for", {{"setting"}, {"why"}, {"where"}}, {}};
  for (const Outcome& o : job.draft.outcomes)
    if (o.kind == Kind::asked) out.rows.push_back({stated(o), o.why, place(o.where)});
  return out;
}

Table ignored(const ImportedJob& job) {
  Table out{"Ignored", {{"reason"}, {"settings"}}, {}};
  std::vector<std::string> order;
  std::map<std::string, std::vector<std::string>> by_reason;
  for (const Outcome& o : job.draft.outcomes) {
    if (o.kind != Kind::ignored) continue;
    if (!by_reason.contains(o.why)) order.push_back(o.why);
    by_reason[o.why].push_back(o.setting);
  }
  for (const std::string& why : order) out.rows.push_back({why, fmt::format("{}", fmt::join(by_reason[why], " "))});
  return out;
}

}  // namespace

Document job_document(const ImportedJob& job, const std::string& file, const std::string& written) {
  Document out;
  Facts facts{"", {{"job", file}, {"framework", job.framework}}};
  if (!job.program.empty()) facts.rows.emplace_back("program", job.program);
  if (!written.empty()) facts.rows.emplace_back("scenario", written);
  facts.rows.emplace_back("settings", fmt::format("{} taken, {} ignored, {} asked for", outcomes_of(job, Kind::taken),
                                                  outcomes_of(job, Kind::ignored), outcomes_of(job, Kind::asked)));
  out.blocks.emplace_back(std::move(facts));
  for (Table table : {taken(job), asked(job), ignored(job)})
    if (!table.rows.empty()) out.blocks.emplace_back(std::move(table));
  for (const std::string& note : job.draft.notes) out.blocks.emplace_back(Paragraph{note});
  out.records = {"", {{"outcome"}, {"setting"}, {"value"}, {"key"}, {"result"}, {"why"}, {"where"}}, {}};
  for (const Outcome& o : job.draft.outcomes)
    out.records.rows.push_back({outcome_word(o.kind), o.setting, o.value, o.key, o.result, o.why, o.where});
  out.json = json_of(job, file, written).dump(2) + "\n";
  return out;
}

Missing missing_of(const ImportedJob& job) {
  std::vector<std::string> what, how;
  for (const Question& q : job.draft.questions) {
    what.push_back(q.what);
    how.push_back(q.how);
  }
  return {fmt::format("the job does not say {}", fmt::join(what, ", nor ")),
          fmt::format("add {}", fmt::join(how, "; "))};
}

}  // namespace rehearse::job
