#include <algorithm>
#include <set>

#include "tests/support/catch.hpp"
#include "tests/unit/export/exports.hpp"
#include "tests/unit/import/trace_files.hpp"

namespace rehearse {
namespace {

using testing::Plan;
using testing::ScratchFile;
using testing::source_path;

bool left_out(const Exported& e, const std::string& key) {
  return std::any_of(e.left_out.begin(), e.left_out.end(),
                     [&](const LeftOutKey& l) { return l.key == key && !l.why.empty(); });
}
std::string text_of(const Exported& e, const std::string& flag) {
  for (const ExportedSetting& s : e.settings)
    if (s.flag == flag) return s.text.empty() ? "set" : s.text;
  return "";
}

TEST_CASE("Every target says what it has no flag for") {
  // No framework splits images into tiles, waits for each microbatch as model_parallel does, or takes a zipf of experts
  // as a flag.
  const std::vector<std::string> replicas{"strategy.zero_stage=0"},
      shards{"strategy.zero_stage=0", "strategy.fsdp.enabled=true", "strategy.dp_shard=2"};
  for (const auto& [target, data] :
       {std::pair{"megatron", replicas}, {"torchtitan", shards}, {"deepspeed", replicas}}) {
    const auto with = [&data = data](std::vector<std::string> more) {
      return more.insert(more.end(), data.begin(), data.end()), Plan("llama3_70b_h100_64.json", more);
    };
    const Exported e =
        with({"strategy.schedule=model_parallel", "strategy.virtual_stages=1", "training.optimizer=adafactor"})
            .to(target);
    CHECK(left_out(e, "strategy.schedule"));
    CHECK(left_out(e, "training.optimizer"));
    const Plan uneven =
        with({"strategy.virtual_stages=1", "strategy.schedule=1f1b", "strategy.layers_per_stage=19,20,20,21"});
    CHECK(left_out(uneven.to(target), "strategy.layers_per_stage") == (std::string(target) == "deepspeed"));
  }
}

TEST_CASE("Targets that train decoder stacks refuse other networks") {
  for (const char* scenario : {"resnet50_v100_8.json", "dcgan_v100_8.json"}) {
    const Plan plan(scenario);
    for (const char* target : {"megatron", "torchtitan", "torchtitan_python"}) CHECK_THROWS_AS(plan.to(target), Error);
    CHECK(!plan.to("torchrun").files.empty());
  }
}

TEST_CASE("Megatron's trainer of one kind of layer refuses a hybrid") {
  const Plan plan("llama3_8b_h100_8.json", {"model=nemotron_h_8b"});
  CHECK_THROWS_AS(plan.to("megatron"), Error);
  CHECK(!plan.to("torchrun").files.empty());
}

const ExportedFile* file(const Exported& e, const std::string& name) {
  const auto at = std::find_if(e.files.begin(), e.files.end(), [&](const ExportedFile& f) { return f.name == name; });
  return at == e.files.end() ? nullptr : &*at;
}

TEST_CASE("Pods ask for the devices that their machines have, by the names of those who advertise them") {
  // NVML's name of the GPU, words joined by dashes: NVIDIA/k8s-device-plugin @1b826ac, internal/lm/resource.go.
  const auto jobset = [](const std::string& machine) {
    const Plan plan("tiny_gpt2.json", {"cluster.machine=" + machine, "cluster.nodes=1", "strategy.dp=auto"});
    return file(plan.to("kubernetes"), "jobset.yaml")->text;
  };
  for (const auto& [machine, label] : {std::pair{"dgx_h100", "NVIDIA-H100-80GB-HBM3"},
                                       {"dgx_h200", "NVIDIA-H200"},
                                       {"dgx_b200", "NVIDIA-B200"},
                                       {"gb200_nvl4", "NVIDIA-GB200"},
                                       {"aws_g4dn_12xlarge", "Tesla-T4"},
                                       {"aws_g5_48xlarge", "NVIDIA-A10G"}}) {
    INFO(machine);
    CHECK(jobset(machine).find("nvidia.com/gpu.product: \"" + std::string(label) + "\"") != std::string::npos);
  }
  const std::string cpus = jobset("cpu_2s_epyc_7742"), tpus = jobset("tpu_v4");
  for (const std::string& text : {cpus, tpus}) CHECK(text.find("nvidia.com") == std::string::npos);
  CHECK(tpus.find("google.com/tpu: ") != std::string::npos);
  CHECK(cpus.find("--device cpu") != std::string::npos);
}

TEST_CASE("Launchers carry the model: by name where it is shipped, as a file where it is the user's own") {
  const ScratchFile own(
      R"({"model_type": "llama", "hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 4,
      "num_attention_heads": 8, "vocab_size": 1000, "max_position_embeddings": 8192})",
      ".json");
  const Plan shipped("llama3_8b_h100_8.json"), users("llama3_8b_h100_8.json", {"model=" + own.path()});
  for (const char* target : {"torchrun", "slurm", "kubernetes"}) {
    const Exported by_name = shipped.to(target), by_file = users.to(target);
    REQUIRE(file(by_name, "scenario.json") != nullptr);
    CHECK(file(by_name, "scenario.json")->text.find("\"model\": \"llama3_8b\"") != std::string::npos);
    CHECK(file(by_name, "config.json") == nullptr);
    REQUIRE(file(by_file, "config.json") != nullptr);
    CHECK(file(by_file, "config.json")->text.find("\"hidden_size\": 256") != std::string::npos);
    CHECK(file(by_file, "scenario.json")->text.find("\"model\": \"config.json\"") != std::string::npos);
    for (const Exported* e : {&by_name, &by_file})
      for (const ExportedFile& f : e->files) CHECK(f.text.find(source_path("")) == std::string::npos);
  }
  // Pods see nothing but the ConfigMap.
  const Exported pods = users.to("kubernetes");
  CHECK(file(pods, "jobset.yaml")->text.find("config.json: ") != std::string::npos);
}

