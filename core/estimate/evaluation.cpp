#include "core/estimate/evaluation.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "core/base/stop.hpp"
#include "core/config/settings/input.hpp"
#include "core/config/settings/strategy.hpp"
#include "core/config/settings/training.hpp"
#include "core/estimate/balance.hpp"
#include "core/estimate/estimate.hpp"
#include "core/estimate/long_step.hpp"
#include "core/price/stage_memory.hpp"
#include "core/strategy/lower.hpp"
#include "core/strategy/workload.hpp"

namespace rehearse {

namespace {

StrategySettings with_shares(const SearchProblem& problem, const StrategySettings& settings) {
  return settings.balance == Balance::none ? settings : balanced(problem.workload, settings, problem.cost, {});
}

void take_memory(const MemoryReport& report, Bytes most, Evaluation& out) {
  const StageMemory& tightest = report.tightest();
  out.needed = tightest.needed;
  out.allocated = tightest.allocated;
  out.capacity = most > Bytes{0} ? std::min(most, tightest.capacity) : tightest.capacity;
  out.fits = report.fits() && out.needed <= out.capacity;
}

/// Short steps that are lowered as `problem` lowers: on the whole of the cluster, with prices of the kernel model.
std::optional<ShortSteps> steps_that_tell(const SearchProblem& problem, const StrategySettings& settings) {
  if (problem.devices != problem.cluster.device_count() || problem.cost.options().profile != nullptr) return {};
  return short_steps(problem.workload, settings);
}

StepLowering lower_short(const SearchProblem& problem, const StrategySettings& settings, int microbatches) {
  Workload workload = problem.workload;
  workload.training.global_batch = std::int64_t{microbatches} * settings.microbatch * settings.dp;
  return {std::move(workload), settings, problem.cluster};
}

/// Memory, and time where it fits: of the whole step, or from two shorter ones, of which the nearer tells the memory.
void fill_in(const SearchProblem& problem, const StrategySettings& settings, const std::optional<ShortSteps>& few,
             Bytes most, Evaluation& out) {
  std::optional<StepLowering> of_few;
  std::optional<Program> whole;
  if (few)
    of_few = lower_short(problem, settings, few->near);
  else
    whole = problem.lower(settings);
  const Program& program = few ? of_few->program() : *whole;
  take_memory(memory_report(program, problem.cluster, MemoryRule(problem.cluster)), most, out);
  if (!out.fits) return;
  const int steps = steps_in_period(settings, problem.workload.input);
  const Estimate e =
      few ? long_step(*few, *of_few, problem.cost, steps) : estimate(program, problem.cost, settings, steps);
  out.step_time = e.step_time;
  out.breakdown = e.breakdown;
}

}  // namespace

int steps_in_period(const StrategySettings& s, const InputSettings& input) {
  if (input.sample > Bytes{0}) return 4;  // Loaders run ahead: the first steps do not show their pace.
  if (s.fsdp.enabled || s.offload == Offload::optimizer || s.data_parallel != DataParallelism::replicas) return 2;
  return s.zero_stage > 0 && s.dp > 1 && s.overlap.param_gather ? 2 : 1;
}

Evaluation evaluate(const SearchProblem& problem, const StrategySettings& settings, Bytes most) {
  Evaluation out;
  try {
    const StrategySettings chosen = with_shares(problem, problem.run(settings));
    const bool own = !problem.trains_workload || problem.trains_workload(settings);
    if (const std::optional<ShortSteps> few = own ? steps_that_tell(problem, chosen) : std::nullopt) {
      try {
        fill_in(problem, chosen, few, most, out);
        return out;
      } catch (const Error&) {  // With fewer microbatches it is refused, or with any.
        out = {};
      }
    }
    fill_in(problem, chosen, {}, most, out);
  } catch (const Error& e) {
    out.fits = false;
    out.refusal = e.what();
  } catch (const std::logic_error& e) {
    out.fits = false;
    out.defect = true;
    out.refusal = e.what();
  }
  return out;
}

QuickEvaluator::QuickEvaluator(const SearchProblem& problem, Bytes most, const std::shared_ptr<QuickTables>& tables)
    : problem_(problem),
      most_(most),
      alone_(problem.workload, problem.cluster, problem.cost, MemoryRule(problem.cluster), 1, tables),
      following_(problem.workload, problem.cluster, problem.cost, MemoryRule(problem.cluster), 2, tables) {}

std::optional<Evaluation> QuickEvaluator::operator()(const StrategySettings& asked) {
  Evaluation out;
  try {
    if (!trained(asked)) return {};
    const StrategySettings settings = problem_.run(asked);
    const std::optional<QuickEstimate> e =
        (steps_in_period(settings, problem_.workload.input) > 1 ? following_ : alone_).closed_form(settings);
    if (!e) return {};
    out.needed = e->needed;
    out.allocated = MemoryRule().allocated(e->memory);
    out.capacity = most_ > Bytes{0} ? std::min(most_, e->capacity) : e->capacity;
    out.fits = e->fits() && out.needed <= out.capacity;
    out.step_time = e->step_time;
    out.breakdown = e->breakdown;
  } catch (const Error& e) {
    out.refusal = e.what();
  } catch (const std::logic_error& e) {
    out.defect = true;
    out.refusal = e.what();
  }
  return out;
}

std::unique_ptr<QuickEvaluator> QuickEvaluators::take() {
  {
    const std::lock_guard lock(mutex_);
    if (!free_.empty()) {
      auto out = std::move(free_.back());
      free_.pop_back();
      return out;
    }
  }
  return std::make_unique<QuickEvaluator>(problem_, most_, tables_);
}

void play(const SearchProblem& problem, const StrategySettings& settings, const std::string& backend,
          Evaluation& evaluation, const std::function<bool()>& stop) {
  try {
    const StrategySettings chosen = with_shares(problem, settings);
    const Program program = problem.lower(chosen);
    RunOptions options;
    options.steps = steps_in_period(chosen, problem.workload.input);
    if (stop)
      options.progress = [&stop](const RunProgress&) {
        if (stop()) throw Stopped{};
      };
    Trace none({});
    const RunResult run = backends().at(backend).value()->run(program, problem.cluster, problem.cost, options, none);
    if (!run.breaches.empty())
      throw Error(ErrorKind::check_failed,
                  "breaks physics: " + run.breaches.front().rule + ", " + run.breaches.front().detail);
    evaluation.played = run.step_time;
    evaluation.played_breakdown = run.ranks.at(static_cast<std::size_t>(run.slowest)).breakdown;
  } catch (const Stopped&) {  // The plan stays as it was.
  } catch (const Error& e) {
    evaluation.fits = false;
    evaluation.refusal = e.what();
  }
}

}  // namespace rehearse
