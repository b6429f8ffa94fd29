#include "core/report/fleet/fleet_report.hpp"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/play/words.hpp"
#include "core/report/fleet/fleet_figures.hpp"
#include "core/report/fleet/fleet_json.hpp"

namespace rehearse {

namespace {

using namespace fleet_report;
using fleet::Why;

constexpr std::size_t kLongest = 5;  // Jobs that are named.

std::string policy_text(const fleet::Policy& p) {
  return fmt::format("{} order, rule {}, quota {}, placement {}", p.order, p.rule, p.quota, p.placement);
}

double all_gpus(const PlayedFleet& p) {
  return std::accumulate(p.fleet->nodes.begin(), p.fleet->nodes.end(), 0.0,
                         [](double sum, const fleet::Node& n) { return sum + n.gpus; });
}

/// What became of the GPU-hours: words and GPU-seconds, in the order of the table.
std::vector<std::pair<std::string, double>> account_rows(const fleet::Account& a) {
  const auto free = [&a](Why w) { return nth(a.waited_for, w); };
  return {{"useful work", a.useful},
          {"work done again", a.lost},
          {"restarts, checkpoints", a.restarts},
          {"nodes away", a.down},
          {"free: quota", free(Why::quota)},
          {"free: fragments", free(Why::fragments)},
          {"free: kept for others", free(Why::order)},
          {"free: too few for the job", free(Why::busy)},
          {"free: nobody waited", a.unwanted}};
}

Table account_table(const std::vector<PlayedFleet>& fleets) {
  Table t{"Where the GPU-hours went", {{""}}, {}, {}};
  for (const PlayedFleet& p : fleets) {
    t.columns.push_back({fleets.size() > 1 ? p.label : "GPU-hours", true});
    t.columns.push_back({"%", true});
  }
  std::vector<std::vector<std::string>> percents;
  for (const PlayedFleet& p : fleets) {
    std::vector<double> values;
    for (const auto& row : account_rows(p.result->account)) values.push_back(std::max(0.0, row.second));
    percents.push_back(percentages(values));
  }
  const auto names = account_rows(fleets.front().result->account);
  for (std::size_t row = 0; row < names.size(); ++row) {
    std::vector<std::string> cells{names[row].first};
    double most = 0;
    for (std::size_t f = 0; f < fleets.size(); ++f) {
      const double value = account_rows(fleets[f].result->account)[row].second;
      most = std::max(most, value);
      cells.push_back(fmt::format("{:.1f}", value / 3600));
      cells.push_back(percents[f][row]);
    }
    if (most > 0) t.rows.push_back(std::move(cells));
  }
  return t;
}

Table queue_table(const PlayedFleet& p, const std::string& title) {
  Table t{title,
          {{"queue"},
           {"own", true},
           {"held", true},
           {"asked", true},
           {"jobs", true},
           {"wait", true},
           {"90 %", true},
           {"longest", true}},
          {},
          {}};
  const double span = std::max((p.result->end - p.result->begin).value(), 1e-9);
  for (std::size_t q = 0; q < p.fleet->queues.size(); ++q) {
    const fleet::QueueResult& r = p.result->queues[q];
    const Waits w = waits_of(p, p.fleet->queues[q].name);
    const bool group = w.jobs == 0;
    t.rows.push_back({p.fleet->queues[q].name, fmt::format("{:.6g}", guaranteed_of(p.fleet->queues[q])),
                      fmt::format("{:.1f}", r.gpu_seconds / span), fmt::format("{:.1f}", r.asked_gpu_seconds / span),
                      group ? "" : with_commas(static_cast<double>(w.jobs)), group ? "" : time_text(w.mean),
                      group ? "" : time_text(w.p90), group ? "" : time_text(w.most)});
  }
  return t;
}

/// "q's guarantee", "too few GPUs free", ...
std::string reason_text(const fleet::JobResult& r) {
  static const std::vector<std::string> words{"kept for others", "its quota", "fragments", "GPUs in use"};
  const auto most = std::max_element(r.waited.begin(), r.waited.end());
  const double share = most->value() / std::max(r.waiting.value(), 1e-9);
  return fmt::format("{}{}", nth(words, most - r.waited.begin()),
                     share < 0.995 ? fmt::format(", {:.0f} %", 100 * share) : "");
}

Table longest_table(const PlayedFleet& p) {
  std::vector<std::size_t> order(p.fleet->jobs.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&p](std::size_t a, std::size_t b) {
    return p.result->jobs[a].waiting > p.result->jobs[b].waiting;
  });
  order.resize(std::min(order.size(), kLongest));
  Table t{"Who waited longest, and for what",
          {{"job"}, {"queue"}, {"GPUs", true}, {"waited", true}, {"mostly for"}, {"until the end of"}},
          {},
          {}};
  for (const std::size_t i : order) {
    const fleet::JobResult& r = p.result->jobs[i];
    const fleet::Job& j = p.fleet->jobs[i];
    if (r.waiting.value() <= 0) continue;
    t.rows.push_back({j.name, j.queue, fmt::format("{:.4g}", j.request.gpus * j.request.milli / 1000.0),
                      time_text(r.waiting), reason_text(r),
                      r.started.value() < 0 ? "not started"
                      : r.after < 0         ? ""
                                            : nth(p.fleet->jobs, r.after).name});
  }
  return t;
}

Facts facts_of(const PlayedFleet& p) {
  const fleet::Account& a = p.result->account;
  const Waits w = waits_of(p, "");
  Facts f;
  f.rows = {{"cluster", fmt::format("{} nodes, {} GPUs", with_commas(static_cast<double>(p.fleet->nodes.size())),
                                    with_commas(all_gpus(p)))},
            {"policy", policy_text(p.fleet->policy)},
            {"jobs", fmt::format("{}: {} ended, {} still wait{}", with_commas(static_cast<double>(w.jobs)),
                                 with_commas(static_cast<double>(w.done)), with_commas(static_cast<double>(w.waiting)),
                                 w.preemptions > 0 ? fmt::format(", {} preemptions", w.preemptions) : "")},
            {"played", time_text(p.result->end - p.result->begin)},
            {"GPUs held", fmt::format("{} % of the time; {} % for work that counts",
                                      percent((a.useful + a.lost + a.restarts) / std::max(a.capacity, 1e-9)),
                                      percent(a.useful / std::max(a.capacity, 1e-9)))},
            {"waiting", fmt::format("{} on average, half no more than {}, 90 % {}, longest {}", time_text(w.mean),
                                    time_text(w.p50), time_text(w.p90), time_text(w.most))},
            {"completion", fmt::format("{} on average", time_text(w.completion))}};
  if (!p.fleet->queues.empty())
    f.rows.emplace_back("fairness",
                        fmt::format("{:.3f} (Jain: 1 where all get the same part of what they ask for)", fairness(p)));
  return f;
}

Table comparison_table(const std::vector<PlayedFleet>& fleets) {
  Table t{"Side by side", {{""}}, {}, {}};
  for (const PlayedFleet& p : fleets) t.columns.push_back({p.label, true});
  const auto row = [&](const std::string& name, auto value) {
    std::vector<std::string> cells{name};
    for (const PlayedFleet& p : fleets) cells.push_back(value(p));
    t.rows.push_back(std::move(cells));
  };
  row("mean wait", [](const PlayedFleet& p) { return time_text(waits_of(p, "").mean); });
  row("90 % wait", [](const PlayedFleet& p) { return time_text(waits_of(p, "").p90); });
  row("mean completion", [](const PlayedFleet& p) { return time_text(waits_of(p, "").completion); });
  row("preemptions", [](const PlayedFleet& p) { return std::to_string(waits_of(p, "").preemptions); });
  row("ended after", [](const PlayedFleet& p) { return time_text(p.result->end - p.result->begin); });
  for (const fleet::Queue& q : fleets.front().fleet->queues) {
    if (waits_of(fleets.front(), q.name).jobs > 0)
      row("90 % wait of " + q.name, [&q](const PlayedFleet& p) { return time_text(waits_of(p, q.name).p90); });
  }
  return t;
}

Table records_of(const std::vector<PlayedFleet>& fleets) {
  Table t{"",
          {{"fleet"},
           {"job"},
           {"queue"},
           {"gpus", true},
           {"arrival_s", true},
           {"started_s", true},
           {"finished_s", true},
           {"waiting_s", true},
           {"running_s", true},
           {"preemptions", true}},
          {},
          {}};
  const auto time = [](Seconds s) { return s.value() < 0 ? std::string() : fmt::format("{:.12g}", s.value()); };
  for (const PlayedFleet& p : fleets) {
    for (std::size_t i = 0; i < p.fleet->jobs.size(); ++i) {
      const fleet::Job& j = p.fleet->jobs[i];
      const fleet::JobResult& r = p.result->jobs[i];
      t.rows.push_back({p.label, j.name, j.queue, fmt::format("{:.6g}", j.request.gpus * j.request.milli / 1000.0),
                        time(j.arrival), time(r.started), time(r.finished), time(r.waiting), time(r.running),
                        std::to_string(r.preemptions)});
    }
  }
  return t;
}

}  // namespace

