// What rows call models, fields, sharding, schedules and kernels.

#include <algorithm>

#include "core/config/settings/strategy.hpp"
#include "core/strategy/workload.hpp"
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
  for (const char* name :
       {"Llama-3.1-8B", "llama3.1_8b", "LLAMA3.1 8B", "meta-llama/Llama-3.1-8B", "Llama-3.1-8B (bf16)"})
    CHECK(named(name) == "llama3_1_8b");
  CHECK(named("Llama 2 7B") == "llama2_7b");
  CHECK(named("Llama-2-70b-hf") == "llama2_70b");
  CHECK(named("LLAMA3.1_405B") == "llama3_405b");
  CHECK(named("DeepSeekV3 (tokendrop)") == "deepseek_v3");
  CHECK(named("DeepSeekV3 (w/o MTP)") == "deepseek_v3_without_mtp");
  CHECK(named("Qwen3_235B_a22B") == "qwen3_235b_a22b");
  CHECK(named("Qwen3-235B") == "qwen3_235b_a22b");
  CHECK(named("GPT-2 XL") == "gpt2_xl");
  for (const char* name : {"Nemotron_3_Nano", "NVIDIA-Nemotron-3-Nano-30B-A3B-BF16", "nvidia/Nemotron 3 Nano 30B"})
    CHECK(named(name) == "nemotron_3_nano_30b_a3b");
  for (const char* name : {"Nemotron_3_Super", "Nemotron-3-Super-120B-A12B"})
    CHECK(named(name) == "nemotron_3_super_120b_a12b");
  for (const char* name : {"Nemotron_3_Ultra", "NVIDIA-Nemotron-3-Ultra-550B-A55B-BF16"})
    CHECK(named(name) == "nemotron_3_ultra");
  CHECK(named("Nemotron-H-8B-Base-8K") == "nemotron_h_8b");
  CHECK(named("Mixtral 8x7B") == "mixtral_8x7b");
}

TEST_CASE("a name that states another size means no shipped model") {
  CHECK(named("GPT-2 1.5B") == "none");
  CHECK(named("GPT-3 13B") == "none");
  CHECK(named("GPT 22B") == "none");
  CHECK(named("Llama 3 8.5B") == "none");
  CHECK(named("GPT-2 1.5 billion") == "none");
  CHECK(named("GPT-3.5") == "none");
  CHECK(named("GPT-3 1T") == "none");
  CHECK(named("DeepSeek-V2-Lite") == "none");
  CHECK(named("Llama-3 18B") == "none");
  CHECK(named("Llama 3 8B, 4M tokens a step") == "llama3_8b");
  CHECK(named("MLPerf BERT") == "none");
  CHECK(named("Nemotron 3 Nano 4B") == "none");
  CHECK(named("Nemotron-H 56B") == "none");
  CHECK(named("a transformer with MLP") == "none");
  CHECK(named("7B") == "none");
  CHECK(named("") == "none");
}

TEST_CASE("sizes tell a GPT from a Llama where nobody names the family") {
  const auto type = [](const nlohmann::json& config) {
    const MappedRow m = changed(config, {"model_family"});
    return m.job ? nlohmann::json::parse(m.job->scenario.model.inline_json).at("model_type").get<std::string>()
                 : m.skipped;
  };
  CHECK(type({{"model", "ours"}, {"ffn", 16384}, {"kv_heads", 32}}) == "gpt2");
  CHECK(type({{"model", "ours"}, {"ffn", 14336}, {"kv_heads", 32}}) == "llama");
  CHECK(type({{"model", "ours"}, {"ffn", 16384}, {"kv_heads", 1}}) == "gpt2");
  CHECK(changed({{"model", "ours"}}, {"model_family"}).guessed == std::vector<std::string>{"model_family"});
  CHECK(type({{"model", "GPT-NeoX-20B"}, {"ffn", 14336}}) == "gpt_neox");
  CHECK(type({{"model", "GPT NeoX 20B"}}) == "gpt_neox");
  CHECK(type({{"model", "a mamba"}}) == "model unknown");
}