TEST_CASE("Flags name keys that a scenario has") {
  std::set<std::string> keys{"model", "cluster"};
  for (const KeyHelp& k : scenario_keys()) keys.insert(k.key);
  keys.insert("strategy");
  for (const auto& target : exporters().entries())
    for (const ParameterHelp& rule : target.parameters) CHECK(keys.contains(rule.name));
}

TEST_CASE("torchtitan's stages of unequal layers are named module by module, with the head as each release calls it") {
  const Plan plan(
      "llama3_70b_h100_64.json",
      {"strategy.zero_stage=0", "strategy.fsdp.enabled=true", "strategy.dp_shard=2", "strategy.virtual_stages=1",
       "strategy.schedule=1f1b", "strategy.layers_per_stage=19,20,20,21", "kernels.cuda_graphs=false"});
  for (const auto& [target, head] : {std::pair{"torchtitan", "output"}, {"torchtitan_python", "lm_head"}}) {
    const std::string parts = text_of(plan.to(target), "parallelism.module_fqns_per_model_part");
    CHECK(parts.starts_with("tok_embeddings layers.0 layers.1 "));
    CHECK(parts.ends_with(std::string("layers.79 norm ") + head));
  }
}

TEST_CASE("accelerate's file says the kind of job, and sizes only where the kind does not") {
  const std::vector<std::string> alone{"strategy.tp=1", "strategy.sequence_parallel=false", "strategy.dp=auto"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.end(), alone.begin(), alone.end());
    return Plan("llama3_8b_h100_8.json", more).to("accelerate");
  };
  const std::string sizes = "parallelism_config.parallelism_config_";
  const Exported replicas = with({"strategy.zero_stage=0"}), zero = with({"strategy.zero_stage=2"}),
                 shards = with({"strategy.zero_stage=0", "strategy.fsdp.enabled=true"});
  CHECK(text_of(replicas, "distributed_type") == "MULTI_GPU");
  CHECK(text_of(zero, "distributed_type") == "DEEPSPEED");
  CHECK(text_of(zero, "deepspeed_config.zero_stage") == "2");
  CHECK(text_of(shards, "distributed_type") == "FSDP");
  CHECK(text_of(shards, "fsdp_config.fsdp_version") == "2");
  for (const Exported* e : {&replicas, &zero, &shards}) {
    CHECK(text_of(*e, "num_processes") == "8");
    CHECK(text_of(*e, sizes + "dp_shard_size").empty());
  }
  const Exported hybrid = Plan("llama3_8b_hsdp_h100_64.json").to("accelerate");
  CHECK(text_of(hybrid, sizes + "dp_replicate_size") == "8");
  CHECK(text_of(hybrid, sizes + "dp_shard_size") == "8");
  CHECK_THROWS_WITH(Plan("llama3_8b_h100_8.json", {"strategy.zero_stage=0"}).to("accelerate"),
                    Catch::Matchers::ContainsSubstring("parallelism_config.py"));
  CHECK_THROWS_WITH(Plan("llama3_70b_h100_64.json").to("accelerate"), Catch::Matchers::ContainsSubstring("pipelines"));
}

