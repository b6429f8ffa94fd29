#include "core/plan/candidate.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

#include <fmt/format.h>

#include "core/base/error.hpp"
#include "core/base/normal.hpp"
#include "core/play/metrics.hpp"

namespace rehearse {

namespace {

constexpr double kGpuShareOfPower = 0.55;
constexpr double kRangeEnd = 0.9;  // Odds at the upper end of an 80 % range.

/// Adds machines that are that share of all.
void add_part(const Cluster::Part& part, double share, Precision precision, MachineFacts& out) {
  const MachineSpec& m = *part.machine;
  const GpuSpec& gpu = *part.gpu;
  const auto join = [](std::string& text, const std::string& more) { text += (text.empty() ? "" : " + ") + more; };
  join(out.id, m.id);
  join(out.name, m.name);
  join(out.gpu, gpu.id);
  join(out.generation, gpu.generation);
  out.gpus += share * m.gpus;
  out.nics += share * m.nics;
  out.hosts += share * m.trays;
  const bool stated = m.power > Watts{0};
  out.rated += share * (stated ? m.power : gpu.tdp * m.gpus / kGpuShareOfPower);
  out.rated_estimated = out.rated_estimated || !stated;
  out.peak += share * m.gpus * gpu.peak(arithmetic_of(precision));
}

/// "candidates.0" of "plan.json: /candidates/0".
std::string key_of(const PlanCandidate& c) {
  std::string key = c.where.substr(std::min(c.where.size(), c.where.rfind(": /") + 3));
  std::replace(key.begin(), key.end(), '/', '.');
  return key;
}

}  // namespace

MachineFacts machine_facts(const Cluster& cluster, Precision precision, bool as_it_is) {
  MachineFacts out;
  out.gpus = 0;
  out.hosts = 0;
  for (const Cluster::Part& part : cluster.parts())
    add_part(part, static_cast<double>(part.nodes) / cluster.node_count(), precision, out);
  out.network = cluster.network().id;
  if (as_it_is) out.set = cluster.node_count();
  if (const auto most = cluster.network().parameters.find("max_nodes"); most != cluster.network().parameters.end())
    out.most = static_cast<int>(most->second);
  return out;
}

bool is_rented(const PlanCandidate& c, const MachinePrice& price) {
  const bool only_rental_given = c.price.rental && !c.price.purchase;
  const bool rented = c.rented.value_or(only_rental_given || !price.purchase);
  const auto missing = [&](const char* what, const char* key) {
    throw Error(
        ErrorKind::usage, fmt::format("no {}price of '{}' is known", what, c.machine + c.cluster), c.where + "/price",
        fmt::format("state it: \"price\": {{\"{0}\": \"$...\"}}, or --set {1}.price.{0}='$...'", key, key_of(c)));
  };
  if (!price.rental && !price.purchase) missing("", "purchase");
  if (rented && !price.rental) missing("rental ", "rental_per_gpu_hour");
  if (!rented && !price.purchase) missing("purchase ", "purchase");
  return rented;
}

double StepRange::quantile(double odds) const {
  const double end = odds >= 0.5 ? high : low;
  return std::pow(end, std::abs(normal_quantile(odds) / normal_quantile(kRangeEnd)));
}

double StepRange::odds_above(double times) const {
  const double end = std::abs(std::log(times >= 1 ? high : low));
  if (end == 0) return times < 1 ? 1 : 0;
  // The normal distribution's tail beyond that many standard deviations.
  return std::erfc(std::log(times) / end * normal_quantile(kRangeEnd) / std::numbers::sqrt2) / 2;
}

PlanPoint plan_point(const Plan& plan, const CandidateSite& site, int machines, StepChoice step) {
  PlanPoint out;
  out.machines = machines;
  out.gpus = static_cast<int>(std::lround(machines * site.facts.gpus));
  out.step = std::move(step);
  GoodputRequest request{site.reliability.times,
                         {machines * site.facts.gpus, machines * site.facts.nics, machines * site.facts.hosts},
                         0,
                         site.rented,
                         site.checkpoint};
  const double in_repair = machines_in_repair(request.times, request.counts, plan.reliability.repair);
  // With fewer machines to go on with, no spare is worth its price.
  const int needed = site.rented || plan.reliability.shrink ? 0 : cheapest_spares(in_repair, machines);
  out.spares = site.candidate.spares.value_or(plan.reliability.spares.value_or(needed));
  request.spares = out.spares;
  out.goodput = goodput(plan.reliability, request);
  const double steps =
      plan.base.training.tokens / (static_cast<double>(out.step.global_batch) * site.tokens_per_sequence);
  out.duration = out.step.step_time * (steps / out.goodput.total);
  out.end = out.duration + Seconds{86400 * site.candidate.lead_days};
  out.cost = run_cost(site.price, plan.economics,
                      {machines, out.spares, site.facts.gpus, site.facts.rated, out.duration, site.rented});
  return out;
}

std::optional<PlanPoint> plan_point(const Plan& plan, CandidateSite& site, int machines, std::int64_t& evaluated,
                                    std::string& why_not) {
  StepAnswer answer = site.search->best(machines);
  evaluated += answer.evaluated;
  why_not = std::move(answer.why_not);
  if (!answer.choice) return {};
  return plan_point(plan, site, machines, std::move(*answer.choice));
}

std::optional<PlanPoint> played_point(const Plan& plan, CandidateSite& site, int machines, std::int64_t& evaluated) {
  StepAnswer answer = site.search->best(machines, true);
  evaluated += answer.evaluated;
  if (!answer.choice) return {};
  std::optional<StepChoice> played = site.search->played(machines, answer);
  return plan_point(plan, site, machines, played ? std::move(*played) : std::move(*answer.choice));
}

}  // namespace rehearse
