#include "core/report/fleet/fleet_json.hpp"

#include <nlohmann/json.hpp>

#include "core/report/fleet/fleet_figures.hpp"

namespace rehearse::fleet_report {

namespace {

using nlohmann::ordered_json;

ordered_json by_why(const auto& values, auto number) {
  auto out = ordered_json::object();
  for (int w = 0; w < fleet::kWhys; ++w) out[nth(fleet::why_names(), w)] = number(nth(values, w));
  return out;
}

ordered_json waits_json(const Waits& w) {
  return {{"jobs", w.jobs},
          {"done", w.done},
          {"still_waiting", w.waiting},
          {"wait_mean_s", w.mean.value()},
          {"wait_p50_s", w.p50.value()},
          {"wait_p90_s", w.p90.value()},
          {"wait_max_s", w.most.value()},
          {"completion_mean_s", w.completion.value()},
          {"preemptions", w.preemptions}};
}

ordered_json finite(double v) { return std::isfinite(v) ? ordered_json(v) : ordered_json(nullptr); }

ordered_json queue_json(const PlayedFleet& p, std::size_t q) {
  const fleet::Queue& s = p.fleet->queues[q];
  const fleet::QueueResult& r = p.result->queues[q];
  const double span = std::max((p.result->end - p.result->begin).value(), 1e-9);
  ordered_json out{{"name", s.name},
                   {"parent", s.parent},
                   {"guaranteed", guaranteed_of(s)},
                   {"limit", finite(s.limit)},
                   {"weight", s.weight},
                   {"held_gpus", r.gpu_seconds / span},
                   {"asked_gpus", r.asked_gpu_seconds / span}};
  for (const fleet::PoolQuota& own : s.pools)
    out["pools"].push_back({{"pool", own.pool}, {"guaranteed", own.guaranteed}, {"limit", finite(own.limit)}});
  out.update(waits_json(waits_of(p, s.name)));
  ordered_json samples = ordered_json::array();
  for (const fleet::QueueSample& x : r.samples) samples.push_back({x.begin.value(), x.held, x.asked});
  out["samples"] = std::move(samples);
  return out;
}

ordered_json job_json(const PlayedFleet& p, std::size_t i) {
  static const std::vector<std::string> states{"done", "running", "waiting", "not_arrived"};
  const fleet::Job& j = p.fleet->jobs[i];
  const fleet::JobResult& r = p.result->jobs[i];
  const auto time = [](Seconds t) { return t.value() < 0 ? ordered_json(nullptr) : ordered_json(t.value()); };
  return {{"name", j.name},
          {"queue", j.queue},
          {"gpus", j.request.gpus * j.request.milli / 1000.0},
          {"state", nth(states, r.end)},
          {"arrival_s", j.arrival.value()},
          {"started_s", time(r.started)},
          {"finished_s", time(r.finished)},
          {"waiting_s", r.waiting.value()},
          {"waited_s", by_why(r.waited, [](Seconds t) { return t.value(); })},
          {"running_s", r.running.value()},
          {"gpu_seconds", r.gpu_seconds},
          {"lost_gpu_seconds", r.lost_gpu_seconds},
          {"preemptions", r.preemptions},
          {"failures", r.failures},
          {"resizes", r.resizes},
          {"after", r.after < 0 ? ordered_json(nullptr) : ordered_json(nth(p.fleet->jobs, r.after).name)}};
}

}  // namespace

ordered_json fleet_json(const PlayedFleet& p) {
  const fleet::Account& a = p.result->account;
  double gpus = 0;
  for (const fleet::Node& n : p.fleet->nodes) gpus += n.gpus;
  const fleet::Policy& policy = p.fleet->policy;
  ordered_json out{
      {"label", p.label},
      {"cluster", {{"nodes", p.fleet->nodes.size()}, {"gpus", gpus}}},
      {"policy",
       {{"order", policy.order}, {"rule", policy.rule}, {"quota", policy.quota}, {"placement", policy.placement}}},
      {"begin_s", p.result->begin.value()},
      {"end_s", p.result->end.value()},
      {"account",
       {{"capacity", a.capacity},
        {"useful", a.useful},
        {"lost", a.lost},
        {"restarts", a.restarts},
        {"down", a.down},
        {"free_while_wanted", by_why(a.waited_for, [](double v) { return v; })},
        {"unwanted", a.unwanted}}},
      {"fairness", fairness(p)},
      {"all", waits_json(waits_of(p, ""))}};
  out["queues"] = ordered_json::array();
  for (std::size_t q = 0; q < p.fleet->queues.size(); ++q) out["queues"].push_back(queue_json(p, q));
  out["jobs"] = ordered_json::array();
  for (std::size_t i = 0; i < p.fleet->jobs.size(); ++i) out["jobs"].push_back(job_json(p, i));
  return out;
}

}  // namespace rehearse::fleet_report