TEST_CASE("PyTorch's wrappers are told what the plan says, each by its own words") {
  const Plan plan("llama3_8b_hsdp_h100_64.json", {"strategy.fsdp.reshard_after_forward=never"});
  const Exported one = plan.to("fsdp1"), two = plan.to("fsdp2");
  CHECK(text_of(one, "FullyShardedDataParallel.sharding_strategy") == "_HYBRID_SHARD_ZERO2");
  CHECK(text_of(two, "fully_shard.reshard_after_forward") == "false");
  for (const Exported* e : {&one, &two}) {
    CHECK(text_of(*e, "mesh.dp_replicate") == "8");
    CHECK(text_of(*e, "batch.per_rank") == "1");
    REQUIRE(file(*e, "fsdp.py") != nullptr);
  }
  CHECK_THROWS_WITH(Plan("llama3_8b_h100_8.json").to("fsdp2"), Catch::Matchers::ContainsSubstring("fsdp.enabled=true"));
}

TEST_CASE("Megatron's arguments follow the plan") {
  const Exported e = Plan("llama3_70b_h100_64.json").to("megatron");
  CHECK(text_of(e, "--tensor-model-parallel-size") == "8");
  CHECK(text_of(e, "--num-virtual-stages-per-pipeline-rank") == "5");
  CHECK(text_of(e, "--use-distributed-optimizer") == "set");
  CHECK(text_of(e, "--sequence-parallel") == "set");
  CHECK(text_of(e, "--bf16") == "set");
  CHECK(text_of(e, "--fp16").empty());
  CHECK(text_of(e, "--no-gradient-accumulation-fusion").empty());
  const auto left_out = [](const char* target, std::vector<std::string> settings) {
    for (const char* alone : {"strategy.tp=1", "strategy.sequence_parallel=false", "strategy.dp=auto"})
      settings.emplace_back(alone);
    const Exported made = Plan("llama3_8b_h100_8.json", std::move(settings)).to(target);
    return std::any_of(made.left_out.begin(), made.left_out.end(),
                       [](const LeftOutKey& l) { return l.key == "framework.fused_gradient_accumulation"; });
  };
  for (const char* target : {"deepspeed", "torchtitan"}) {
    INFO(target);
    CHECK(left_out(target, {"strategy.zero_stage=0", "framework.fused_gradient_accumulation=true"}));
    CHECK_FALSE(left_out(target, {"strategy.zero_stage=0"}));  // The framework's own affair.
    CHECK_FALSE(left_out(target, {"strategy.zero_stage=0", "framework.fused_gradient_accumulation=false"}));
    CHECK_FALSE(left_out(target, {"strategy.zero_stage=0", "framework.fused_gradient_accumulation=true",
                                  "training.global_batch=8", "strategy.microbatch=1"}));
  }
  CHECK(text_of(Plan("llama3_70b_h100_64.json", {"framework.fused_gradient_accumulation=false"}).to("megatron"),
                "--no-gradient-accumulation-fusion") == "set");
  CHECK(text_of(Plan("llama3_70b_h100_64.json", {"strategy.recompute=full"}).to("megatron"), "--recompute-method") ==
        "uniform");
}