TEST_CASE("a shipped model trains on longer sequences than it was made for, where positions have no weights") {
  const MappedRow m = changed({{"model", "Llama 2 7B"}, {"seq_len", 32768}}, {"hidden", "model_family"});
  REQUIRE(m.job);
  CHECK(nlohmann::json::parse(m.job->scenario.model.inline_json).at("max_position_embeddings") == 32768);
  CHECK(m.job->layers == 32);
}

TEST_CASE("layers that a row states go before those of the model that it names") {
  const MappedRow m = changed({{"model", "Llama 3 8B"}, {"layers", 12}}, {"hidden", "model_family"});
  REQUIRE(m.job);
  CHECK(nlohmann::json::parse(m.job->scenario.model.inline_json).at("num_hidden_layers") == 12);
  CHECK(m.job->layers == 12);
}

TEST_CASE("a dropout that is no number skips its row") {
  const nlohmann::json gpt{{"model_family", "gpt2"}, {"ffn", 16384}};
  const auto with = [&](const nlohmann::json& dropout) {
    nlohmann::json config = gpt;
    config["dropout"] = dropout;
    const MappedRow m = changed(config);
    return m.job ? "predicted" : m.skipped;
  };
  CHECK(with("0.1") == "predicted");
  CHECK(with(true) == "malformed row");
  CHECK(with(1.0) == "malformed row");
}

TEST_CASE("fields have other names, and numbers may be texts") {
  const StrategySettings s = strategy({{"tensor_parallel", 2}, {"data_parallelism", "4"}}, {"tp", "dp"});
  CHECK(s.tp == 2);
  CHECK(s.dp == 4);
  CHECK(changed({{"sequence_length", 4096}}, {"seq_len"}).job->scenario.training.sequence_length == 4096);
  CHECK(changed({{"machine", "gcp_a3_highgpu_8g"}}).job->scenario.cluster.parts.front().machine == "gcp_a3_highgpu_8g");
  CHECK(changed({{"machine", "a box"}}).skipped == "machine unknown");
  CHECK(changed({{"machine", "dgx_a100_80gb"}}).skipped == "contradiction in the row");
  CHECK(changed({{"gpus", 16}, {"gpus_per_node", 4}, {"dp", 8}}).job->scenario.cluster.parts.front().nodes == 4);
  CHECK(changed({{"gpu_type", "H100 NVLink 80GB"}}).job->gpu == "h100_sxm5_80");
  CHECK(changed({{"gpu_type", "MI300X"}}).skipped == "GPU unknown");
  CHECK(changed({{"nodes", 1}, {"gpus_per_node", 8}}, {"gpus"}).job->gpus == 8);
  CHECK(changed({{"global_batch_tokens", 16 * 8192}}, {"global_batch"}).job->scenario.training.global_batch == 16);
}

TEST_CASE("names of GPUs that hold those of others are told apart") {
  struct Named {
    const char* said;
    const char* gpu;
  };
  for (const Named& n :
       {Named{"GH200 96GB", "gh200_96"}, Named{"NVIDIA H20-3e", "h20_96"}, Named{"H200 SXM", "h200_sxm"},
        Named{"H200 NVL", "h200_nvl"}, Named{"H100NVL", "h100_nvl_94"}, Named{"H100 NVL 94GB", "h100_nvl_94"},
        Named{"H200 with NVLink", "h200_sxm"}, Named{"L40S", "l40s"}, Named{"L40 48GB", "l40"}, Named{"A30", "a30"},
        Named{"B100", "b100_sxm"}, Named{"GB200", "gb200"}, Named{"V100S-PCIE-32GB", "v100s_pcie_32"},
        Named{"RTX 6000 Ada", "rtx_6000_ada"}, Named{"RTX A6000", "rtx_a6000"},
        Named{"RTX PRO 6000 Blackwell", "rtx_pro_6000_blackwell"}}) {
    CAPTURE(n.said);
    CHECK(changed({{"gpu_type", n.said}, {"gpus", 8}, {"tp", 1}, {"dp", 8}, {"sequence_parallel", false}},
                  {"gpus_per_node"})
              .job->gpu == n.gpu);
  }
  const auto machine = [](int per_node) {
    return changed({{"gpu_type", "GH200"}, {"gpus_per_node", per_node}}).job->scenario.cluster.parts.front().machine;
  };
  CHECK(machine(1) == "gh200_1gpu");
  CHECK(machine(4) == "gh200_4gpu");
}

