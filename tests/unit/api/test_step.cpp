// Estimate, simulate and memory through the facade.

#include "core/api/session/session.hpp"
#include "tests/support/catch.hpp"
#include "tests/unit/api/support.hpp"

using namespace rehearse;
using testing::toy;
using testing::toys;

namespace {

SimulateOptions on_toys(std::vector<std::string> what_if = {}) {
  SimulateOptions out;
  out.data = toys();
  out.backend = "analytic";
  out.what_if = std::move(what_if);
  return out;
}

/// The shipped model on toy machines of one small GPU each: too large for them.
Scenario too_large() { return toy("llama3_8b", {"strategy.tp=1", "strategy.recompute=none", "strategy.zero_stage=0"}); }

template <class Do>
Error error_of(Do action) {
  try {
    (void)action();
  } catch (const Error& e) {
    return e;
  }
  FAIL("nothing was thrown");
  return {ErrorKind::usage, ""};
}

}  // namespace

TEST_CASE("a file, its text and a changed struct are one scenario", "[api]") {
  const Scenario file = toy("pipeline_1f1b", {"training.global_batch=32"});
  Scenario changed = toy("pipeline_1f1b");
  changed.training.global_batch = 32;
  const Scenario overridden = with_overrides(toy("pipeline_1f1b"), {"training.global_batch=32"});
  const Scenario text = parse_scenario(resolved_json(changed), "made up");
  CHECK(overridden == file);
  const std::string answer = to_json(estimate(file, {.data = toys()}));
  for (const Scenario& other : {changed, overridden, text}) CHECK(to_json(estimate(other, {.data = toys()})) == answer);
}

TEST_CASE("a session gives what its scenario gives", "[api]") {
  const Scenario scenario = toy("pipeline_1f1b");
  const Session session = open_session(scenario, {.data = toys()});
  const Program program = session.lowered();
  CHECK(to_json(simulate(session, program, on_toys())) == to_json(simulate(scenario, on_toys())));
  CHECK(to_json(estimate(session, program)) == to_json(estimate(scenario, {.data = toys()})));
  CHECK(to_json(memory(session, program)) == to_json(memory(scenario, {.data = toys()})));
}

// With 2 nodes of 3 GPUs ranks 0 to 2 exchange tokens inside a node, but rank 2 computes with rank 3 of the other. With
// 3 nodes of 8 the groups of ranks 9 to 11 lie as those of ranks 0 to 2 do, but rank 9 computes with rank 8, which
// exchanges tokens with another node.
TEST_CASE("groups that lie across nodes beside groups that don't keep nobody waiting", "[api]") {
  const char* const text = R"({
    "schema": "rehearse/scenario/v1",
    "model": {"model_type": "mixtral", "hidden_size": 256, "num_hidden_layers": 2, "num_attention_heads": 4,
              "num_key_value_heads": 4, "intermediate_size": 512, "num_local_experts": 6, "num_experts_per_tok": 2,
              "vocab_size": 1024, "max_position_embeddings": 512, "hidden_act": "silu", "tie_word_embeddings": false},
    "cluster": {"machine": "dgx_h100", "nodes": 2, "network": "rail_ndr"},
    "training": {"global_batch": 24, "sequence_length": 128, "precision": "bf16_mixed", "optimizer": "adamw"},
    "strategy": {"ep": 3}})";
  const std::vector<std::string> two_nodes{"cluster.gpus_per_node=3"}, three_nodes{"cluster.nodes=3"};
  for (const std::vector<std::string>& cluster : {two_nodes, three_nodes}) {
    for (const std::vector<std::string>& pairs :
         {std::vector<std::string>{"strategy.tp=2", "strategy.sequence_parallel=true"},
          std::vector<std::string>{"strategy.cp=2", "strategy.fsdp.enabled=true"}}) {
      std::vector<std::string> overrides = cluster;
      overrides.insert(overrides.end(), pairs.begin(), pairs.end());
      CAPTURE(overrides);
      const Scenario scenario = parse_scenario(text, "made up", overrides);
      const Seconds closed = estimate(scenario).metrics.step_time;
      CHECK(closed > Seconds{0});
      CHECK(simulate(scenario, {.backend = "analytic"}).metrics.step_time / closed == Approx(1).epsilon(0.01));
    }
  }
}

TEST_CASE("the closed form and the player agree without contention", "[api]") {
  const Scenario scenario = toy("pipeline_1f1b");
  const StepReport played = simulate(scenario, on_toys());
  const StepReport closed = estimate(scenario, {.data = toys()});
  REQUIRE(played.memory.fits());
  CHECK(closed.metrics.step_time / played.metrics.step_time == Approx(1).epsilon(0.02));
  CHECK(played.metrics.mfu * (played.metrics.step_time / closed.metrics.step_time) == Approx(closed.metrics.mfu));
}

