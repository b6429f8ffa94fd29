// lower() as a whole: work, shards, refusals.

#include <algorithm>
#include <map>

#include "core/base/index.hpp"
#include "core/config/settings/strategy.hpp"
#include "core/program/body.hpp"
#include "core/program/flops.hpp"
#include "core/strategy/execution_gaps.hpp"
#include "core/strategy/workload.hpp"
#include "tests/support/catch.hpp"
#include "tests/unit/program/lowered.hpp"

using namespace rehearse;
using namespace rehearse::test;

namespace {

Job gpt3(Recompute recompute) {
  Job job(shipped("gpt3_175b"), 2048);
  job.workload.kernels.attention = AttentionKernel::unfused;
  job.strategy.tp = 8;
  job.strategy.pp = 8;
  job.strategy.virtual_stages = 3;
  job.strategy.schedule = "interleaved_1f1b";
  job.strategy.dp = 2;
  job.strategy.recompute = recompute;
  job.microbatches = 16;
  return job;
}

Error refusal_lower(const Job& job, int ranks) {
  Workload w = job.workload;
  if (w.training.global_batch == 0)
    w.training.global_batch = job.microbatches * job.strategy.microbatch * job.strategy.dp;
  try {
    static_cast<void>(lower(w, job.strategy, ranks));
  } catch (const Error& e) {
    return e;
  }
  FAIL("accepted");
  return {ErrorKind::usage, ""};
}

}  // namespace

TEST_CASE("GPT-3 executes Megatron's FLOPs") {
  const double B = 32, s = 2048, l = 96, h = 12288, V = 51200;
  const Program none = gpt3(Recompute::none).lower();
  CHECK(executed_matmul_flops(none).value() == none.model_flops_per_step);
  // Narayanan et al. 2021, eq. 3: forward, backward and the recomputed forward of the layers.
  const Program full = gpt3(Recompute::full).lower();
  CHECK(executed_matmul_flops(full).value() ==
        Approx(96 * B * s * l * h * h * (1 + s / (6 * h) + V / (16 * l * h))).epsilon(1e-12));
  // The layers' part is 4/3 of the model's.
  const double head = 6 * B * s * h * V;
  CHECK((executed_matmul_flops(full).value() - head) / (full.model_flops_per_step - head) == Approx(4.0 / 3));
  // Selective: scores and context once more, 4 B s^2 h per layer (Korthikanti et al. 2022, sec. 5).
  const Program selective = gpt3(Recompute::selective).lower();
  CHECK(executed_matmul_flops(selective).value() - selective.model_flops_per_step ==
        Approx(4 * B * s * s * h * l).epsilon(1e-9));
}

TEST_CASE("GPT-3 as trained is a valid Program") {
  for (const auto recompute : {Recompute::none, Recompute::selective, Recompute::full})
    for (const int zero : {0, 1}) {
      Job job = gpt3(recompute);
      job.strategy.zero_stage = zero;
      job.strategy.sequence_parallel = zero == 1;
      CHECK_NOTHROW(validate(job.lower()));
    }
}

TEST_CASE("a vocabulary that tp does not divide is padded, and padding is work of the hardware alone") {
  Job job(shipped("gpt2"), 1024);
  job.strategy.tp = 4;  // 50257 rows
  const Program p = job.lower();
  CHECK(executed_matmul_flops(p).value() > p.model_flops_per_step);
  CHECK(executed_matmul_flops(p).value() < p.model_flops_per_step * 50260 / 50257);
  double rows = 0;
  for (int rank = 0; rank < 4; ++rank)
    for (const Tensor& t : p.tensors)
      if (t.name == "embedding.word.weight") rows += static_cast<double>(p.local_extent(t, 0, p.mesh.context(rank)));
  CHECK(rows == 50260);
}

TEST_CASE("ranks are numbered by placement, fastest axis first") {
  Job job(tiny_gpt());
  job.strategy.tp = 2;
  job.strategy.dp = 2;
  job.strategy.pp = 2;
  const auto coord = [](const Program& p, int rank, Axis a) { return nth(p.mesh.context(rank).coord, a); };
  Program p = job.lower();
  CHECK(coord(p, 1, Axis::tp) == 1);
  CHECK(coord(p, 2, Axis::dp_replicate) == 1);
  CHECK(p.role_of_rank == std::vector<std::int32_t>{0, 0, 0, 0, 1, 1, 1, 1});
  job.strategy.placement = {"pp", "tp", "dp"};
  p = job.lower();
  CHECK(coord(p, 2, Axis::tp) == 1);
  CHECK(p.role_of_rank == std::vector<std::int32_t>{0, 1, 0, 1, 0, 1, 0, 1});
}