TEST_CASE("a GPU whose name holds another's is not that one") {
  for (const char* name :
       {"RTX A4000", "NVIDIA RTX A1000", "RTX A2000 12GB", "T400", "Quadro P1000", "GA100", "L400"}) {
    CAPTURE(name);
    CHECK(changed({{"gpu_type", name}}).skipped == "GPU unknown");
  }
  for (const auto& [name, gpu] : {std::pair{"8xA100-SXM4-80GB", "a100_sxm4_80"},
                                  {"A100SXM 40G", "a100_sxm4_40"},
                                  {"A100 SXM 80GB (400W)", "a100_sxm4_80"},
                                  {"NVIDIA A100_40GB", "a100_sxm4_40"}}) {
    CAPTURE(name);
    CHECK(changed({{"gpu_type", name}}).job->gpu == gpu);
  }
}

TEST_CASE("schedules that send both ways between two stages do not wait for their sends") {
  const nlohmann::json config{{"tp", 1}, {"pp", 2}, {"dp", 4}, {"sequence_parallel", false}, {"schedule", "dualpipe"}};
  CHECK(changed(config).job->scenario.strategy.overlap.pp);
  nlohmann::json waits = config;
  waits["schedule"] = "1f1b";
  CHECK_FALSE(changed(waits).job->scenario.strategy.overlap.pp);
}

TEST_CASE("sharding, recomputation and schedules are what they say, or the row is skipped") {
  const nlohmann::json alone{{"tp", 1}, {"dp", 8}, {"sequence_parallel", false}};
  const auto sharded = [&](const nlohmann::json& said) {
    nlohmann::json config = alone;
    config.update(said);
    return strategy(config,
                    said.contains("zero_stage") ? std::vector<std::string>{} : std::vector<std::string>{"zero_stage"});
  };
  CHECK(sharded({{"zero_stage", "FSDP"}}).fsdp.enabled);
  CHECK(sharded({{"zero_stage", "ZeRO-3"}}).fsdp.enabled);
  CHECK(sharded({{"parallelism", "FSDP"}}).fsdp.enabled);
  CHECK(sharded({{"fsdp", true}}).fsdp.enabled);
  CHECK(sharded({{"sharding", "HSDP"}, {"gpus", 16}, {"dp", 16}}).dp_shard == 8);
  CHECK(sharded({{"sharding", "HSDP"}, {"gpus", 16}, {"dp", 16}}).dp_replicate == 2);
  CHECK(sharded({{"sharding", "FSDP"}, {"dp_shard", 4}}).dp_replicate == 2);
  CHECK(sharded({{"fsdp", "FSDP2 (reshard after forward)"}}).fsdp.enabled);
  CHECK(sharded({{"fsdp_sharding", "FULL_SHARD"}}).fsdp.enabled);
  CHECK(sharded({{"framework", "PyTorch FSDP"}}).fsdp.enabled);
  CHECK(sharded({{"dp_shard", 4}}).dp_replicate == 2);
  CHECK(sharded({{"sharding", "HSDP"}, {"gpus", 4}, {"dp", 4}}).dp_shard == 4);
  CHECK_FALSE(sharded({{"zero_stage", "DDP"}}).fsdp.enabled);
  CHECK_FALSE(sharded({{"sharding", "NO_SHARD"}, {"framework", "Megatron-LM"}}).fsdp.enabled);
  CHECK(sharded({{"sharding", "NO_SHARD"}, {"framework", "Megatron-LM"}}).zero_stage == 0);
  CHECK(sharded({{"parallelism", "TP8 PP4, zero bubble 1F1B"}}).zero_stage == 0);
  CHECK(sharded({{"zero_stage", "ZeRO-1, no FSDP"}}).zero_stage == 1);
  CHECK(changed({{"sharding", "some"}}, {"zero_stage"}).skipped == "malformed row");
  CHECK(sharded({{"zero_stage", "ZeRO 1"}}).zero_stage == 1);
  CHECK(changed({{"zero_stage", "some"}}).skipped == "malformed row");
  CHECK(strategy({{"recompute", true}}).recompute == Recompute::full);
  CHECK(strategy({{"recompute", false}}).recompute == Recompute::none);
  CHECK(strategy({{"recompute", "none, blockwise fp8"}}).recompute == Recompute::none);
  CHECK(strategy({{"recompute", "no full recomputation"}}).recompute == Recompute::none);
  CHECK(strategy({{"recompute", "selective (attention block)"}}).recompute == Recompute::selective);
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
  CHECK(schedule("breadth-first") == "schedule unknown");
}