TEST_CASE("Megatron's own checks at start are met") {
  const auto script = [](const Exported& e) { return file(e, "pretrain.sh")->text; };
  const std::string connections = "export CUDA_DEVICE_MAX_CONNECTIONS=1\n";
  CHECK(script(Plan("llama3_70b_h100_64.json").to("megatron")).find(connections) != std::string::npos);
  CHECK(script(Plan("llama3_70b_b200_64.json", {"strategy.tp=2"}).to("megatron")).find(connections) ==
        std::string::npos);
  CHECK(script(Plan("llama3_8b_h100_8.json", {"strategy.tp=1", "strategy.zero_stage=0"}).to("megatron"))
            .find(connections) == std::string::npos);

  const Exported torch_fsdp = Plan("llama3_8b_fsdp_h100_64.json", {"strategy.tp=2"}).to("megatron");
  CHECK(text_of(torch_fsdp, "--use-torch-fsdp2") == "set");
  CHECK(text_of(torch_fsdp, "--no-gradient-accumulation-fusion") == "set");
  CHECK(script(torch_fsdp).find(connections) == std::string::npos);

  for (const char* stage : {"strategy.zero_stage=2", "strategy.zero_stage=3"}) {
    const Exported fsdp = Plan("llama3_8b_h100_8.json", {"strategy.tp=2", stage}).to("megatron");
    CHECK(text_of(fsdp, "--use-megatron-fsdp") == "set");
    CHECK(text_of(fsdp, "--ckpt-format") == "fsdp_dtensor");
    CHECK(script(fsdp).find(connections) == std::string::npos);
  }

  const Exported open = Plan("mixtral_8x7b_h100_64.json").to("megatron"),
                 told = Plan("llama3_8b_h100_8.json", {"training.tokens=8192000"}).to("megatron");
  CHECK(text_of(open, "--train-iters") == "1000");
  CHECK(left_out(open, "training.tokens"));
  CHECK(text_of(told, "--train-iters").empty());
  CHECK(text_of(told, "--train-samples") == "1000");
  CHECK(!left_out(told, "training.tokens"));
}

TEST_CASE("What Megatron cannot do as the plan says becomes no flag") {
  const auto coupled =
      Plan("llama3_8b_h100_8.json", {"training.optimizer=adam", "training.weight_decay=0.1"}).to("megatron");
  CHECK(left_out(coupled, "training.optimizer"));
  CHECK(left_out(Plan("gpt3_175b_a100_1024.json").to("megatron"), "framework.scatter_gather"));
  // PyTorch's FSDP2 reduces in the parameters' type there, and gathers no fp8.
  const auto torch_fsdp = Plan("llama3_8b_fsdp_h100_64.json",
                               {"training.precision=fp8_mixed", "strategy.tp=2", "training.fp8.parameters=true"})
                              .to("megatron");
  CHECK(left_out(torch_fsdp, "training.gradient_dtype"));
  CHECK(left_out(torch_fsdp, "training.fp8.parameters"));
}

/// Whether the target refuses the plan, for a reason that names its own code.
bool refused(const char* target, const std::string& scenario, const std::vector<std::string>& changes = {}) {
  const Plan plan(scenario, changes);
  try {
    (void)plan.to(target);
  } catch (const Error& e) {
    INFO(e.what());
    return std::string(e.what()).find(".py, ") != std::string::npos;
  }
  return false;
}

TEST_CASE("What Megatron refuses when it starts is refused before") {
  CHECK(refused("megatron", "llama3_8b_hsdp_h100_64.json"));  // Replicas of shards.
  CHECK(refused("megatron", "llama3_8b_fsdp_h100_64.json", {"training.precision=fp16_mixed"}));
  // Tied embeddings: GPT-2's head is its embedding.
  CHECK(refused("megatron", "tiny_gpt2.json", {"strategy.fsdp.enabled=true", "strategy.dp_shard=8"}));
  CHECK(refused("megatron", "llama3_8b_h100_8.json",
                {"strategy.recompute=selective", "strategy.recompute_modules=moe_act"}));
  CHECK(refused("megatron", "llama3_8b_h100_8.json", {"strategy.offload=optimizer", "training.optimizer=sgd"}));
  CHECK(refused("megatron", "llama3_8b_h100_8.json",
                {"model=gpt_neox_20b", "training.sequence_length=2048"}));  // Attention and MLP side by side.
}

