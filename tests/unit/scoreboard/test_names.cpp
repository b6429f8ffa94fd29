// What rows call models, fields, sharding, schedules and kernels.

#include "tests/unit/scoreboard/rows.hpp"

using namespace rehearse;
using namespace rehearse::test;

namespace {

std::string named(std::string_view text) {
  static const ModelLibrary library(kRoot + "/scenarios/models");
  static const KnownModels models(library);
  const KnownModel* const found = models.find(text);
  return found == nullptr ? "none" : found->name;
}

MappedRow changed(const nlohmann::json& config, const std::vector<std::string>& without = {}) {
  nlohmann::json row = row_json();
  row["config"].update(config);
  for (const std::string& field : without) row["config"].erase(field);
  return mapped(row);
}

StrategySettings strategy(const nlohmann::json& config, const std::vector<std::string>& without = {}) {
  const MappedRow m = changed(config, without);
  INFO(config.dump() << ": " << m.skipped << " " << m.detail);
  REQUIRE(m.job);
  return m.job->scenario.strategy;
}

}  // namespace

TEST_CASE("a shipped model is known by any spelling of its name") {
  for (const char* name : {"Llama-3.1-8B", "llama3.1_8b", "LLAMA3.1 8B", "meta-llama/Llama-3.1-8B", "Llama-3.1-8B (bf16)"}) CHECK(named(name) == "llama3_1_8b");
  CHECK(named("Llama 2 7B") == "llama2_7b");
  CHECK(named("Llama-2-70b-hf") == "llama2_70b");
  CHECK(named("LLAMA3.1_405B") == "llama3_405b");
  CHECK(named("DeepSeekV3 (tokendrop)") == "deepseek_v3");
  CHECK(named("DeepSeekV3 (w/o MTP)") == "deepseek_v3_without_mtp");
  CHECK(named("Qwen3_235B_a22B") == "qwen3_235b_a22b");
  CHECK(named("Qwen3-235B") == "qwen3_235b_a22b");
  CHECK(named("GPT-2 XL") == "gpt2_xl");
  CHECK(named("Mixtral 8x7B") == "mixtral_8x7b");
}

TEST_CASE("a name that states another size means no shipped model") {
  CHECK(named("GPT-2 1.5B") == "none");
  CHECK(named("GPT-3 13B") == "none");
  CHECK(named("GPT 22B") == "none");
  CHECK(named("Llama 3 8.5B") == "none");
  CHECK(named("MLPerf BERT") == "none");
  CHECK(named("7B") == "none");
  CHECK(named("") == "none");
}

TEST_CASE("sizes tell a GPT from a Llama where nobody names the family") {
  const auto type = [](const nlohmann::json& config) {
    const MappedRow m = changed(config, {"model_family"});
    return m.job ? nlohmann::json::parse(m.job->scenario.model.inline_json).at("model_type").get<std::string>() : m.skipped;
  };
  CHECK(type({{"model", "ours"}, {"ffn", 16384}, {"kv_heads", 32}}) == "gpt2");
  CHECK(type({{"model", "ours"}, {"ffn", 14336}, {"kv_heads", 32}}) == "llama");
  CHECK(type({{"model", "ours"}, {"ffn", 16384}, {"kv_heads", 8}}) == "llama");
  CHECK(type({{"model", "GPT-NeoX-20B"}, {"ffn", 14336}}) == "gpt_neox");
  CHECK(type({{"model", "a mamba"}}) == "model unknown");
}

TEST_CASE("a shipped model trains on longer sequences than it was made for, where positions have no weights") {
  const MappedRow m = changed({{"model", "Llama 2 7B"}, {"seq_len", 32768}}, {"hidden", "model_family"});
  REQUIRE(m.job);
  CHECK(nlohmann::json::parse(m.job->scenario.model.inline_json).at("max_position_embeddings") == 32768);
  CHECK(m.job->layers == 32);
}

TEST_CASE("fields have other names, and numbers may be texts") {
  const StrategySettings s = strategy({{"tensor_parallel", 2}, {"data_parallelism", "4"}}, {"tp", "dp"});
  CHECK(s.tp == 2);
  CHECK(s.dp == 4);
  CHECK(changed({{"sequence_length", 4096}}, {"seq_len"}).job->scenario.training.sequence_length == 4096);
  CHECK(changed({{"machine", "gcp_a3_highgpu_8g"}}).job->scenario.cluster.parts.front().machine == "gcp_a3_highgpu_8g");
  CHECK(changed({{"machine", "a box"}}).skipped == "machine unknown");
  CHECK(changed({{"nodes", 1}, {"gpus_per_node", 8}}, {"gpus"}).job->gpus == 8);
  CHECK(changed({{"global_batch_tokens", 16 * 8192}}, {"global_batch"}).job->scenario.training.global_batch == 16);
}