TEST_CASE("the default back end is the most exact one that is linked", "[api]") {
  const std::vector<std::string> known = backends().names();
  const bool simgrid = std::find(known.begin(), known.end(), "simgrid") != known.end();
  CHECK(default_backend() == (simgrid ? "simgrid" : "analytic"));
  SimulateOptions options = on_toys();
  options.backend.clear();
  CHECK(simulate(toy("pipeline_1f1b"), options).backend == default_backend());
  options.backend = "abacus";
  const Error unknown = error_of([&] { return simulate(toy("pipeline_1f1b"), options); });
  CHECK(unknown.kind == ErrorKind::usage);
  CHECK(unknown.where == "backend");
}

TEST_CASE("a straggler slows a step by no more than its own factor", "[api]") {
  const Scenario scenario = toy("pipeline_1f1b");
  const Seconds even = simulate(scenario, on_toys()).metrics.step_time;
  const StepReport slow = simulate(scenario, on_toys({"straggler=0:1.5"}));
  CHECK(slow.metrics.step_time > even);
  CHECK(slow.metrics.step_time <= even * 1.5 * (1 + 1e-9));
  CHECK(slow.folding.find("what if kernels of rank 0") != std::string::npos);
  const Error unknown = error_of([&] { return simulate(scenario, on_toys({"straggler=12345:2"})); });
  CHECK(unknown.kind == ErrorKind::usage);
  CHECK(unknown.where == "straggler=12345:2");
}

TEST_CASE("a what-if that changes nothing gives the same bytes as none", "[api]") {
  const Scenario scenario = toy("pipeline_1f1b");
  const auto with = [&](const std::vector<std::string>& changes) {
    return to_json(simulate(scenario, on_toys(changes)));
  };
  const std::string none = with({});
  using Changes = std::vector<std::string>;
  for (const Changes& changes :
       {Changes{"link=*:1"}, Changes{"link=node0*:1.0"}, Changes{"straggler=0:1"}, Changes{"link=*:2", "link=*:0.5"},
        Changes{"straggler=1:1.5", "straggler=1:1"}, Changes{"link=*:1", "straggler=0:1", "link=*:1"}}) {
    INFO(changes.front());
    CHECK(with(changes) == none);
  }
  CHECK(with({"link=*:0.5"}) != none);
  CHECK(with({"straggler=0:1.5"}) != none);
  CHECK(with({"link=*:0.5", "link=node0*:2"}) != none);
  // What is not there is refused, whatever the factor.
  CHECK(error_of([&] { return simulate(scenario, on_toys({"link=nowhere:1"})); }).kind == ErrorKind::usage);
}

TEST_CASE("a trace holds the ranks that were asked for", "[api]") {
  SimulateOptions options = on_toys();
  options.fold = false;
  options.pictured = 0;
  CHECK(simulate(toy("pipeline_1f1b"), options).trace->spans.empty());
  options.traced = {1};
  const StepReport one = simulate(toy("pipeline_1f1b"), options);
  REQUIRE_FALSE(one.trace->spans.empty());
  for (const Span& span : one.trace->spans) CHECK(span.rank == 1);
}

TEST_CASE("what does not fit has no times, and the suggestion makes it fit", "[api]") {
  const MemoryAnswer answer = memory(too_large(), {.data = toys()});
  REQUIRE_FALSE(answer.fits());
  REQUIRE(answer.memory.suggestion.has_value());
  CHECK(memory(with_overrides(too_large(), answer.memory.suggestion->changes), {.data = toys()}).fits());
  CHECK_FALSE(memory(too_large(), {.data = toys(), .suggest = false}).memory.suggestion.has_value());
  for (const StepReport& step : {estimate(too_large(), {.data = toys()}), simulate(too_large(), on_toys())}) {
    CHECK_FALSE(step.memory.fits());
    CHECK(step.metrics.step_time == Seconds{0});
    CHECK(step.trace == nullptr);
    CHECK(to_json(step) == to_json(answer));
  }
  SimulateOptions anyway = on_toys();
  anyway.despite_memory = true;
  CHECK(simulate(too_large(), anyway).metrics.step_time > Seconds{0});
  const StepReport estimated = estimate(too_large(), {.data = toys(), .suggest = true, .despite_memory = true});
  CHECK_FALSE(estimated.memory.fits());
  CHECK(estimated.metrics.step_time > Seconds{0});
  CHECK(to_json(estimated).find("\"fits\": false") != std::string::npos);
}