TEST_CASE("CUDA graphs of layers that are recomputed whole are of the whole iteration") {
  const auto impl = [](const char* recompute) {
    return Plan("llama3_8b_h100_8.json", {"kernels.cuda_graphs=true", std::string("strategy.recompute=") + recompute})
        .to("megatron");
  };
  CHECK(text_of(impl("none"), "--cuda-graph-impl") == "local");
  CHECK(text_of(impl("full"), "--cuda-graph-impl") == "full_iteration");
  CHECK(text_of(impl("full"), "--no-check-for-nan-in-loss-and-grad") == "set");
}

TEST_CASE("Megatron is told how experts are chosen and multiplied") {
  const Exported deepseek = Plan("deepseek_v3_h800_2048.json").to("megatron");
  for (const char* flag : {"--moe-grouped-gemm", "--qk-layernorm", "--moe-router-enable-expert-bias"})
    CHECK(text_of(deepseek, flag) == "set");
  CHECK(text_of(deepseek, "--moe-router-topk-scaling-factor") == "2.5");
  const Exported mixtral = Plan("mixtral_8x7b_h100_64.json").to("megatron");
  CHECK(text_of(mixtral, "--moe-grouped-gemm") == "set");
  for (const char* flag : {"--qk-layernorm", "--moe-router-enable-expert-bias", "--moe-router-topk-scaling-factor"})
    CHECK(text_of(mixtral, flag).empty());
}

TEST_CASE("What torchtitan refuses when it starts is refused before") {
  const char* replicas = "llama3_8b_h100_8.json";
  const std::vector<std::string> alone{"strategy.zero_stage=0", "strategy.dp=auto", "strategy.tp=1",
                                       "strategy.sequence_parallel=false"};
  CHECK(!refused("torchtitan", replicas, alone));
  CHECK(refused("torchtitan", replicas, {"strategy.zero_stage=0", "strategy.dp=auto", "strategy.tp=2"}));
  const char* shards = "llama3_8b_fsdp_h100_64.json";
  const auto fp8 = [&](const char* recipe) {
    return std::vector<std::string>{"training.precision=fp8_mixed", "training.fp8.parameters=true",
                                    std::string("training.fp8.recipe=") + recipe};
  };
  CHECK(!refused("torchtitan", shards, fp8("tensorwise")));
  for (const char* recipe : {"rowwise", "delayed"}) CHECK(refused("torchtitan", shards, fp8(recipe)));
  const std::vector<std::string> split{"strategy.tp=2", "strategy.sequence_parallel=true"};
  CHECK(!refused("torchtitan", shards, split));
  CHECK(refused("torchtitan", shards, {split[0], split[1], "strategy.overlap.tp=true"}));  // Without torch.compile.
  CHECK(refused("torchtitan", shards, {split[0], split[1], "training.sequence_length=8190"}));
}

TEST_CASE("torchtitan's own models are known by their sizes") {
  const auto flavor = [](const std::string& model) {
    const Exported e = Plan("llama3_8b_fsdp_h100_64.json", {"model=" + model}).to("torchtitan");
    return text_of(e, "model.name") + " " + text_of(e, "model.flavor");
  };
  CHECK(flavor("llama3_70b") == "llama3 70B");
  CHECK(flavor("qwen3_14b") == "qwen3 14B");
  CHECK(flavor("qwen3_30b_a3b") == "qwen3 30B-A3B");
  CHECK(flavor("deepseek_v3_without_mtp") == "deepseek_v3 671B");
  CHECK(flavor("gpt_oss_20b") == "gpt_oss 20b");
  CHECK(flavor("deepseek_v3") == " ");  // Predicts a further token, which torchtitan's does not.
}

