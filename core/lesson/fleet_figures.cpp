// Figures of a fleet, by the names in figures.hpp.

#include <fmt/format.h>

#include "core/base/index.hpp"
#include "core/lesson/figures.hpp"
#include "core/report/fleet/fleet_figures.hpp"

namespace rehearse {

namespace {

constexpr double kHour = 3600;

void add_waits(const fleet_report::Waits& w, const std::string& prefix, Figures& out) {
  out[prefix + "wait.mean"] = w.mean.value();
  out[prefix + "wait.p50"] = w.p50.value();
  out[prefix + "wait.p90"] = w.p90.value();
  out[prefix + "wait.most"] = w.most.value();
  out[prefix + "completion"] = w.completion.value();
  out[prefix + "preemptions"] = w.preemptions;
  out[prefix + "jobs"] = static_cast<double>(w.jobs);
  out[prefix + "ended"] = static_cast<double>(w.done);
}

void add_hours(const fleet::Account& a, Figures& out) {
  out["hours.capacity"] = a.capacity / kHour;
  out["hours.useful"] = a.useful / kHour;
  out["hours.lost"] = a.lost / kHour;
  out["hours.restarts"] = a.restarts / kHour;
  out["hours.down"] = a.down / kHour;
  out["hours.unwanted"] = a.unwanted / kHour;
  for (int why = 0; why < fleet::kWhys; ++why)
    out["hours." + nth(fleet::why_names(), why)] = nth(a.waited_for, why) / kHour;
  out["held"] = a.capacity > 0 ? (a.useful + a.lost + a.restarts) / a.capacity : 0;
}

}  // namespace

Figures figures_of(const FleetAnswer& answer) {
  const PlayedFleet played = answer.played("");
  const fleet::FleetResult& r = answer.result;
  const double span = (r.end - r.begin).value();
  double gpus = 0;
  for (const fleet::Node& n : answer.fleet.nodes) gpus += n.gpus;
  Figures out{{"gpus", gpus}, {"played", span}, {"fairness", fleet_report::fairness(played)}};
  add_waits(fleet_report::waits_of(played, ""), "", out);
  add_hours(r.account, out);
  for (int why = 0; why < fleet::kWhys; ++why) {
    double& sum = out["waited." + nth(fleet::why_names(), why)];
    for (const fleet::JobResult& j : r.jobs) sum += nth(j.waited, why).value();
  }
  for (std::size_t q = 0; q < answer.fleet.queues.size(); ++q) {
    const fleet::Queue& queue = answer.fleet.queues[q];
    const std::string prefix = "queue." + queue.name + ".";
    out[prefix + "own"] = guaranteed_of(queue);
    out[prefix + "held"] = span > 0 ? r.queues[q].gpu_seconds / span : 0;
    out[prefix + "asked"] = span > 0 ? r.queues[q].asked_gpu_seconds / span : 0;
    add_waits(fleet_report::waits_of(played, queue.name), prefix, out);
  }
  return out;
}

}  // namespace rehearse