Document fleet_document(const std::vector<PlayedFleet>& fleets, const std::string& program_version) {
  Document d;
  const PlayedFleet& first = fleets.front();
  d.blocks.push_back(Heading{fmt::format("Shared cluster: {}", first.fleet->name)});
  d.blocks.push_back(facts_of(first));
  if (fleets.size() > 1) d.blocks.push_back(comparison_table(fleets));
  d.blocks.push_back(account_table(fleets));
  for (const PlayedFleet& p : fleets)
    if (!p.fleet->queues.empty())
      d.blocks.push_back(queue_table(
          p, fmt::format("Queues, in GPUs on average{}", fleets.size() > 1 ? ": " + p.label : std::string())));
  if (Table t = longest_table(first); !t.rows.empty()) d.blocks.push_back(std::move(t));
  d.records = records_of(fleets);
  nlohmann::ordered_json out{{"schema", kFleetResultSchema}, {"program", program_version}, {"name", first.fleet->name}};
  if (fleets.size() == 1) {
    out.update(fleet_json(first));
  } else {
    out["fleets"] = nlohmann::ordered_json::array();
    for (const PlayedFleet& p : fleets) out["fleets"].push_back(fleet_json(p));
  }
  d.json = out.dump(2) + "\n";
  return d;
}

}  // namespace rehearse