TEST_CASE("What DeepSpeed refuses when it starts is refused before, or said as it can be") {
  const char* llama = "llama3_8b_h100_8.json";
  const std::vector<std::string> replicas{"strategy.tp=1", "strategy.sequence_parallel=false", "strategy.dp=auto"};
  const auto with = [&](std::vector<std::string> more) {
    return more.insert(more.begin(), replicas.begin(), replicas.end()), more;
  };
  CHECK(refused("deepspeed", llama, with({"strategy.cp=2", "strategy.context=ring", "strategy.dp_replicate=auto"})));
  CHECK(refused("deepspeed", llama, with({"strategy.pp=2", "strategy.zero_stage=2"})));
  CHECK(refused("deepspeed", llama, with({"training.precision=fp8_mixed"})));
  const auto whole = Plan(llama, with({"strategy.zero_stage=0", "training.gradient_dtype=fp32"})).to("deepspeed");
  CHECK(left_out(whole, "training.gradient_dtype"));
  CHECK(text_of(whole, "data_types.grad_accum_dtype").empty());
  const auto sgd = Plan(llama, with({"strategy.zero_stage=1", "training.optimizer=sgd"})).to("deepspeed");
  CHECK(text_of(sgd, "zero_allow_untested_optimizer") == "true");
  // With AutoTP every rank counts as a replica, so that the batch is not stated.
  const auto split = Plan(llama, {"strategy.tp=2", "strategy.zero_stage=1", "strategy.dp=auto"}).to("deepspeed");
  CHECK(text_of(split, "tensor_parallel.autotp_size") == "2");
  CHECK(text_of(split, "train_batch_size").empty());
}

TEST_CASE("ZeRO within groups of replicas is left out where the target divides over all of them") {
  for (const char* target : {"deepspeed", "accelerate"}) {
    const std::vector<std::string> alone{"strategy.tp=1", "strategy.sequence_parallel=false", "strategy.dp=auto"};
    const auto groups = [&](const std::string& size) {
      std::vector<std::string> all = alone;
      all.insert(all.end(), {"strategy.zero_stage=1", "strategy.dp_shard=" + size});
      return left_out(Plan("llama3_8b_h100_8.json", all).to(target), "strategy.dp_shard");
    };
    INFO(target);
    CHECK(groups("2"));
    CHECK_FALSE(groups("8"));
  }
}

TEST_CASE("Launchers start as many ranks as the plan has") {
  // Four ranks on a machine of eight GPUs.
  const Plan half("lessons/four_strategies/data.json");
  CHECK(text_of(half.to("torchrun"), "--nproc-per-node") == "4");
  CHECK(file(half.to("megatron"), "pretrain.sh")->text.find("GPUS_PER_NODE:-4}") != std::string::npos);
}

TEST_CASE("deferred gradients of the output layer are two of Megatron's flags, and nobody else's") {
  const Plan plan("gpt3_175b_a100_1024.json", {"framework.deferred_head_gradients=22"});
  CHECK(text_of(plan.to("megatron"), "--defer-embedding-wgrad-compute") == "set");
  CHECK(text_of(plan.to("megatron"), "--wgrad-deferral-limit") == "22");
  CHECK(left_out(plan.to("deepspeed"), "framework.deferred_head_gradients"));
}

TEST_CASE("torchtitan's float8 has tables of its own") {
  const auto e = Plan("llama3_8b_fsdp_h100_64.json", {"training.precision=fp8_mixed", "training.fp8.recipe=rowwise"})
                     .to("torchtitan");
  CHECK(text_of(e, "quantize.linear.float8.recipe_name") == "rowwise");
  CHECK(file(e, "train.toml")->text.find("[quantize.linear.float8]\nrecipe_name = \"rowwise\"\n") != std::string::npos);
}

