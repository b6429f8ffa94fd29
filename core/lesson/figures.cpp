#include "core/lesson/figures.hpp"

#include <algorithm>
#include <cctype>
#include <set>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/base/index.hpp"
#include "core/base/registry.hpp"

namespace rehearse {

namespace {

void add_memory(const MemoryReport& memory, Figures& out) {
  const StageMemory& worst = memory.tightest();
  out["fits"] = memory.fits() ? 1 : 0;
  out["needed"] = worst.needed.value();
  out["capacity"] = worst.capacity.value();
  for (int c = 0; c < kMemoryCategories; ++c)
    out[fmt::format("memory.{}", name_of(static_cast<MemoryCategory>(c)))] = nth(worst.memory.by_category, c).value();
}

bool is_exposed(TimeCategory c) { return c >= TimeCategory::exposed_tp && c <= TimeCategory::exposed_copy; }

void add_breakdown(const Breakdown& b, const std::string& prefix, Figures& out) {
  double compute = 0, communication = 0;
  for (int i = 0; i < kTimeCategories; ++i) {
    const auto c = static_cast<TimeCategory>(i);
    const double s = b[c].value();
    out[fmt::format("{}.{}", prefix, name_of(c))] = s;
    if (is_exposed(c))
      communication += s;
    else if (c != TimeCategory::input && c != TimeCategory::bubble)
      compute += s;
  }
  out[prefix + ".compute"] = compute;
  out[prefix + ".communication"] = communication;
}

/// "tile_h" and "dp.tile" as "tile" and "dp": the first word of a communicator's name.
std::string axis_of(const std::string& group) {
  const auto letter = [](char c) { return c >= 'a' && c <= 'z'; };
  return {group.begin(), std::find_if_not(group.begin(), group.end(), letter)};
}

bool moves(SpanKind kind) { return kind == SpanKind::collective || kind == SpanKind::send; }

void add_payloads(const Trace& trace, Figures& out) {
  std::map<std::pair<std::string, int>, double> by_rank;
  for (const Span& s : trace.spans)
    if (moves(s.kind)) by_rank[{axis_of(s.group), s.rank}] += s.bytes.value();
  for (const auto& [where, bytes] : by_rank) {
    double& most = out["payload." + where.first];
    most = std::max(most, bytes);
  }
}

/// A size, a rate or a time as resolved scenarios write them.
std::optional<double> quantity(const std::string& text) {
  if (text.empty() || (std::isdigit(static_cast<unsigned char>(text.front())) == 0 && text.front() != '-')) return {};
  const auto parsed = [&text]<class Quantity>(Quantity) -> std::optional<double> {
    try {
      return parse<Quantity>(text).value();
    } catch (const Error&) {
      return {};
    }
  };
  for (const std::optional<double>& v : {parsed(Bytes{}), parsed(BytesPerSecond{}), parsed(Seconds{})})
    if (v) return v;
  return {};
}

void add_settings(const nlohmann::json& group, const std::string& before, LessonAnswer& out) {
  for (const auto& [key, value] : group.items()) {
    const std::string name = before + key;
    if (value.is_object()) {
      add_settings(value, name + ".", out);
      continue;
    }
    out.words[name] = value.is_string() ? value.get<std::string>() : value.dump();
    if (value.is_number()) out.settings[name] = value.get<double>();
    if (value.is_boolean()) out.settings[name] = value.get<bool>() ? 1 : 0;
    if (const auto v = value.is_string() ? quantity(value.get<std::string>()) : std::nullopt) out.settings[name] = *v;
  }
}

/// The answer of the plan that `name` begins with, and the rest of `name`.
std::pair<const LessonAnswer*, std::string> found_in(const std::vector<LessonAnswer>& answers,
                                                     const std::string& name) {
  const std::size_t dot = name.find('.');
  const auto at =
      std::find_if(answers.begin(), answers.end(), [&](const LessonAnswer& a) { return a.key == name.substr(0, dot); });
  if (at == answers.end() || dot == std::string::npos)
    throw Error(ErrorKind::usage, fmt::format("no plan has the figure '{}'", name), name);
  return {&*at, name.substr(dot + 1)};
}

template <class Value>
Error unknown_in(const std::map<std::string, Value>& known, const char* kind, const std::string& wanted) {
  std::vector<std::string> valid;
  for (const auto& [name, value] : known) valid.push_back(name);
  return unknown_name(kind, wanted, valid);
}

}  // namespace

LessonAnswer answer_of(const std::string& key, StepReport report) {
  LessonAnswer out{key, {}, std::move(report), {}, nullptr, {}, {}};
  out.figures = figures_of(out.report);
  const PlanSummary& plan = out.report.head.plan;
  out.words = {
      {"model", plan.model}, {"cluster", plan.cluster}, {"strategy", plan.strategy}, {"samples", plan.samples}};
  add_settings(nlohmann::json::parse(out.report.head.scenario_json), "set.", out);
  return out;
}

Figures figures_of(const StepReport& r) {
  const PlanSummary& plan = r.head.plan;
  Figures out{{"gpus", plan.gpus}, {"parameters", plan.parameters}, {"microbatches", plan.microbatches}};
  std::set<int> stages;
  for (const StageMemory& s : r.memory.stages) stages.insert(s.stage);
  out["stages"] = static_cast<double>(stages.size());
  add_memory(r.memory, out);
  if (!r.memory.fits()) return out;
  const StepMetrics& m = r.metrics;
  out["step_time"] = m.step_time.value();
  out["samples"] = m.samples_per_s * m.step_time.value();
  out["samples_per_s"] = m.samples_per_s;
  out["tokens_per_s"] = m.tokens_per_s;
  out["mfu"] = m.mfu;
  out["hfu"] = m.hfu;
  out["model_flops"] = m.model_flops_per_s_per_gpu.value() * plan.gpus * m.step_time.value();
  add_breakdown(r.breakdown, "time", out);
  add_breakdown(r.mean, "mean", out);
  if (r.trace) add_payloads(*r.trace, out);
  if (!r.busiest_links.empty()) {
    out["link.used"] = r.busiest_links.front().utilisation;
    out["link.bytes"] = r.busiest_links.front().bytes.value();
  }
  return out;
}

std::optional<double> figure(const std::vector<LessonAnswer>& answers, const std::string& name) {
  const auto [answer, wanted] = found_in(answers, name);
  const Figures& among = wanted.starts_with("set.") ? answer->settings : answer->figures;
  const auto found = among.find(wanted);
  if (found != among.end()) return found->second;
  if (!answer->fleet && answer->figures.at("fits") == 0 && &among == &answer->figures) return std::nullopt;
  throw unknown_in(among, "figure", wanted);
}

std::optional<std::string> filled(const FigureText& text, const std::vector<LessonAnswer>& answers) {
  return text.fill([&answers](const std::string& name) { return figure(answers, name); },
                   [&answers](const std::string& name) { return std::optional(word(answers, name)); });
}

void entitle(const std::vector<FigureText>& titles, std::vector<LessonAnswer>& answers) {
  for (std::size_t i = 0; i < answers.size(); ++i) answers[i].title = filled(nth(titles, i), answers).value_or("");
}

std::string word(const std::vector<LessonAnswer>& answers, const std::string& name) {
  const auto [answer, wanted] = found_in(answers, name);
  const auto found = answer->words.find(wanted);
  if (found != answer->words.end()) return found->second;
  throw unknown_in(answer->words, "text", wanted);
}

}  // namespace rehearse