TEST_CASE("every stage holds equal layers, embedding and head at the ends") {
  Job job(tiny_gpt(8));
  job.strategy.pp = 2;
  job.strategy.virtual_stages = 2;
  job.strategy.schedule = "interleaved_1f1b";
  const Program p = job.lower();
  REQUIRE(p.chunks.size() == 4);
  const int first[] = {0, 3, 5, 7}, last[] = {3, 5, 7, 10};
  for (int c = 0; c < 4; ++c) {
    CHECK(nth(p.chunks, c).stage == c % 2);
    CHECK(nth(p.chunks, c).first_layer == first[c]);
    CHECK(nth(p.chunks, c).last_layer == last[c]);
  }
}

TEST_CASE("what cannot be lowered is refused with the equation") {
  Job job(tiny_gpt());
  job.strategy.dp = 2;
  job.strategy.tp = 2;
  CHECK(std::string(refusal_lower(job, 16).what()) == "dp(2) * tp(2) * pp(1) = 4 != 16 GPUs");
  job.workload.training.global_batch = 7;
  CHECK(std::string(refusal_lower(job, 4).what()) == "global_batch(7) % (microbatch(1) * dp(2)) = 1 != 0");
  job = Job(tiny_gpt());
  job.strategy.dp = 4;
  job.strategy.dp_replicate = 2;
  job.strategy.dp_shard = 3;
  CHECK(std::string(refusal_lower(job, 4).what()) == "dp_replicate(2) * dp_shard(3) = 6 != dp(4)");
  job = Job(tiny_gpt());
  job.strategy.tp = 3;
  const Error heads = refusal_lower(job, 3);
  CHECK(std::string(heads.what()) == "tp(3) does not divide num_attention_heads(4)");
  CHECK(heads.hint == "valid for this model: 1, 2, 4");
  job = Job(tiny_gpt());
  job.strategy.pp = 3;
  CHECK(std::string(refusal_lower(job, 3).what()) == "layers(4) do not divide by pp(3)");
  job = Job(tiny_gpt(), 4096);
  CHECK(std::string(refusal_lower(job, 1).what()) == "sequence_length(4096) is longer than the model's 128 positions");
}

TEST_CASE("every registered strategy says when it is in use") {
  Job job(tiny_gpt());
  const PlanRequest none{job.workload, job.strategy, 4};
  CHECK(active_strategies(none).empty());
  StrategySettings all = job.strategy;
  all.dp = all.dp_replicate = 2;
  all.tp = all.pp = 2;
  all.cp = 2;
  all.sequence_parallel = all.overlap.tp = true;
  all.zero_stage = 1;
  all.tile_h = 2;
  job.workload.network = shipped("tiny_mixtral");
  std::vector<std::string> used = active_strategies({job.workload, all, 4});
  all.zero_stage = 3;
  for (const std::string& name : active_strategies({job.workload, all, 4}))
    if (std::find(used.begin(), used.end(), name) == used.end()) used.push_back(name);
  all.schedule = "model_parallel";
  all.zero_stage = 0;
  all.fsdp.enabled = true;
  all.declared.set("strategy.offload_parameters", true);
  for (const std::string& name : active_strategies({job.workload, all, 4}))
    if (std::find(used.begin(), used.end(), name) == used.end()) used.push_back(name);
  for (const auto kind : {DataParallelism::funnel, DataParallelism::parameter_server}) {
    StrategySettings central = job.strategy;
    central.dp = central.dp_replicate = 2;
    central.data_parallel = kind;
    central.offload = Offload::all;
    for (const std::string& name : active_strategies({job.workload, central, 4}))
      if (std::find(used.begin(), used.end(), name) == used.end()) used.push_back(name);
  }
  for (const auto& entry : strategies().entries())
    for (const StrategyExample& example : entry.value->examples()) {
      StrategySettings own = job.strategy;
      own.*example.axis *= example.ranks;
      own.dp = own.dp_replicate * own.dp_shard;
      example.turn_on(own);
      CHECK(entry.value->active({job.workload, own, 4}));
      used.push_back(entry.name);
    }
  job.workload.network = tiny_gan();
  CHECK(active_strategies({job.workload, job.strategy, 4}) == std::vector<std::string>{"adversarial"});
  used.emplace_back("adversarial");
  std::sort(used.begin(), used.end());
  used.erase(std::unique(used.begin(), used.end()), used.end());
  CHECK(used == strategies().names());
}

TEST_CASE("a plan with a strategy that is simulated only is not executed") {
  Job job(tiny_gpt());
  CHECK_NOTHROW(check_executable({job.workload, job.strategy, 4}));
  for (const auto& entry : execution_gaps().entries()) CHECK(strategies().at(entry.name).name == entry.name);
  job.strategy.offload = Offload::optimizer;
  try {
    check_executable({job.workload, job.strategy, 4});
    FAIL_CHECK("accepted");
  } catch (const Error& e) {
    CHECK(e.kind == ErrorKind::unavailable);
    CHECK(std::string(e.what()) == "offload_optimizer is simulated only: " + execution_gap("offload_optimizer"));
  }
}

