#include <algorithm>
#include <cmath>
#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "core/config/json_file.hpp"
#include "core/config/object_reader.hpp"
#include "core/play/words.hpp"
#include "core/report/results/range_words.hpp"
#include "core/report/results/sweep_report.hpp"

namespace rehearse {

namespace {

using nlohmann::ordered_json;

ordered_json value_of(const std::string& text) {
  ordered_json parsed = ordered_json::parse(text, nullptr, false);
  return parsed.is_discarded() || parsed.is_structured() ? ordered_json(text) : parsed;
}

ordered_json point_json(const SweepReport& report, std::size_t i) {
  const SweepPoint& p = report.points[i];
  const Evaluation e = with_bias(p.evaluation, p.range);
  ordered_json out{{"number", report.numbers[i]}, {"values", ordered_json::object()}};
  for (std::size_t k = 0; k < report.vary.size(); ++k) out["values"][report.vary[k].key] = value_of(p.values[k]);
  if (!e.refusal.empty()) {
    out["error"] = e.refusal;
    return out;
  }
  out["label"] = p.plan;
  out["gpus"] = p.figures.gpus;
  out["memory_bytes"] = std::llround(e.needed.value());
  out["memory_capacity_bytes"] = std::llround(e.capacity.value());
  out["fits"] = e.fits;
  if (!e.fits) {
    out["error"] = fmt::format("does not fit: {} needed of {}", to_string_iec(e.needed), to_string_iec(e.capacity));
    return out;
  }
  out["step_time_s"] = e.time().value();
  if (p.range.rows > 0) add_range_json(p.evaluation.time(), p.range, out);
  if (p.figures.tokens_per_step > 0) {
    out["tokens_per_s"] = p.figures.tokens_per_step / e.time().value();
    out["tokens_per_s_per_gpu"] = p.figures.tokens_per_step / e.time().value() / p.figures.gpus;
  }
  out["samples"] = p.figures.samples;
  if (p.figures.samples_per_step > 0) out["samples_per_s"] = p.figures.samples_per_step / e.time().value();
  out["mfu"] = Flops{p.figures.model_flops} / (p.figures.peak * e.time());
  out["breakdown"] = breakdown_json(e.parts());
  return out;
}

ordered_json sweep_json(const SweepReport& report) {
  ordered_json out{
      {"schema", kSweepSchema}, {"version", report.version}, {"scenario", report.scenario}, {"file", report.file}};
  out["backend"] = report.backend.empty() ? ordered_json() : ordered_json(report.backend);
  out["interrupted"] = report.interrupted;
  if (report.shard.count > 1) out["shard"] = {{"index", report.shard.index}, {"count", report.shard.count}};
  out["vary"] = ordered_json::object();
  for (const Vary& v : report.vary)
    for (const std::string& value : v.values) out["vary"][v.key].push_back(value_of(value));
  out["points"] = ordered_json::array();
  for (std::size_t i = 0; i < report.points.size(); ++i) out["points"].push_back(point_json(report, i));
  out["resolved"] = ordered_json::parse(report.scenario_json);
  return out;
}

std::string cell(const ordered_json& point, const char* key) {
  const auto at = point.find(key);
  return at == point.end() ? "" : at->is_string() ? at->get<std::string>() : at->dump();
}

std::string rounded(const ordered_json& point, const char* key, double scale, int digits) {
  const auto at = point.find(key);
  return at == point.end() ? "-" : fmt::format("{:.{}f}", at->get<double>() * scale, digits);
}

/// What a sweep is about: points may differ in batch, sequence length and model, so that steps say little. As the page
/// has it.
struct Pace {
  const char* key;
  std::string unit;
};

Pace pace_of(const ordered_json& sweep) {
  Pace out{"step_time_s", ""};
  for (const ordered_json& p : sweep["points"]) {
    if (p.contains("tokens_per_s")) return {"tokens_per_s", "tokens/s"};
    if (p.contains("samples_per_s")) out = {"samples_per_s", p.value("samples", "samples") + "/s"};
  }
  return out;
}

/// The more the better; 0 where there is no answer.
double speed(const ordered_json& point, const Pace& pace) {
  const double value = point.value(pace.key, 0.0);
  return pace.unit.empty() && value > 0 ? 1 / value : value;
}

double best_speed(const ordered_json& sweep, const Pace& pace) {
  double out = 0;
  for (const ordered_json& p : sweep["points"]) out = std::max(out, speed(p, pace));
  return out;
}

/// What differs is shown; the pace of each as a bar against the best.
Table points_table(const ordered_json& sweep) {
  Table table{"", {}, {}};
  const Pace pace = pace_of(sweep);
  const bool samples = pace.key == std::string_view("samples_per_s");
  for (const auto& [key, values] : sweep["vary"].items())
    table.columns.push_back({key.substr(key.find('.') + 1), true});
  for (const std::string& title :
       {std::string("step s"), samples ? pace.unit : "tok/s/GPU", std::string("MFU %"), std::string("GiB")})
    table.columns.push_back({title, true});
  table.columns.push_back({"", false});
  table.title = fmt::format("Bars: {}, longer is better", pace.unit.empty() ? "steps/s" : pace.unit);
  const double best = best_speed(sweep, pace);
  double slowest = 0;
  for (const ordered_json& p : sweep["points"]) slowest = std::max(slowest, p.value("step_time_s", 0.0));
  for (const ordered_json& p : sweep["points"]) {
    std::vector<std::string> row;
    for (const auto& [key, value] : p["values"].items())
      row.push_back(value.is_string() ? value.get<std::string>() : value.dump());
    row.insert(row.end(),
               {rounded(p, "step_time_s", 1, slowest < 1 ? 4 : 3),
                rounded(p, samples ? "samples_per_s" : "tokens_per_s_per_gpu", 1, 1), rounded(p, "mfu", 100, 1),
                p.contains("memory_bytes") ? gib(Bytes{p["memory_bytes"].get<double>()}) : "-",
                p.contains("error") ? p.contains("fits") ? "does not fit" : "refused" : ""});
    table.rows.push_back(std::move(row));
    table.bars.push_back(best > 0 ? speed(p, pace) / best : 0);
  }
  return table;
}

/// Each reason once, with the points it is for, in their order.
Facts refusals(const ordered_json& sweep) {
  std::vector<std::pair<std::string, std::vector<std::string>>> reasons;
  for (const ordered_json& p : sweep["points"]) {
    if (!p.contains("error") || p.contains("fits")) continue;
    std::vector<std::string> values;
    for (const auto& [key, value] : p["values"].items())
      values.push_back(fmt::format("{}={}", key.substr(key.find('.') + 1),
                                   value.is_string() ? value.get<std::string>() : value.dump()));
    auto at = std::find_if(reasons.begin(), reasons.end(), [&](const auto& r) { return r.first == cell(p, "error"); });
    if (at == reasons.end()) at = reasons.insert(at, {cell(p, "error"), {}});
    at->second.push_back(fmt::format("{}", fmt::join(values, " ")));
  }
  Facts out{"Refused", {}};
  for (const auto& [why, points] : reasons)
    out.rows.emplace_back(
        points.size() == 1 ? points.front() : fmt::format("{} and {} more", points.front(), points.size() - 1), why);
  return out;
}

std::string significant(double v) { return v >= 1e4 ? with_commas(v) : fmt::format("{:.4g}", v); }

std::string best_text(const ordered_json& sweep) {
  const Pace pace = pace_of(sweep);
  const ordered_json* best = nullptr;
  for (const ordered_json& p : sweep["points"])
    if (speed(p, pace) > (best == nullptr ? 0 : speed(*best, pace))) best = &p;
  if (best == nullptr) return "No point fits.";
  std::vector<std::string> values;
  for (const auto& [key, value] : (*best)["values"].items())
    values.push_back(fmt::format("{}={}", key, value.is_string() ? value.get<std::string>() : value.dump()));
  const std::string rate = pace.unit.empty() ? "" : fmt::format("{} {}, ", significant(speed(*best, pace)), pace.unit);
  return fmt::format("Fastest: {}: {}{} a step, {} of memory.", fmt::join(values, " "), rate,
                     to_string(Seconds{(*best)["step_time_s"].get<double>()}),
                     to_string_iec(Bytes{(*best)["memory_bytes"].get<double>()}, 3));
}

Table records(const ordered_json& sweep) {
  Table table{"", {}, {}};
  for (const auto& [key, values] : sweep["vary"].items()) table.columns.push_back({key, false});
  const std::vector<const char*> keys{"step_time_s", "tokens_per_s", "tokens_per_s_per_gpu",  "samples_per_s",
                                      "mfu",         "memory_bytes", "memory_capacity_bytes", "fits",
                                      "label",       "error"};
  for (const char* key : keys) table.columns.push_back({key, true});
  for (const ordered_json& p : sweep["points"]) {
    std::vector<std::string> row;
    for (const auto& [key, value] : p["values"].items())
      row.push_back(value.is_string() ? value.get<std::string>() : value.dump());
    for (const char* key : keys) row.push_back(cell(p, key));
    table.rows.push_back(std::move(row));
  }
  return table;
}

Document document_of(const ordered_json& sweep) {
  Document out;
  const bool closed = sweep["backend"].is_null();
  const std::string part =
      sweep.contains("shard")
          ? fmt::format(", part {} of {}", sweep["shard"]["index"].get<int>() + 1, sweep["shard"]["count"].get<int>())
          : "";
  out.blocks.emplace_back(
      Heading{fmt::format("{}: {} points{}, {}", sweep["scenario"].get<std::string>(), sweep["points"].size(), part,
                          closed ? "closed form" : "played on " + sweep["backend"].get<std::string>())});
  if (sweep["interrupted"].get<bool>())
    out.blocks.emplace_back(Paragraph{"Interrupted: the points that were evaluated until then."});
  out.blocks.emplace_back(points_table(sweep));
  if (Facts why = refusals(sweep); !why.rows.empty()) out.blocks.emplace_back(std::move(why));
  out.blocks.emplace_back(Paragraph{best_text(sweep)});
  out.records = records(sweep);
  out.json = sweep.dump(2) + "\n";
  return out;
}

struct SweepPart {
  std::string file;
  ordered_json json;
  SearchShard shard;
};

SweepPart read_sweep_part(const std::string& text, const std::string& file) {
  const nlohmann::json document = parse_json(text, file);
  ObjectReader reader(document, file);
  const std::vector<std::string> schema{kSweepSchema};
  (void)reader.choice("schema", schema);
  SweepPart out{file, ordered_json::parse(text), {}};
  if (auto shard = reader.optional_object("shard")) {
    out.shard.count = static_cast<int>(shard->integer("count", {1, 1'000'000}));
    out.shard.index = static_cast<int>(shard->integer("index", {0, out.shard.count - 1}));
  }
  (void)reader.boolean("interrupted");
  (void)reader.object("vary");
  (void)reader.string("scenario");
  for (ObjectReader& point : reader.objects("points")) {
    (void)point.integer("number", {0, 10'000'000});
    (void)point.object("values");
    (void)point.number("step_time_s", {0, 1e12}, 0);
    (void)point.number("memory_bytes", {0, 1e18}, 0);
  }
  for (const char* key : {"resolved", "backend"})
    if (!out.json.contains(key))
      throw Error(ErrorKind::usage, fmt::format("'{}' is missing", key), file,
                  "a part is what 'rehearse sweep --shard' writes with --format json");
  return out;
}

}  // namespace

Document sweep_document(const SweepReport& report) { return document_of(sweep_json(report)); }

Document merged_sweep(const std::vector<std::pair<std::string, std::string>>& texts) {
  std::vector<SweepPart> parts;
  std::vector<std::pair<std::string, SearchShard>> shards;
  for (const auto& [file, text] : texts) {
    parts.push_back(read_sweep_part(text, file));
    shards.emplace_back(file, parts.back().shard);
    for (const char* key : {"resolved", "vary", "backend"})
      if (parts.back().json[key] != parts.front().json[key])
        throw Error(ErrorKind::usage,
                    fmt::format("is part of another sweep than {}: '{}' differs", parts.front().file, key), file,
                    "run all parts with the same scenario, --set, --vary and --backend");
  }
  check_shards(shards);
  ordered_json whole = parts.front().json;
  whole.erase("shard");
  std::vector<ordered_json> points;
  for (SweepPart& part : parts) {
    if (part.json["interrupted"].get<bool>()) whole["interrupted"] = true;
    for (ordered_json& p : part.json["points"]) points.push_back(std::move(p));
  }
  std::sort(points.begin(), points.end(), [](const ordered_json& a, const ordered_json& b) {
    return a["number"].get<std::int64_t>() < b["number"].get<std::int64_t>();
  });
  whole["points"] = std::move(points);
  return document_of(whole);
}

}  // namespace rehearse