TEST_CASE(
    "Megatron takes stages of unequal layers, and an order of axes that differs from its own in axes of one rank "
    "only") {
  const std::vector<std::string> plain{"strategy.virtual_stages=1", "strategy.schedule=1f1b"};
  const auto with = [&](std::vector<std::string> more) {
    return more.insert(more.begin(), plain.begin(), plain.end()), Plan("llama3_70b_h100_64.json", more).to("megatron");
  };
  const Exported ends = with({"strategy.layers_per_stage=19,20,20,21"});
  CHECK(text_of(ends, "--decoder-first-pipeline-num-layers") == "19");
  CHECK(text_of(ends, "--decoder-last-pipeline-num-layers") == "21");
  CHECK(!left_out(ends, "strategy.layers_per_stage"));
  const Exported middle = with({"strategy.layers_per_stage=19,20,21,20"});
  CHECK(text_of(middle, "--pipeline-model-parallel-layout") == "Et*19|t*20|t*21|t*20L");
  CHECK(text_of(middle, "--decoder-first-pipeline-num-layers").empty());
  CHECK(text_of(with({}), "--pipeline-model-parallel-layout").empty());

  // 61 layers over 16 stages, and the module that predicts one token further; a layout stands for the number of chunks
  // too.
  const Exported uneven = Plan("deepseek_v3_h800_2048.json").to("megatron");
  CHECK(!left_out(uneven, "strategy.uneven_layers"));
  const std::string layout = text_of(uneven, "--pipeline-model-parallel-layout");
  CHECK(std::count(layout.begin(), layout.end(), '|') == 15);
  CHECK(layout.ends_with("mL"));
  std::int64_t layers = 0;
  for (std::size_t at = layout.find("t*"); at != std::string::npos; at = layout.find("t*", at + 1))
    layers += std::stoll(layout.substr(at + 2));
  CHECK(layers == 61);

  const auto order = [&](const char* axes) { return with({std::string("strategy.placement=") + axes}); };
  for (const char* same : {"tp,dp,pp", "tp,ep,cp,dp,pp"}) {
    CHECK(!left_out(order(same), "strategy.placement"));
    CHECK(text_of(order(same), "--use-tp-pp-dp-mapping").empty());
  }
  CHECK(text_of(order("tp,pp,dp"), "--use-tp-pp-dp-mapping") == "set");
  CHECK(left_out(order("pp,tp,dp"), "strategy.placement"));
}

TEST_CASE("torchtitan takes experts' ranks from shards, and its pipeline counts layers alone") {
  const std::string degree = "parallelism.expert_parallel_degree";
  const std::vector<std::string> shards{
      "strategy.zero_stage=0",     "strategy.fsdp.enabled=true", "strategy.dp_replicate=1",         "strategy.dp=auto",
      "strategy.virtual_stages=1", "strategy.schedule=1f1b",     "strategy.sequence_parallel=false"};
  const auto with = [&](std::vector<std::string> more) {
    return more.insert(more.begin(), shards.begin(), shards.end()), Plan("mixtral_8x7b_h100_64.json", more);
  };
  const Exported within =
      with({"strategy.tp=1", "strategy.pp=1", "strategy.dp_shard=64", "strategy.ep=8"}).to("torchtitan");
  CHECK(!left_out(within, "strategy.ep"));
  CHECK(text_of(within, degree) == "8");

  const Exported stages =
      with({"strategy.tp=1", "strategy.pp=2", "strategy.dp_shard=32", "strategy.ep=8"}).to("torchtitan");
  for (const char* flag : {"parallelism.pipeline_parallel_first_stage_less_layers",
                           "parallelism.pipeline_parallel_last_stage_less_layers"}) {
    CHECK(text_of(stages, flag) == "0");
    CHECK(text_of(within, flag).empty());
  }
  CHECK(file(within, "train.toml")->text.find("torchtitan v0.2.2") != std::string::npos);
}

TEST_CASE("Slurm gives every component of a job its nodes whole") {
  const std::string script = file(Plan("mixed_a100_v100.json").to("slurm"), "job.sbatch")->text;
  const auto count = [&](const std::string& line) {
    int n = 0;
    for (std::size_t at = script.find(line); at != std::string::npos; at = script.find(line, at + 1)) ++n;
    return n;
  };
  const int components = count("#SBATCH --nodes=");
  CHECK(components > 1);
  CHECK(count("#SBATCH --exclusive\n") == components);
  CHECK(count("#SBATCH --mem=0\n") == components);
}

}  // namespace
}  // namespace rehearse
