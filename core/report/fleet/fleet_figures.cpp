#include "core/report/fleet/fleet_figures.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "core/fleet/quantile.hpp"

namespace rehearse::fleet_report {

Waits waits_of(const PlayedFleet& p, const std::string& queue) {
  Waits out;
  std::vector<Seconds> waits;
  for (std::size_t i = 0; i < p.fleet->jobs.size(); ++i) {
    const fleet::Job& job = p.fleet->jobs[i];
    const fleet::JobResult& r = p.result->jobs[i];
    if ((!queue.empty() && job.queue != queue) || r.end == fleet::JobEnd::not_arrived) continue;
    ++out.jobs;
    out.preemptions += r.preemptions;
    waits.push_back(r.waiting);
    out.mean += r.waiting;
    if (r.end == fleet::JobEnd::waiting) ++out.waiting;
    if (r.end != fleet::JobEnd::done) continue;
    ++out.done;
    out.completion += r.completion(job.arrival);
  }
  if (out.jobs > 0) out.mean = out.mean / static_cast<double>(out.jobs);
  if (out.done > 0) out.completion = out.completion / static_cast<double>(out.done);
  out.p50 = fleet::quantile(waits, 0.5);
  out.p90 = fleet::quantile(waits, 0.9);
  out.most = fleet::quantile(std::move(waits), 1);
  return out;
}

double fairness(const PlayedFleet& p) {
  double sum = 0, squares = 0, n = 0;
  for (const fleet::QueueResult& q : p.result->queues) {
    if (q.asked_gpu_seconds <= 0) continue;
    const double part = q.gpu_seconds / q.asked_gpu_seconds;
    sum += part, squares += part * part, n += 1;
  }
  return squares > 0 ? sum * sum / (n * squares) : 1;
}

std::string time_text(Seconds t) {
  const double s = t.value();
  if (s < 60) return fmt::format("{:.3g} s", s);
  if (s < 3600) return fmt::format("{:.3g} min", s / 60);
  if (s < 48 * 3600) return fmt::format("{:.3g} h", s / 3600);
  return fmt::format("{:.4g} d", s / 86400);
}

}  // namespace rehearse::fleet_report
