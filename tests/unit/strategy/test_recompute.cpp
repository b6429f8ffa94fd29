// Activation memory is that of Korthikanti et al. 2022 (tables 1 and 2); modules and groups of layers drop and run
// again what they say.

#include "core/config/settings/choices.hpp"
#include "core/config/settings/strategy.hpp"
#include "core/program/body.hpp"
#include "core/strategy/bodies/recompute.hpp"
#include "core/strategy/workload.hpp"
#include "tests/support/catch.hpp"
#include "tests/unit/strategy/saved.hpp"

using namespace rehearse;
using namespace rehearse::test;

namespace {

constexpr double kS = 64, kB = 2, kH = 128, kA = 4;

/// GPT with an MLP of 4h, dropout everywhere, two-byte activations.
Job recomputed_gpt(Recompute recompute, std::vector<std::string> modules = {"core_attn"}) {
  Job job(changed("tiny_gpt2", {{"n_layer", 8},
                                {"n_embd", kH},
                                {"n_head", kA},
                                {"n_inner", 4 * kH},
                                {"n_positions", kS},
                                {"embd_pdrop", 0.1},
                                {"attn_pdrop", 0.1},
                                {"resid_pdrop", 0.1}}),
          static_cast<std::int64_t>(kS));
  job.workload.kernels.attention = AttentionKernel::unfused;
  job.strategy.microbatch = static_cast<std::int64_t>(kB);
  job.strategy.recompute = recompute;
  job.strategy.recompute_modules = std::move(modules);
  return job;
}

double per_sbh(const Job& job) { return kept_bytes(job.lower(), "layer.forward") / (kS * kB * kH); }

/// Tasks of one step by phase.
int tasks(const Program& p, Phase phase, const std::string& name) {
  int n = 0;
  for_each_task(p, 0, [&](const Entry&, const Body&, const Task& t) { n += t.phase == phase && t.name == name; });
  return n;
}

}  // namespace

TEST_CASE(
    "a transformer layer keeps sbh (34 + 5as/h) bytes; without the attention core 34 sbh; with full recomputation 2 "
    "sbh") {
  const double core = 5 * kA * kS / kH;
  CHECK(per_sbh(recomputed_gpt(Recompute::none)) == Approx(34 + core));
  CHECK(per_sbh(recomputed_gpt(Recompute::selective)) == Approx(34));
  CHECK(per_sbh(recomputed_gpt(Recompute::full)) == Approx(2));
}

TEST_CASE("tensor parallelism leaves 10 + 24/t, sequence parallelism divides all by t") {
  const double core = 5 * kA * kS / kH;
  for (const int t : {2, 4}) {
    Job job = recomputed_gpt(Recompute::none);
    job.strategy.tp = t;
    CHECK(per_sbh(job) == Approx(10 + 24.0 / t + core / t));
    job.strategy.sequence_parallel = true;
    CHECK(per_sbh(job) == Approx((34 + core) / t));
    job.strategy.recompute = Recompute::selective;
    CHECK(per_sbh(job) == Approx(34.0 / t));
  }
}

TEST_CASE("a module's results go, what it reads from outside stays") {
  // Norms: their results, 2 sbh each, are made again from the inputs that they keep anyway.
  CHECK(per_sbh(recomputed_gpt(Recompute::selective, {"core_attn", "layernorm"})) == Approx(34 - 4));
  // The MLP keeps its input alone: gelu's input and output, 8 sbh each, go.
  CHECK(per_sbh(recomputed_gpt(Recompute::selective, {"core_attn", "mlp"})) == Approx(34 - 16));
  CHECK(per_sbh(recomputed_gpt(Recompute::selective, {"core_attn", "layernorm", "mlp"})) == Approx(34 - 16 - 4));
  // Without core_attn attention keeps its core.
  CHECK(per_sbh(recomputed_gpt(Recompute::selective, {"mlp"})) == Approx(34 - 16 + 5 * kA * kS / kH));
}

TEST_CASE("modules run once again in each backward, and only they") {
  const Program p = recomputed_gpt(Recompute::selective, {"layernorm", "mlp"}).lower();
  const int calls = 8 * p.microbatches;
  for (const char* name : {"ln1", "ln2", "mlp.fc1", "mlp.gelu", "mlp.fc2"})
    CHECK(tasks(p, Phase::recompute, name) == calls);
  CHECK(tasks(p, Phase::recompute, "attention.qkv") == 0);
  CHECK(tasks(p, Phase::forward, "mlp.fc1") == calls);
}