TEST_CASE("sharding, recomputation and schedules are what they say, or the row is skipped") {
  const nlohmann::json alone{{"tp", 1}, {"dp", 8}, {"sequence_parallel", false}};
  const auto sharded = [&](const nlohmann::json& said) {
    nlohmann::json config = alone;
    config.update(said);
    return strategy(config, said.contains("zero_stage") ? std::vector<std::string>{} : std::vector<std::string>{"zero_stage"});
  };
  CHECK(sharded({{"zero_stage", "FSDP"}}).fsdp.enabled);
  CHECK(sharded({{"zero_stage", "ZeRO-3"}}).fsdp.enabled);
  CHECK(sharded({{"parallelism", "FSDP"}}).fsdp.enabled);
  CHECK(sharded({{"fsdp", true}}).fsdp.enabled);
  CHECK(sharded({{"sharding", "HSDP"}, {"gpus", 16}, {"dp", 16}}).dp_shard == 8);
  CHECK(sharded({{"sharding", "HSDP"}, {"gpus", 16}, {"dp", 16}}).dp_replicate == 2);
  CHECK(sharded({{"sharding", "FSDP"}, {"dp_shard", 4}}).dp_replicate == 2);
  CHECK_FALSE(sharded({{"zero_stage", "DDP"}}).fsdp.enabled);
  CHECK(sharded({{"zero_stage", "ZeRO 1"}}).zero_stage == 1);
  CHECK(changed({{"zero_stage", "some"}}).skipped == "malformed row");
  CHECK(strategy({{"recompute", true}}).recompute == Recompute::full);
  CHECK(strategy({{"recompute", false}}).recompute == Recompute::none);
  CHECK(changed({{"recompute", "a bit"}}).skipped == "malformed row");
  const nlohmann::json piped{{"pp", 2}, {"tp", 1}, {"dp", 4}, {"sequence_parallel", false}};
  const auto schedule = [&](const char* words) {
    nlohmann::json config = piped;
    config["schedule"] = words;
    const MappedRow m = changed(config);
    return m.job ? m.job->scenario.strategy.schedule : m.skipped;
  };
  CHECK(schedule("ZB-H1") == "zb_h1");
  CHECK(schedule("DualPipe") == "dualpipe");
  CHECK(schedule("1F1B (PipeDream-flush)") == "1f1b");
  CHECK(schedule("a zero-bubble schedule") == "schedule unknown");
}

TEST_CASE("layers that do not divide among chunks do with the ends counted as layers") {
  const auto layers = [](int count, int pp, int vpp) {
    return strategy({{"layers", count}, {"pp", pp}, {"tp", 1}, {"dp", 8 / pp}, {"vpp", vpp}, {"sequence_parallel", false}}).layers_per_stage;
  };
  CHECK(layers(30, 4, 4) == std::vector<std::int64_t>{1, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 1});
  CHECK(layers(31, 4, 4).front() == 2);
  CHECK(layers(31, 4, 4).back() == 1);
  CHECK(layers(32, 4, 4).empty());
  CHECK(layers(29, 4, 4).empty());
  CHECK(layers(30, 4, 1).empty());
}

TEST_CASE("attention is known by its usual names, and falls back on what a generation has") {
  const auto flash = [](const char* words) { return changed({{"attention", words}}).job->scenario.kernels.flash; };
  for (const char* words : {"flash2", "FlashAttention-2", "flash_attn 2", "FA2", "flash attention v2"}) CHECK(flash(words) == FlashKernel::flash2);
  CHECK(flash("FlashAttention-3") == FlashKernel::flash3);
  CHECK(flash("cuDNN fused attention") == FlashKernel::cudnn);
  CHECK(changed({{"attention", "eager"}}).job->scenario.kernels.attention == AttentionKernel::unfused);
  for (const char* gpu : {"L40S", "RTX 4090", "B200", "A100-SXM4-80GB", "T4"}) {
    const MappedRow m = changed({{"gpu_type", gpu}, {"attention", "flash2"}, {"tp", 1}, {"dp", 8}, {"sequence_parallel", false}, {"gpus", 8}});
    INFO(gpu << " " << m.skipped);
    REQUIRE(m.job);
    CHECK(RowPredictor(paths(), "estimate").predict(*m.job).step_time.value() > 0);
  }
}
