#include "core/api/search.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "core/api/backend_choice.hpp"
#include "core/api/session/observed.hpp"
#include "core/api/session/scenario_file.hpp"
#include "core/api/session/search_setup.hpp"
#include "core/base/portable.hpp"
#include "core/config/settings/strategy.hpp"

namespace rehearse {

namespace {

/// What a figure must be known for.
void check_objective(Objective objective, const StepFigures& figures) {
  if (objective == Objective::cost_per_token && figures.price_per_gpu_hour <= Dollars{0})
    throw Error(ErrorKind::usage, "the price of a GPU hour is not known", "objective cost_per_token",
                "give it as well: dollars for an hour of a GPU");
  if (objective == Objective::energy_per_token && figures.power <= Watts{0})
    throw Error(ErrorKind::usage, "the catalogue does not know the machines' power", "objective energy_per_token",
                "choose another objective; on one cluster the fastest plan takes the least energy");
  if (objective != Objective::step_time && objective != Objective::memory && figures.tokens_per_step <= 0)
    throw Error(ErrorKind::usage, "this network's samples are not sequences of tokens", "objective",
                "choose step_time or memory");
}

/// The scenario's strategy with what was fixed, wherever dp is then.
StrategySettings wanted_strategy(const Scenario& asked, const std::vector<std::string>& fixes,
                                 const std::set<std::string>& fixed) {
  std::vector<std::string> overrides;
  for (const char* key : {"dp", "dp_replicate"})
    if (!fixed.contains(key)) overrides.push_back(fmt::format("strategy.{}=auto", key));
  overrides.insert(overrides.end(), fixes.begin(), fixes.end());
  return with_overrides(asked, overrides).strategy;
}

/// Head, figures and what was asked.
SearchReport asked_report(const SearchSession& opened, const SearchRequest& request,
                          const std::vector<std::string>& fixes) {
  SearchReport report = search_report_of(opened.session, opened.asked.origin);
  report.own_refused = opened.note;
  report.objective = request.objective;
  report.top = std::max<std::size_t>(1, request.top);
  report.shard = request.shard;
  report.fixed = fixes;
  report.figures.price_per_gpu_hour = request.price_per_gpu_hour;
  check_objective(report.objective, report.figures);
  report.most_memory = request.most_memory;
  // Parts are played when they are joined.
  if (report.shard.count == 1 && request.most_played != 0) report.backend = known_backend(request.backend);
  return report;
}

SearchOptions search_options(const SearchRequest& request, const SearchReport& report,
                             const std::set<std::string>& fixed) {
  SearchOptions out;
  out.objective = report.objective;
  out.most_memory = report.most_memory;
  out.fixed = fixed;
  out.jobs = request.jobs > 0 ? request.jobs : usable_threads();
  out.top = static_cast<int>(report.top);
  out.backend = report.backend;
  out.most_played = request.most_played;
  out.shard = report.shard;
  out.time_spent = request.time_spent;
  out.stop = request.stop;
  out.progress = request.progress;
  return out;
}

}  // namespace

SearchReport search(const SearchSession& opened, const SearchRequest& request) {
  std::vector<std::string> fixes;
  for (const std::string& text : request.fix) fixes.push_back(fix_override(text));
  const std::set<std::string> fixed = fixed_keys(fixes);
  // What is fixed comes from `wanted`; the user's own plan is what the scenario says.
  const StrategySettings wanted = wanted_strategy(opened.asked, fixes, fixed);
  SearchReport report = asked_report(opened, request, fixes);
  const CostModel cost = opened.session.cost_model();
  const SearchProblem problem = problem_of(opened.session, cost);
  SearchOptions options = search_options(request, report, fixed);
  if (const auto& framework = opened.session.framework)
    options.admits = [&framework](const StrategySettings& s) { return lacking(*framework, s).empty(); };
  report.result = search(problem, wanted, options, opened.own_is_a_plan);
  return report;
}

SearchReport search(const Scenario& scenario, const SearchRequest& request) {
  SearchSession opened = open_search_session(scenario, request.data);
  observe(opened.session, request.observed);
  return search(opened, request);
}

Document to_document(const SearchReport& report) { return search_document(report); }
std::string to_json(const SearchReport& report) { return to_document(report).json; }

}  // namespace rehearse
