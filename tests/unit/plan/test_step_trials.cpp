#include <algorithm>
#include <map>

#include "core/config/settings/choices.hpp"
#include "core/config/settings/strategy.hpp"
#include "core/model/library.hpp"
#include "core/plan/step_search.hpp"
#include "core/schedule/schedule.hpp"
#include "core/search/space.hpp"
#include "core/strategy/lower.hpp"
#include "core/strategy/workload.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/source_path.hpp"

using namespace rehearse;

namespace {

StepQuestion question() {
  StepQuestion q{
      {ModelLibrary(rehearse::testing::source_path("scenarios/models")).load("tiny_llama"), {}, {}}, {}, {}, 0.1};
  q.workload.training.global_batch = 64;
  q.workload.training.sequence_length = 32;
  return q;
}

}  // namespace

TEST_CASE("axes multiply to the GPUs, and batches divide and stay near the one asked for") {
  for (const int devices : {1, 8, 24, 40, 56}) {
    const StepQuestion q = question();
    const auto trials = step_trials(q, devices, std::min(8, devices));
    INFO(devices);
    CHECK(!trials.empty());
    for (const StepTrial& t : trials) {
      CHECK(t.strategy.tp * t.strategy.cp * t.strategy.pp * t.strategy.dp == devices);
      CHECK(t.global_batch % (t.strategy.dp * t.strategy.microbatch) == 0);
      CHECK(std::abs(static_cast<double>(t.global_batch) - 64) <= 6.4);
    }
  }
}

TEST_CASE("without freedom the batch is the one asked for") {
  StepQuestion q = question();
  q.batch_tolerance = 0;
  for (const StepTrial& t : step_trials(q, 16, 8)) CHECK(t.global_batch == 64);
  CHECK(step_trials(q, 7 * 8 * 13, 8).empty());
}

TEST_CASE("what the plan states is kept") {
  StepQuestion q = question();
  q.own.tp = 2;
  q.own.recompute = Recompute::full;
  q.fixed = {"tp", "recompute"};
  const auto trials = step_trials(q, 16, 8);
  CHECK(!trials.empty());
  for (const StepTrial& t : trials) {
    CHECK(t.strategy.tp == 2);
    CHECK(t.strategy.recompute == Recompute::full);
  }
}

TEST_CASE("long sequences may be divided, short ones are not") {
  StepQuestion q = question();
  const auto widest = [&q] {
    int out = 0;
    for (const StepTrial& t : step_trials(q, 16, 8)) out = std::max(out, t.strategy.cp);
    return out;
  };
  CHECK(widest() == 1);
  q.workload.training.sequence_length = 32768;
  CHECK(widest() == 8);
  q.own.cp = 2;
  q.fixed = {"cp"};
  for (const StepTrial& t : step_trials(q, 16, 8)) CHECK(t.strategy.cp == 2);
}

TEST_CASE("every registered schedule is tried, and none of them twice") {
  StepQuestion q = question();
  q.workload.network = ModelLibrary(rehearse::testing::source_path("scenarios/models")).load("gpt2_xl");
  std::map<std::string, TrialKind> kinds;
  for (const TrialKind kind : {TrialKind::usual, TrialKind::schedules})
    for (const StepTrial& t : step_trials(q, 8, 8, kind)) {
      CHECK(kinds.emplace(t.strategy.schedule, kind).first->second == kind);
      CHECK(t.strategy.offload == Offload::none);
    }
  for (const std::string& name : schedules().names()) {
    INFO(name);
    CHECK(kinds.contains(name));
  }
}

TEST_CASE("what is moved to the host is a kind of its own, unless the plan states it") {
  StepQuestion q = question();
  for (const StepTrial& t : step_trials(q, 8, 8, TrialKind::moved)) CHECK(t.strategy.offload != Offload::none);
  q.own.offload = Offload::optimizer;
  q.fixed = {"offload"};
  CHECK(step_trials(q, 8, 8, TrialKind::moved).empty());
  for (const StepTrial& t : step_trials(q, 8, 8)) CHECK(t.strategy.offload == Offload::optimizer);
}

TEST_CASE("every trial has a label of its own") {
  std::vector<std::string> labels;
  for (const TrialKind kind : {TrialKind::usual, TrialKind::moved, TrialKind::schedules})
    for (const StepTrial& t : step_trials(question(), 16, 8, kind)) labels.push_back(plan_label(t.strategy));
  std::sort(labels.begin(), labels.end());
  CHECK(std::adjacent_find(labels.begin(), labels.end()) == labels.end());
}

TEST_CASE("most trials of a small model are lowered") {
  const StepQuestion q = question();
  int good = 0, all = 0;
  for (const StepTrial& t : step_trials(q, 8, 8)) {
    Workload w = q.workload;
    w.training.global_batch = t.global_batch;
    ++all;
    try {
      (void)lower(w, t.strategy, 8);
      ++good;
    } catch (const Error&) {}
  }
  CHECK(good > all / 2);
}

TEST_CASE("a checkpoint holds weights and optimizer state of the whole model") {
  StepQuestion q = question();
  q.workload.training.precision = Precision::bf16_mixed;
  q.workload.training.optimizer = Optimizer::adam;
  const double parameters = static_cast<double>(q.workload.network.parameter_count());
  // bf16 weights, fp32 copy and two fp32 moments: 14 bytes a parameter.
  CHECK(checkpoint_bytes(q.workload).value() == Approx(14 * parameters).epsilon(0.02));
}
