#include "core/import/traces/trace_comparison.hpp"

#include <algorithm>
#include <set>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/base/index.hpp"
#include "core/import/traces/call_words.hpp"
#include "core/import/traces/trace_report.hpp"
#include "core/play/words.hpp"
#include "core/program/body.hpp"

namespace rehearse {

namespace {

/// Per step and rank.
struct Side {
  RankTotals totals;
  Seconds step;
};

void scale(std::map<std::string, OperationTotal>& totals, double k) {
  for (auto& [name, t] : totals) t.time *= k, t.waiting *= k, t.bytes *= k;
}

/// Counts of a step, where all steps make as many.
struct Mean {
  Side side;
  double per = 1;
};

Mean traced(const JobTrace& job) {
  Mean out;
  double steps = 0;
  for (std::size_t r = 0; r < job.ranks.size(); ++r) {
    const RankTrace& rank = job.ranks[r];
    StepWindow window{"", Seconds{}, Seconds{}};
    if (rank.steps.empty()) {
      window.begin = rank.events.front().begin;
      for (const DeviceEvent& e : rank.events) window.end = max(window.end, e.end() + Seconds{1e-9});
    } else {
      window.begin = rank.steps.front().begin;
      window.end = rank.steps.back().end;
    }
    const RankTotals totals = rank_totals(job, static_cast<int>(r), &window);
    for (const auto& [name, t] : totals.kernels) out.side.totals.kernels[name] += t;
    for (const auto& [name, t] : totals.calls) out.side.totals.calls[name] += t;
    out.side.step += window.end - window.begin;
    steps += static_cast<double>(std::max<std::size_t>(1, rank.steps.size()));
  }
  out.per = 1 / steps;
  out.side.step *= out.per;
  scale(out.side.totals.kernels, out.per);
  scale(out.side.totals.calls, out.per);
  return out;
}

void add_kernels(const SimulatedStep& s, int rank, std::map<std::string, OperationTotal>& out) {
  const Program& p = *s.program;
  const Role& role = nth(p.roles, nth(p.role_of_rank, rank));
  ExprContext at = p.mesh.context(rank);
  at.tables = &p.tables;
  at.microbatches = role.microbatches > 0 ? role.microbatches : p.microbatches;
  for (const Entry& e : role.step) {
    at.layer = e.layer, at.chunk = e.chunk, at.microbatch = e.microbatch, at.pass = e.pass, at.copy = e.copy;
    if (p.exprs.evaluate(e.predicate, at) == 0) continue;
    const Body& body = nth(p.bodies, e.body);
    for (const auto v : body.graph.vertices()) {
      const Task& task = body.graph[v];
      if ((!std::holds_alternative<ComputeTask>(task.kind) && !std::holds_alternative<CopyTask>(task.kind)) ||
          p.exprs.evaluate(task.predicate, at) == 0)
        continue;
      const PricedTask price = s.cost->price(p, task, body, rank, at);
      out[std::string(name_of(class_of_task(task)))] += {std::max(1, price.kernels), price.time, {}, {}, {}};
    }
  }
}

Mean simulated(const SimulatedStep& s) {
  Mean out;
  const std::set<int> ranks(s.ranks.begin(), s.ranks.end());
  for (const int rank : ranks) add_kernels(s, rank, out.side.totals.kernels);
  for (const Span& span : s.trace->spans) {
    if (!ranks.contains(span.rank) || span.begin < s.begin) continue;
    const bool waits = span.kind == SpanKind::wait;
    if (!waits && span.kind != SpanKind::collective && span.kind != SpanKind::send && span.kind != SpanKind::receive)
      continue;
    if (waits && span.group.empty() && span.collective.empty()) continue;
    const std::string name = span.kind == SpanKind::send      ? "send"
                             : span.kind == SpanKind::receive ? "receive"
                                                              : call_name(span.collective);
    OperationTotal& total = out.side.totals.calls[name];
    total.time += span.end - span.begin;
    if (waits)
      total.waiting += span.end - span.begin;
    else
      ++total.count, total.bytes += span.bytes;
  }
  out.per = 1.0 / static_cast<double>(ranks.size());
  out.side.step = s.step_time;
  scale(out.side.totals.kernels, out.per);
  scale(out.side.totals.calls, out.per);
  return out;
}

std::string ratio(Seconds simulated, Seconds traced) {
  return traced > Seconds{0} && simulated > Seconds{0} ? fmt::format("{:.2f}", simulated / traced) : "";
}

OperationTotal find(const std::map<std::string, OperationTotal>& in, const std::string& name) {
  const auto at = in.find(name);
  return at == in.end() ? OperationTotal{} : at->second;
}

std::set<std::string> names(const std::map<std::string, OperationTotal>& a,
                            const std::map<std::string, OperationTotal>& b) {
  std::set<std::string> out;
  for (const auto& [name, t] : a) out.insert(name);
  for (const auto& [name, t] : b) out.insert(name);
  return out;
}

/// One row for people, one for programs.
class TraceComparisonRows {
 public:
  TraceComparisonRows(const Mean& traced, const Mean& simulated) : traced_(traced), simulated_(simulated) {}

