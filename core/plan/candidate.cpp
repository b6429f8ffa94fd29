#include "core/plan/candidate.hpp"

#include <fmt/format.h>

#include "core/report/metrics.hpp"
#include "core/units/error.hpp"

namespace rehearse {

namespace {

constexpr double kGpuShareOfPower = 0.55;

}  // namespace

MachineFacts machine_facts(const Cluster& cluster, Precision precision) {
  const MachineSpec& m = cluster.machine(0);
  const GpuSpec& gpu = cluster.gpu(0);
  MachineFacts out;
  out.id = m.id;
  out.name = m.name;
  out.gpu = gpu.id;
  out.generation = gpu.generation;
  out.gpus = m.gpus;
  out.nics = m.nics;
  out.hosts = m.trays;
  out.rated = m.power;
  out.rated_estimated = m.power <= Watts{0};
  if (out.rated_estimated) out.rated = gpu.tdp * m.gpus / kGpuShareOfPower;
  out.peak = gpu.peak(arithmetic_of(precision)) * m.gpus;
  out.network = cluster.network().id;
  if (const auto most = cluster.network().parameters.find("max_nodes"); most != cluster.network().parameters.end()) out.most = static_cast<int>(most->second);
  return out;
}

bool is_rented(const PlanCandidate& c, const MachinePrice& price) {
  const bool only_rental_given = c.price.rental && !c.price.purchase;
  const bool rented = c.rented.value_or(only_rental_given || !price.purchase);
  const auto missing = [&](const char* what, const char* key) {
    throw Error(ErrorKind::usage, fmt::format("no {} price of '{}' is known", what, c.machine), c.where + "/price", fmt::format("state it: \"price\": {{\"{}\": \"$...\"}}", key));
  };
  if (rented && !price.rental) missing("rental", "rental_per_gpu_hour");
  if (!rented && !price.purchase) missing("purchase", "purchase");
  return rented;
}

std::optional<PlanPoint> plan_point(const Plan& plan, CandidateSite& site, int machines, std::int64_t& evaluated, std::string* why_not) {
  StepAnswer answer = site.search->best(machines);
  evaluated += answer.evaluated;
  if (!answer.choice) {
    if (why_not) *why_not = std::move(answer.why_not);
    return {};
  }
  PlanPoint out;
  out.machines = machines;
  out.gpus = machines * site.facts.gpus;
  out.step = std::move(*answer.choice);
  GoodputRequest request{site.reliability.times, {static_cast<double>(out.gpus), static_cast<double>(machines * site.facts.nics), static_cast<double>(machines * site.facts.hosts)}, 0, site.rented, site.checkpoint};
  const double in_repair = machines_in_repair(request.times, request.counts, plan.reliability.repair);
  const int needed = site.rented ? 0 : cheapest_spares(in_repair, machines);
  out.spares = site.candidate.spares.value_or(plan.reliability.spares.value_or(needed));
  request.spares = out.spares;
  out.goodput = goodput(plan.reliability, request);
  const double steps = plan.base.training.tokens / (static_cast<double>(out.step.global_batch) * site.tokens_per_sequence);
  out.duration = out.step.step_time * (steps / out.goodput.total);
  out.cost = run_cost(site.price, plan.economics, {machines, out.spares, site.facts.gpus, site.facts.rated, out.duration, site.rented});
  return out;
}

}  // namespace rehearse
