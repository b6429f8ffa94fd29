#pragma once
// A candidate whose step time is a formula, so that sizes and costs can be told beforehand.

#include <functional>
#include <memory>

#include "core/plan/rank.hpp"

namespace rehearse::test {

/// Answers with `step(machines)`, times `thorough` where it is asked to look harder; 0 means that nothing runs there.
/// Where it is asked to play, times `played`; 0 means that nothing plays.
class FormulaSearch final : public StepSearch {
 public:
  explicit FormulaSearch(std::function<double(int)> step, double thorough = 1, double played = 0)
      : step_(std::move(step)), thorough_(thorough), played_(played) {}
  StepAnswer best(int machines, bool thorough) override {
    StepAnswer out;
    out.evaluated = 1;
    const double time = step_(machines) * (thorough ? thorough_ : 1);
    if (time <= 0) {
      out.why_not = "does not fit";
      return out;
    }
    StepChoice choice;
    choice.label = "formula";
    choice.global_batch = 512;
    choice.step_time = Seconds{time};
    choice.mfu = 0.4;
    choice.needed = Bytes{60e9};
    choice.capacity = Bytes{80e9};
    out.choice = choice;
    return out;
  }
  std::optional<StepChoice> played(int /*machines*/, const StepAnswer& answer) override {
    if (played_ <= 0) return {};
    StepChoice out = *answer.choice;
    out.closed_form = out.step_time;
    out.step_time = out.step_time * played_;
    out.played_by = "formula";
    return out;
  }

 private:
  std::function<double(int)> step_;
  double thorough_, played_;
};

constexpr double kDay = 86400;

/// 1e12 tokens in 30 days, without failures, idle time, interest, or anything left at the end.
inline Plan calm_plan() {
  Plan plan;
  plan.name = "test";
  plan.base.training.tokens = 1e12;
  plan.base.training.global_batch = 512;
  plan.deadline = Seconds{30 * kDay};
  plan.economics.utilisation = 1;
  plan.economics.residual_share = plan.economics.cost_of_capital = plan.economics.storage_share = 0;
  plan.economics.colocation = plan.economics.staff = Dollars{0};
  plan.reliability.jitter = 0;
  plan.reliability.spares = 0;
  return plan;
}

/// Machines of 8 GPUs at 1e15 FLOP/s each and 10 kW, for $300k and $20k of network; 4096 tokens per sequence, so 2.1e6
/// a step and 476,837 steps.
inline CandidateSite site(std::function<double(int)> step, const std::string& name = "machine") {
  CandidateSite out;
  out.candidate.name = out.candidate.machine = name;
  out.candidate.network = "network";
  out.candidate.where = "plan.json: /candidates/0";
  out.facts = {name, name, "gpu", "hopper", 8, 8, 1, Watts{10e3}, false, FlopsPerSecond{8e15}, {}, "network", {}};
  out.price.purchase = Dollars{300e3};
  out.price.network = Dollars{20e3};
  out.flops_per_token = Flops{1e9};
  out.tokens_per_sequence = 4096;
  out.checkpoint = Bytes{1e12};
  out.search = std::make_unique<FormulaSearch>(std::move(step));
  return out;
}

/// `work` seconds on one machine, in equal parts on many.
inline std::function<double(int)> even(double work) {
  return [work](int machines) { return work / machines; };
}

}  // namespace rehearse::test
