#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include <nlohmann/json.hpp>

#include "core/api/data_directory.hpp"
#include "core/base/error.hpp"
#include "core/config/scenario.hpp"
#include "core/import/job/import_job.hpp"
#include "tests/support/catch.hpp"

namespace rehearse::job {
namespace {

namespace fs = std::filesystem;

/// Files in a folder of their own, gone with it.
class Folder {
 public:
  Folder()
      : path_(fs::temp_directory_path() /
              ("rehearse_job_" + std::to_string(count_++) + "_" + std::to_string(::getpid()))) {
    fs::create_directories(path_);
  }
  ~Folder() { fs::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  std::string add(const std::string& name, const std::string& text) {
    std::ofstream(path_ / name) << text;
    return (path_ / name).string();
  }

 private:
  fs::path path_;
  static inline int count_ = 0;
};

ImportedJob imported(JobOptions options) {
  const DataDirectory data = find_data();
  return import_job(options, Catalogue(data.topologies()), Frameworks::load(data.frameworks()), data.models());
}

Scenario scenario_of(const ImportedJob& job) { return parse_scenario(job.scenario, "job.json"); }

const Outcome* outcome(const ImportedJob& job, const std::string& setting) {
  for (const Outcome& o : job.draft.outcomes)
    if (o.setting == setting) return &o;
  return nullptr;
}

const char* const kMegatron = R"(#!/bin/bash
GPUS_PER_NODE=8
NNODES=${NNODES:-4}
TP=4
MODEL_ARGS=(
    --num-layers 24 --hidden-size 2048 --num-attention-heads 16
    --seq-length 4096 --max-position-embeddings 4096
    --swiglu --normalization RMSNorm --position-embedding-type rope
    --disable-bias-linear --untie-embeddings-and-output-weights
    --group-query-attention --num-query-groups 4 --ffn-hidden-size 5632
    --vocab-size 32000 --make-vocab-size-divisible-by 1
    --attention-dropout 0 --hidden-dropout 0
)
torchrun --nproc_per_node $GPUS_PER_NODE --nnodes $NNODES pretrain_gpt.py \
    ${MODEL_ARGS[@]} \
    --tensor-model-parallel-size $TP --pipeline-model-parallel-size 2 --sequence-parallel \
    --num-layers-per-virtual-pipeline-stage 3 \
    --micro-batch-size 2 --global-batch-size $((NNODES * 32)) \
    --bf16 --use-distributed-optimizer --overlap-grad-reduce \
    --recompute-granularity full --recompute-method block --recompute-num-layers 1 \
    --lr 3e-4 --log-interval 10 --data-path $DATA --brand-new-switch 3
)";

TEST_CASE("A script of Megatron-LM is a scenario with its framework") {
  Folder folder;
  const ImportedJob job = imported({.files = {folder.add("train.sh", kMegatron)}, .cluster = "dgx_h100"});
  REQUIRE_FALSE(job.scenario.empty());
  const Scenario s = scenario_of(job);
  CHECK(s.framework.name.starts_with("megatron-core@"));
  CHECK(s.strategy.tp == 4);
  CHECK(s.strategy.pp == 2);
  CHECK(s.strategy.virtual_stages == 4);  // 24 layers, 2 stages, 3 layers a chunk.
  CHECK(s.strategy.schedule == "interleaved_1f1b");
  CHECK(s.strategy.sequence_parallel);
  CHECK(s.strategy.zero_stage == 1);
  CHECK(s.strategy.recompute == Recompute::full);
  CHECK(s.strategy.recompute_method == RecomputeMethod::block);
  CHECK(s.training.global_batch == 128);
  CHECK(s.training.precision == Precision::bf16_mixed);
  CHECK(s.cluster.parts.at(0).nodes == 4);
  CHECK(s.model.inline_json.find("\"num_key_value_heads\":4") != std::string::npos);
}

TEST_CASE("Every setting is taken, ignored for a reason, or asked for, at its line") {
  Folder folder;
  const std::string file = folder.add("train.sh", kMegatron);
  const ImportedJob job = imported({.files = {file}, .cluster = "dgx_h100"});
  const std::string text = kMegatron;
  for (std::size_t at = text.find(" --"); at != std::string::npos; at = text.find(" --", at + 1)) {
    const std::string name = text.substr(at + 1, text.find_first_of(" \n\\", at + 1) - at - 1);
    std::string dashed = name;
    std::replace(dashed.begin(), dashed.end(), '_', '-');
    INFO(name);
    CHECK((outcome(job, name) != nullptr || outcome(job, dashed) != nullptr));
  }
  const Outcome* tp = outcome(job, "--tensor-model-parallel-size");
  REQUIRE(tp != nullptr);
  CHECK(tp->kind == Outcome::Kind::taken);
  CHECK(tp->where == file + ":16");
  const Outcome* log = outcome(job, "--log-interval");
  REQUIRE(log != nullptr);
  CHECK(log->kind == Outcome::Kind::ignored);
  CHECK_FALSE(log->why.empty());
  const Outcome* unknown = outcome(job, "--brand-new-switch");
  REQUIRE(unknown != nullptr);
  CHECK(unknown->kind == Outcome::Kind::asked);
  CHECK(unknown->why.find("--set") != std::string::npos);
}

TEST_CASE("What a job leaves open is asked for, with what to type") {
  Folder folder;
  const std::string file = folder.add(
      "train.sh",
      "torchrun --nproc_per_node $GPUS pretrain_gpt.py --num-layers 2 --hidden-size 256 --num-attention-heads 4 "
      "--seq-length 128 --micro-batch-size 1 --global-batch-size 8 --vocab-size 1024\n");
  const ImportedJob job = imported({.files = {file}, .cluster = "dgx_h100"});
  CHECK(job.scenario.empty());
  REQUIRE(job.draft.questions.size() == 1);
  CHECK(job.draft.questions[0].how == "--gpus N");
  CHECK(outcome(job, "--nproc-per-node")->why.find("--env GPUS=VALUE") != std::string::npos);
  CHECK_FALSE(imported({.files = {file}, .environment = {{"GPUS", "8"}}, .cluster = "dgx_h100"}).scenario.empty());
  CHECK_FALSE(imported({.files = {file}, .cluster = "dgx_h100", .gpus = 8}).scenario.empty());
}

TEST_CASE("All that is missing is asked for at once: what was answered is enough") {
  Folder folder;
  const std::string file =
      folder.add("ds_config.json", R"({"train_batch_size": "auto", "zero_optimization": {"stage": 3},
                                       "bf16": {"enabled": true}, "gradient_clipping": 1.0})");
  const ImportedJob open = imported({.files = {file}});
  const auto asks = [&](const std::string& how) {
    return std::any_of(open.draft.questions.begin(), open.draft.questions.end(),
                       [&](const Question& q) { return q.how.find(how) != std::string::npos; });
  };
  for (const char* how :
       {"--cluster", "--gpus", "--model", "training.sequence_length", "strategy.microbatch", "training.global_batch"}) {
    INFO(how);
    CHECK(asks(how));
  }
  const JobOptions answered{
      .files = {file},
      .cluster = "dgx_h100",
      .gpus = 8,
      .model = "llama3_8b",
      .set = {"training.sequence_length=8192", "strategy.microbatch=1", "training.global_batch=16"}};
  CHECK_FALSE(imported(answered).scenario.empty());
}

TEST_CASE("A batch that follows from the number of GPUs is not asked for") {
  Folder folder;
  const ImportedJob job = imported({.files = {folder.add("ds_config.json", R"({"train_micro_batch_size_per_gpu": 4,
      "gradient_accumulation_steps": 8, "zero_optimization": {"stage": 3}, "bf16": {"enabled": true}})")}});
  for (const Question& q : job.draft.questions) CHECK(q.how.find("batch") == std::string::npos);
}

TEST_CASE("A scenario of Rehearse's own, or a launcher of one, is not taken for another program's job") {
  Folder folder;
  const std::string scenario = folder.add("scenario.json", R"({"schema": "rehearse/scenario/v1", "model": "llama3_8b",
      "training": {"global_batch": 8, "sequence_length": 128, "optimizer": "adamw", "weight_decay": 0.1, "seed": 2}})");
  const std::string launcher = folder.add("launch.sh", "torchrun --no-python rehearse run scenario.json\n");
  for (const std::string& file : {scenario, launcher}) try {
      (void)imported({.files = {file}});
      FAIL("taken: " << file);
    } catch (const Error& e) {
      CHECK(e.hint.find("rehearse simulate") != std::string::npos);
    }
}

TEST_CASE("Degrees that the GPUs do not hold are refused with the equation") {
  Folder folder;
  const std::string file = folder.add("train.sh", kMegatron);
  try {
    (void)imported({.files = {file}, .cluster = "dgx_h100", .gpus = 12});
    FAIL("12 GPUs held tp 4 and pp 2");
  } catch (const Error& e) {
    CHECK(std::string(e.what()).find("12 GPUs do not hold tp(4) * pp(2) * cp(1) = 8") == 0);
    CHECK(e.hint.find("--gpus") != std::string::npos);
  }
}

TEST_CASE("Experts that the ranks of a stage do not hold are refused with how many GPUs would") {
  Folder folder;
  std::string script = kMegatron;
  script.insert(script.size() - 1, " --num-experts 16 --moe-router-topk 2 --expert-model-parallel-size 16");
  try {
    (void)imported({.files = {folder.add("train.sh", script)}, .cluster = "dgx_h100"});
    FAIL("32 GPUs held ep 16 and etp 4 on each of two stages");
  } catch (const Error& e) {
    CHECK(std::string(e.what()).find("32 GPUs do not hold experts over ep(16) * etp(4) = 64 ranks") == 0);
    CHECK(e.hint.find("a multiple of 128") != std::string::npos);
  }
}

TEST_CASE("A train.toml of torchtitan says its shards and batches") {
  Folder folder;
  const std::string file = folder.add("train.toml", R"([model]
name = "llama3"
flavor = "8B"
[training]
local_batch_size = 2
seq_len = 8192
[parallelism]
data_parallel_shard_degree = -1
tensor_parallel_degree = 2
[activation_checkpoint]
mode = "full"
[compile]
enable = true
components = ["model", "loss"]
)");
  const ImportedJob job = imported({.files = {file}, .cluster = "dgx_h100", .gpus = 16});
  const Scenario s = scenario_of(job);
  CHECK(s.framework.name == "torchtitan@0.2.2");
  CHECK(s.model.name == "llama3_8b");
  CHECK(s.strategy.fsdp.enabled);
  CHECK(s.strategy.tp == 2);
  CHECK(s.training.global_batch == 16);  // 2 for each of 16 / 2 replicas.
  CHECK(s.strategy.recompute == Recompute::full);
  CHECK(s.kernels.compile);
  CHECK(outcome(job, "training.seq_len")->where == file + ":6");
}

TEST_CASE("Every second layer recomputes in torchtitan where nobody says what selective means") {
  Folder folder;
  const std::string file = folder.add("train.toml", R"([model]
name = "llama3"
flavor = "8B"
[training]
local_batch_size = 2
seq_len = 8192
[activation_checkpoint]
mode = "selective"
)");
  const Scenario s = scenario_of(imported({.files = {file}, .cluster = "dgx_h100", .gpus = 8}));
  CHECK(s.strategy.recompute == Recompute::full);
  CHECK(s.strategy.recompute_method == RecomputeMethod::block);
  CHECK(s.strategy.recompute_layers == 16);
}

TEST_CASE("Ranks of a sequence shard parameters in torchtitan") {
  Folder folder;
  for (const bool parts : {false, true}) {
    const std::string file = folder.add(parts ? "cp.toml" : "one.toml", std::string(R"([model]
name = "llama3"
flavor = "8B"
[training]
local_batch_size = 1
seq_len = 8192
[parallelism]
data_parallel_shard_degree = 1
)") + (parts ? "context_parallel_degree = 8\n" : ""));
    const Scenario s = scenario_of(imported({.files = {file}, .cluster = "dgx_h100", .gpus = parts ? 8 : 1}));
    CHECK(s.strategy.fsdp.enabled == parts);
    CHECK(s.strategy.dp_shard == 1);
  }
}

TEST_CASE("DeepSpeed's JSON and its launch line say one job") {
  Folder folder;
  const std::string config =
      folder.add("ds.json", R"({"train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 4,
 "bf16": {"enabled": true}, "steps_per_print": 10,
 "zero_optimization": {"stage": 3, "offload_optimizer": {"device": "cpu"}}})");
  const ImportedJob job =
      imported({.files = {config},
                .launch = "deepspeed --num_nodes 2 --num_gpus 8 train.py --model_name_or_path meta-llama/Llama-2-7b-hf "
                          "--max_seq_length 2048 --gradient_checkpointing --deepspeed ds.json",
                .cluster = "dgx_a100_80gb"});
  const Scenario s = scenario_of(job);
  CHECK(s.model.name == "llama2_7b");
  CHECK(s.strategy.zero_stage == 3);
  CHECK(s.strategy.offload == Offload::optimizer);
  CHECK(s.strategy.recompute == Recompute::full);
  CHECK(s.training.global_batch == 2 * 4 * 16);
}

TEST_CASE("Hugging Face's Trainer with accelerate's file") {
  Folder folder;
  const std::string arguments =
      folder.add("sft.yaml",
                 "model_name_or_path: mistralai/Mistral-7B-v0.1\nbf16: true\nmax_seq_length: 2048\n"
                 "per_device_train_batch_size: 4\ngradient_accumulation_steps: 2\ngradient_checkpointing: true\noptim: "
                 "adamw_torch\n");
  const std::string ranks =
      folder.add("fsdp.yaml",
                 "distributed_type: FSDP\nmixed_precision: bf16\nnum_machines: 1\nnum_processes: 8\nfsdp_config:\n"
                 "  fsdp_sharding_strategy: SHARD_GRAD_OP\n");
  const Scenario s = scenario_of(imported({.files = {arguments, ranks}, .cluster = "dgx_h100"}));
  CHECK(s.model.name == "mistral_7b");
  CHECK(s.strategy.fsdp.enabled);
  CHECK(s.strategy.fsdp.reshard_after_forward == Reshard::never);
  CHECK(s.training.global_batch == 64);
}

TEST_CASE("NeMo's YAML refers to itself, and is overridden on the command line") {
  Folder folder;
  const std::string yaml = folder.add("gpt.yaml", R"(trainer:
  devices: 8
  num_nodes: 2
  precision: bf16
model:
  micro_batch_size: 1
  global_batch_size: 64
  encoder_seq_length: 2048
  max_position_embeddings: ${.encoder_seq_length}
  num_layers: 24
  hidden_size: 2048
  ffn_hidden_size: ${multiply:4, ${.hidden_size}}
  num_attention_heads: 16
  tensor_model_parallel_size: ${oc.env:TP,2}
  pipeline_model_parallel_size: 1
  tokenizer:
    type: GPT2BPETokenizer
)");
  JobOptions options{.files = {yaml}, .cluster = "dgx_h100", .vocabulary = 50304};
  CHECK(scenario_of(imported(options)).strategy.tp == 2);
  options.launch =
      "python megatron_gpt_pretraining.py --config-name=gpt model.micro_batch_size=2 model.hidden_size=1024";
  const Scenario s = scenario_of(imported(options));
  CHECK(s.strategy.microbatch == 2);
  CHECK(s.model.inline_json.find("\"n_inner\":4096") != std::string::npos);
}

TEST_CASE("Python and prose are refused, with what to give instead") {
  Folder folder;
  try {
    (void)imported({.files = {folder.add("recipe.py", "def recipe(): return 1\n")}});
    FAIL("Python was read");
  } catch (const Error& e) {
    CHECK(std::string(e.what()).find("Python") != std::string::npos);
    CHECK_FALSE(e.hint.empty());
  }
  CHECK_THROWS_AS(imported({.files = {folder.add("empty.yaml", "# nothing\n")}}), Error);
  CHECK_THROWS_AS(imported({.files = {folder.add("broken.json", "{\"train_batch_size\": ")}}), Error);
}

}  // namespace
}  // namespace rehearse::job