TEST_CASE("overlap decides who waits for whom") {
  Job job(tiny_gpt());
  job.strategy.pp = 2;
  const auto waits = [&](bool overlap) {
    job.strategy.overlap.pp = overlap;
    const Program p = job.lower();
    int sends = 0;
    for (const Entry& e : p.roles[0].step) sends += nth(p.bodies, e.body).name == "send.activations" && e.record >= 0;
    return sends;
  };
  CHECK(waits(true) == 0);                  // Nobody waits for a send.
  CHECK(waits(false) == job.microbatches);  // The next pass does.

  job.strategy.dp = 2;
  job.strategy.zero_stage = 1;
  const auto next_step = [&](bool overlap) {
    job.strategy.overlap.param_gather = overlap;
    const Program p = job.lower();
    return std::count_if(p.roles[0].waits.begin(), p.roles[0].waits.end(),
                         [](const Wait& w) { return w.steps_back == 1; });
  };
  CHECK(next_step(false) == 1);  // The step's first pass waits for all parameters,
  CHECK(next_step(true) == 3);   // or each block (embedding and two layers) for its own.
}

TEST_CASE("settings that would change nothing are refused, not ignored") {
  Job job(tiny_gpt());
  job.strategy.tp = 2;
  job.strategy.overlap.tp = true;  // Without sequence parallelism there is nothing to cut.
  CHECK(refusal_lower(job, 2).where == "strategy.overlap.tp");
}

TEST_CASE(
    "gradients that products don't add up are added by kernels, over several microbatches whose sum is not of shards") {
  const auto sums = [](int microbatches, auto change) {
    Job job(tiny_gpt());
    job.microbatches = microbatches;
    job.workload.kernels.fused_gradient_accumulation = false;
    change(job.strategy);
    const Program p = job.lower();
    std::set<std::string> pieces, added;
    for_each_task(p, 0, [&](const Entry&, const Body& body, const Task& task) {
      const auto tensor = [&](const Operand& o) -> const Tensor& {
        return nth(p.tensors, nth(body.formals, o.formal).like);
      };
      if (task.phase != Phase::weight_grad) return;
      for (const Operand& o : task.operands) {
        const std::string& name = tensor(o).name;
        if (!name.ends_with("grad_piece")) continue;
        CHECK(tensor(o).dtype == DType::bf16);
        (o.access == Access::write ? pieces : added).insert(name);
        // The sum is read and written by what adds a piece, and by nothing before it.
        const bool sums_up = std::any_of(task.operands.begin(), task.operands.end(),
                                         [](const Operand& s) { return s.access == Access::update; });
        CHECK(sums_up == (o.access == Access::read));
      }
    });
    CHECK(pieces == added);
    return added.size();
  };
  const auto nothing = [](StrategySettings&) {};
  CHECK(sums(4, nothing) == 5);  // Four products of a layer, whose body all layers share, and the head's.
  CHECK(sums(1, nothing) == 0);
  CHECK(sums(4, [](StrategySettings& s) { s.dp = 2; }) == 5);
  const auto fsdp = [](StrategySettings& s) {
    s.dp = s.dp_shard = 2;
    s.fsdp.enabled = true;
  };
  CHECK(sums(4, fsdp) == 0);  // Each microbatch's are reduced into shards ...
  CHECK(sums(4, [&](StrategySettings& s) {
          fsdp(s);
          s.grad_sync = GradientSync::last;
        }) == 5);  // ... or stay whole until the last.
}

TEST_CASE("activations that nobody fused move the bytes of their eager operators, and nothing else does") {
  const auto passes = [](Network network, bool fused) {
    Job job(std::move(network));
    job.workload.kernels.fused_activation = fused;
    const Program p = job.lower();
    std::map<ComputeOp, double> of_activation{{ComputeOp::activation, 0}, {ComputeOp::activation_grad, 0}};
    for_each_task(p, 0, [&](const Entry&, const Body&, const Task& task) {
      const auto* c = std::get_if<ComputeTask>(&task.kind);
      if (c == nullptr) return;
      if (const auto at = of_activation.find(c->op); at != of_activation.end())
        at->second = c->passes;
      else
        CHECK(c->passes == 1);
    });
    return std::pair{of_activation[ComputeOp::activation], of_activation[ComputeOp::activation_grad]};
  };
  const Network squared = changed("nemotron4_15b", {{"num_hidden_layers", 2},
                                                    {"hidden_size", 64},
                                                    {"num_attention_heads", 4},
                                                    {"num_key_value_heads", 2},
                                                    {"intermediate_size", 96},
                                                    {"vocab_size", 128},
                                                    {"max_position_embeddings", 64}});
  CHECK(passes(squared, true) == std::pair(1.0, 1.0));
  CHECK(passes(squared, false) == std::pair(2.0, 10.0 / 3));
  CHECK(passes(tiny_llama(), false) == std::pair(10.0 / 6, 1.8));
  CHECK(passes(tiny_gpt(), false) == std::pair(1.0, 1.0));  // GELU is one of PyTorch's own.
}
