#include <algorithm>

#include "core/model/library.hpp"
#include "core/plan/step_search.hpp"
#include "core/strategy/lower.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/source_path.hpp"

using namespace rehearse;

namespace {

StepQuestion question() {
  StepQuestion q{{ModelLibrary(rehearse::testing::source_path("scenarios/models")).load("tiny_llama"), {}, {}}, {}, {}, 0.1};
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
      CHECK(t.strategy.tp * t.strategy.pp * t.strategy.dp == devices);
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

TEST_CASE("every trial has a label of its own") {
  std::vector<std::string> labels;
  for (const StepTrial& t : step_trials(question(), 16, 8)) labels.push_back(step_label(t.strategy));
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
    } catch (const Error&) {
    }
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