TEST_CASE("PyTorch's checkpoints stop when all that backward reads is made again") {
  Job job(changed("tiny_llama", {{"merged_projections", false}}));
  const auto again = [&](std::vector<std::string> modules, const char* name) {
    job.strategy.recompute = Recompute::selective;
    job.strategy.recompute_modules = std::move(modules);
    const Program p = job.lower();
    validate(p);
    return tasks(p, Phase::recompute, name);
  };
  CHECK(again({"layer"}, "mlp.up") > 0);
  CHECK(again({"layer"}, "attention.core") > 0);
  // Nobody reads the layer's output but the next layer, which has had it.
  CHECK(again({"layer"}, "mlp.down") == 0);
  CHECK(again({"layer"}, "mlp.add") == 0);
  CHECK(again({"all_but_attention"}, "attention.core") == 0);
  CHECK(again({"all_but_attention"}, "attention.q") > 0);
  // Of q, k, v, projection, gate, up and down the second, fourth and sixth.
  for (const char* made_again : {"attention.k", "attention.proj", "mlp.up"})
    CHECK(again({"every_second_product"}, made_again) > 0);
  for (const char* kept : {"attention.q", "attention.v", "mlp.gate", "mlp.down", "attention.core"})
    CHECK(again({"every_second_product"}, kept) == 0);
}

TEST_CASE("a checkpoint of a layer keeps its input, one by operator more") {
  Job job(changed("tiny_llama", {{"merged_projections", false}}));
  const auto kept = [&](std::vector<std::string> modules) {
    job.strategy.recompute = modules.empty() ? Recompute::none : Recompute::selective;
    job.strategy.recompute_modules = std::move(modules);
    return kept_bytes(job.lower(), "layer.forward");
  };
  const double layer = kept({"layer"});
  job.strategy.recompute = Recompute::full;
  CHECK(layer == Approx(kept_bytes(job.lower(), "layer.forward")));
  CHECK(kept({"all_but_attention"}) > layer);
  CHECK(kept({"every_second_product"}) > kept({"all_but_attention"}));
  CHECK(kept({}) > kept({"every_second_product"}));
}

TEST_CASE("experts' modules") {
  Job job(changed("mixtral_8x7b", {{"num_hidden_layers", 2},
                                   {"hidden_size", 64},
                                   {"num_attention_heads", 4},
                                   {"num_key_value_heads", 2},
                                   {"intermediate_size", 96},
                                   {"vocab_size", 128}}));
  const auto kept = [&](std::vector<std::string> modules) {
    job.strategy.recompute = modules.empty() ? Recompute::none : Recompute::selective;
    job.strategy.recompute_modules = std::move(modules);
    return kept_bytes(job.lower(), "layer.forward");
  };
  const double all = kept({});
  CHECK(kept({"moe_act"}) < all);  // The rows that enter the second product.
  CHECK(kept({"moe"}) < kept({"moe_act"}));
}

TEST_CASE("blocks: the first layers of each chunk run again, the others keep all") {
  Job job = recomputed_gpt(Recompute::full);
  job.strategy.recompute_method = RecomputeMethod::block;
  const auto again = [&](int layers) {
    job.strategy.recompute_layers = layers;
    const Program p = job.lower();
    validate(p);
    return tasks(p, Phase::recompute, "mlp.fc1") / p.microbatches;
  };
  CHECK(again(3) == 3);
  CHECK(again(8) == 8);
  CHECK(again(20) == 8);
  job.strategy.pp = 2;
  job.strategy.microbatch = 1;
  CHECK(again(3) == 3);  // Of this stage's four.
  // More layers run again, less is kept.
  job.strategy.pp = 1;
  const auto peak = [&](int layers) {
    job.strategy.recompute_layers = layers;
    return peak_of_stage(job.lower(), 0);
  };
  CHECK(peak(8) < peak(4));
  CHECK(peak(4) < peak(1));
}

TEST_CASE("groups: one input for N layers, whose activations all live in backward") {
  Job job = recomputed_gpt(Recompute::full);
  const auto peak = [&](int layers) {
    job.strategy.recompute_layers = layers;
    const Program p = job.lower();
    validate(p);
    CHECK(tasks(p, Phase::recompute, "mlp.fc1") == 8 * p.microbatches);
    return peak_of_stage(p, 0).value();
  };
  // From groups of N to 2N: half as many inputs of 2 sbh, N layers' activations more.
  const double sbh = kS * kB * kH, layer = sbh * (34 + 5 * kA * kS / kH);
  CHECK(peak(4) - peak(2) == Approx(2 * layer - (4 - 2) * 2 * sbh).epsilon(0.1));
  job.strategy.fsdp.enabled = true;
  job.strategy.dp = job.strategy.dp_shard = 2;
  CHECK_THROWS_AS(job.lower(), Error);
}

TEST_CASE("modules know their ops") {
  const Network net = shipped("deepseek_v3");
  for (const BlockSpec& b : net.blocks) {
    if (!b.is_layer()) continue;
    const auto of = modules_of(b, {"mla_up_proj"});
    for (std::size_t o = 0; o < b.ops.size(); ++o) {
      const std::string& name = b.ops[o].name;
      const bool up = name == "attention.q_up" || name == "attention.kv_up" || name == "attention.q_norm" ||
                      name == "attention.kv_norm" || name == "attention.k" || name == "attention.rope_q" ||
                      name == "attention.rope_k";
      CHECK((of[o] == 0) == up);
    }
  }
}