  void write(Document& out) {
    nlohmann::ordered_json json{
        {"schema", "rehearse/trace_comparison/v1"},
        {"step", {{"traced_s", traced_.side.step.value()}, {"simulated_s", simulated_.side.step.value()}}}};
    out.records = {"", {{"kind"}, {"name"}, {"traced_s", true}, {"simulated_s", true}}, {}};
    records_ = &out.records;
    Table kernels{"Kernels per step and rank, ms",
                  {{"class"}, {"traced", true}, {"simulated", true}, {"simulated / traced", true}},
                  {}};
    for (const std::string& name : names(traced_.side.totals.kernels, simulated_.side.totals.kernels))
      row(kernels, json["kernels"], "kernel", name, find(traced_.side.totals.kernels, name).time,
          find(simulated_.side.totals.kernels, name).time);
    row(kernels, json["kernels"], "kernel", "all", RankTotals::sum(traced_.side.totals.kernels).time,
        RankTotals::sum(simulated_.side.totals.kernels).time);
    Table calls{"Communication per step and rank, without waiting, ms",
                {{"call"}, {"traced", true}, {"simulated", true}, {"simulated / traced", true}},
                {}};
    Table waits{"Waiting for the last rank per step and rank, ms",
                {{"call"}, {"traced", true}, {"simulated", true}, {"simulated / traced", true}},
                {}};
    for (const std::string& name : names(traced_.side.totals.calls, simulated_.side.totals.calls)) {
      const OperationTotal t = find(traced_.side.totals.calls, name), s = find(simulated_.side.totals.calls, name);
      row(calls, json["communication"], "communication", name, t.time - t.waiting, s.time - s.waiting);
      row(waits, json["waiting"], "waiting", name, t.waiting, s.waiting);
    }
    out.blocks.emplace_back(std::move(kernels));
    if (!calls.rows.empty()) out.blocks.emplace_back(std::move(calls));
    if (!waits.rows.empty()) out.blocks.emplace_back(std::move(waits));
    out.json = json.dump(2) + "\n";
  }

 private:
  void row(Table& table, nlohmann::ordered_json& json, const char* kind, const std::string& name, Seconds traced,
           Seconds simulated) {
    table.rows.push_back({name, milliseconds(traced), milliseconds(simulated), ratio(simulated, traced)});
    json[name] = {{"traced_s", traced.value()}, {"simulated_s", simulated.value()}};
    records_->rows.push_back({kind, name, fmt::format("{}", traced.value()), fmt::format("{}", simulated.value())});
  }

  const Mean& traced_;
  const Mean& simulated_;
  Table* records_ = nullptr;
};

}  // namespace

Document trace_comparison(const JobTrace& job, const SimulatedStep& step) {
  const Mean real = traced(job), played = simulated(step);
  Document out;
  const RankTrace& first = job.ranks.front();
  out.blocks.emplace_back(
      Heading{fmt::format("{} rank{} traced{} beside {}", job.ranks.size(), job.ranks.size() == 1 ? "" : "s",
                          first.gpu.empty() ? "" : " on " + first.gpu, step.name)});
  out.blocks.emplace_back(Facts{"",
                                {{"step time, traced", to_string(real.side.step)},
                                 {"step time, simulated", fmt::format("{} ({:.3f} of it)", to_string(played.side.step),
                                                                      played.side.step / real.side.step)},
                                 {"steps traced", first.steps.empty() ? "none marked: the whole trace counts as one"
                                                                      : std::to_string(first.steps.size())},
                                 {"ranks", job.how_matched}}});
  TraceComparisonRows(real, played).write(out);
  out.blocks.emplace_back(
      Paragraph{"Kernels are summed up, overlapped ones included, so that columns can add up to more than the step. "
                "Where not all ranks of a group were traced, "
                "waiting is a lower bound, and communication an upper one."});
  return out;
}

}  // namespace rehearse