TEST_CASE("layers that do not divide among chunks do with the ends counted as layers") {
  const auto layers = [](int count, int pp, int vpp) {
    return strategy(
               {{"layers", count}, {"pp", pp}, {"tp", 1}, {"dp", 8 / pp}, {"vpp", vpp}, {"sequence_parallel", false}})
        .layers_per_stage;
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
  for (const char* words : {"flash2", "FlashAttention-2", "flash_attn 2", "FA2", "flash attention v2"})
    CHECK(flash(words) == FlashKernel::flash2);
  CHECK(flash("FlashAttention-3") == FlashKernel::flash3);
  CHECK(flash("flash, 128 heads") == FlashKernel::flash2);
  CHECK(changed({{"attention", "FlashAttention-4"}}).guessed == std::vector<std::string>{"attention"});
  CHECK(flash("cuDNN fused attention") == FlashKernel::cudnn);
  CHECK(changed({{"attention", "eager"}}).job->scenario.kernels.attention == AttentionKernel::unfused);
  for (const char* gpu : {"L40S", "RTX 4090", "B200", "A100-SXM4-80GB", "T4"}) {
    const MappedRow m = changed(
        {{"gpu_type", gpu}, {"attention", "flash2"}, {"tp", 1}, {"dp", 8}, {"sequence_parallel", false}, {"gpus", 8}});
    INFO(gpu << " " << m.skipped);
    REQUIRE(m.job);
    CHECK(RowPredictor(paths(), "estimate").predict(*m.job).step_time.value() > 0);
  }
}

TEST_CASE("software that other names of fields decide is found") {
  const auto attention = [](const nlohmann::json& config, const std::vector<std::string>& without) {
    return changed(config, without).job->scenario.kernels.attention;
  };
  CHECK(attention({{"gpu", "V100-SXM2-32GB"}}, {"gpu_type"}) == AttentionKernel::unfused);
  CHECK(attention({{"gpu_type", "V100-SXM2-32GB"}}, {}) == AttentionKernel::unfused);
}

TEST_CASE("the attention that a generation is said to have been measured with is what its calibration holds") {
  for (const auto& [gpu, generation] : {std::pair{"A100", "ampere"}, {"H100", "hopper"}, {"B200", "blackwell"}}) {
    std::ifstream file(kRoot + "/topologies/calibration/" + generation + ".json");
    const nlohmann::json kernels = nlohmann::json::parse(file).at("kernels");
    for (const char* name : {"flash_triton", "flash1", "flash2", "flash3", "cudnn"}) {
      const MappedRow m = changed({{"gpu_type", gpu}, {"attention", name}});
      INFO(generation << " " << name << " " << m.skipped);
      REQUIRE(m.job);
      const bool noted = std::any_of(m.trail.begin(), m.trail.end(),
                                     [](const Assumption& a) { return a.field == "attention_kernel"; });
      CHECK(noted != kernels.contains(std::string("attention_") + name));
    }
  }
}
