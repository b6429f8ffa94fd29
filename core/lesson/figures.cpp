#include "core/lesson/figures.hpp"

#include <algorithm>
#include <set>

#include <fmt/format.h>

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

}  // namespace

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
  const std::size_t dot = name.find('.');
  const auto at =
      std::find_if(answers.begin(), answers.end(), [&](const LessonAnswer& a) { return a.key == name.substr(0, dot); });
  if (at == answers.end() || dot == std::string::npos)
    throw Error(ErrorKind::usage, fmt::format("no plan has the figure '{}'", name), name);
  const std::string wanted = name.substr(dot + 1);
  const auto found = at->figures.find(wanted);
  if (found != at->figures.end()) return found->second;
  if (!at->fleet && at->figures.at("fits") == 0) return std::nullopt;
  std::vector<std::string> valid;
  for (const auto& [known, value] : at->figures) valid.push_back(known);
  throw unknown_name("figure", wanted, valid);
}

}  // namespace rehearse
