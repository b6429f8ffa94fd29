#pragma once
// Small search problems on shipped machines.

#include "core/config/settings/strategy.hpp"
#include "core/search/search.hpp"
#include "core/strategy/workload.hpp"
#include "tests/unit/estimate/estimate_jobs.hpp"

namespace rehearse::test {

/// A job with its problem; not to be moved once the problem refers to it.
struct SearchJob {
  explicit SearchJob(const std::string& scenario) : job(load_job(kSource + "/scenarios/" + scenario + ".json")) {}
  SearchJob(const std::string& model, const std::string& machine, int nodes, std::int64_t batch,
            std::int64_t sequence) {
    job.site = make_site(machine, nodes, nodes > 1 ? "ib_hdr" : "single_switch");
    job.workload.network = ModelLibrary(kSource + "/scenarios/models").load(model);
    job.workload.training.global_batch = batch;
    job.workload.training.sequence_length = sequence;
    job.strategy.dp = job.strategy.dp_replicate = job.site->cluster.device_count();
  }
  SearchJob(const SearchJob&) = delete;
  SearchJob& operator=(const SearchJob&) = delete;

  [[nodiscard]] SearchProblem problem() const {
    return {job.workload,
            job.site->cluster,
            job.site->cost,
            job.strategy,
            job.site->cluster.device_count(),
            [this](const StrategySettings& s) { return lower(job.workload, s, job.site->cluster); }};
  }

  ScenarioJob job;
};

/// All legal plans of a problem.
inline Space listed_space(const SearchProblem& problem) {
  Space out(problem.workload, problem.own, problem.devices, {});
  out.enumerate();
  return out;
}

inline SearchOptions on_analytic(std::set<std::string> fixed = {}) {
  SearchOptions out;
  out.backend = "analytic";
  out.fixed = std::move(fixed);
  return out;
}

/// Plans by their labels with times and memory, as one text.
inline std::string listed(const std::vector<Found>& found) {
  std::string out;
  for (const Found& f : found)
    out += plan_label(f.settings) + " " + std::to_string(f.evaluation.time().value()) + " " +
           std::to_string(f.evaluation.needed.value()) + "\n";
  return out;
}

}  // namespace rehearse::test
