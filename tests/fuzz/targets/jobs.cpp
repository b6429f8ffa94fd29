// Launch scripts and configuration files of other software.

#include <filesystem>

#include "core/api/data_directory.hpp"
#include "core/import/job/files/job_files.hpp"
#include "core/import/job/import_job.hpp"
#include "tests/fuzz/inputs.hpp"
#include "tests/fuzz/target.hpp"
#include "tests/support/source_path.hpp"

namespace rehearse::fuzz::jobs {

namespace {

void import_as(const std::string& name, std::string_view bytes) {
  static const DataDirectory data = data_in(testing::source_path(""));
  static const Frameworks frameworks = Frameworks::load(data.frameworks());
  job::JobOptions options;
  options.files = {written(name, bytes)};
  if (bytes.size() % 2 == 0) {
    options.cluster = "dgx_h100";
    options.gpus = 8;
    options.model = "llama3_8b";
  }
  const job::ImportedJob read = job::import_job(options, shipped(), frameworks, data.models());
  require(read.scenario.empty() != read.draft.questions.empty(), "neither a scenario nor a question, or both");
  if (!read.scenario.empty()) (void)parse_scenario(read.scenario, testing::source_path("scenarios/imported.json"));
}

template <const char* Name>
void import_file(std::string_view bytes) {
  import_as(Name, bytes);
}

std::vector<std::string> scripts() {
  return {R"(#!/bin/bash
#SBATCH --nodes=2 --gpus-per-node=8
GPUS_PER_NODE=8
NNODES=${NNODES:-4}
TP=4
declare -A SIZES=([small]=1024 [large]=4096)
if [ "$TP" -gt 1 ] && [[ $NNODES =~ ^[0-9]+$ ]]; then SP=--sequence-parallel; else SP=; fi
for i in 1 2 3; do N=$((i * 2 + N)); done
case $TP in 1|2) PP=1 ;; *) PP=2 ;; esac
run() { local x="$1"; shift; torchrun --nnodes $NNODES "$@"; }
MODEL_ARGS=(
    --num-layers 24 --hidden-size ${SIZES[small]} --num-attention-heads 16
    --seq-length 1024 --max-position-embeddings 1024
)
cat > ds.json <<EOF
{"train_batch_size": ${N}, "zero_optimization": {"stage": 1}}
EOF
run $(echo 1) --nproc_per_node $GPUS_PER_NODE pretrain_gpt.py ${MODEL_ARGS[@]} --micro-batch-size 1 \
  --global-batch-size $((NNODES * 16)) --tensor-model-parallel-size $TP --pipeline-model-parallel-size $PP \
  $SP --bf16 --use-distributed-optimizer "${@:2}" | tee log_${TP##*/}.txt 2>&1
)"};
}

std::vector<std::string> yaml() {
  return {
      R"(model:
  encoder_seq_length: 2048
  num_layers: 24
  hidden_size: &h 2048
  ffn_hidden_size: ${multiply:4, ${.hidden_size}}
  num_attention_heads: 16
  tensor_model_parallel_size: 2
  pipeline_model_parallel_size: ${oc.env:PP,1}
  micro_batch_size: 1
  global_batch_size: 64
  optim: {name: distributed_fused_adam, lr: 1e-4}
trainer: {num_nodes: 1, devices: 8, precision: bf16}
)",
      R"(compute_environment: LOCAL_MACHINE
distributed_type: FSDP
fsdp_config: {fsdp_sharding_strategy: FULL_SHARD, fsdp_version: 2}
mixed_precision: bf16
num_machines: 1
num_processes: 8
)",
      "parallelism:\n  dp: 4\n  pp: 1\n  tp: 2\n  expert_parallel_size: 1\ntokens:\n  micro_batch_size: 2\n"
      "  batch_accumulation_per_replica: 1\n  sequence_length: 2048\nmodel:\n  model_config:\n    hidden_size: 1024\n"};
}

std::vector<std::string> toml() {
  return {R"([model]
name = "llama3"
flavor = "8B"
[training]
local_batch_size = 1
seq_len = 8192
steps = 1000
[parallelism]
data_parallel_replicate_degree = 1
data_parallel_shard_degree = -1
tensor_parallel_degree = 2
pipeline_parallel_degree = 1
[activation_checkpoint]
mode = "selective"
selective_ac_option = "2"
)"};
}

std::vector<std::string> json() {
  return {R"({"train_batch_size": 64, "train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 4,
 "bf16": {"enabled": true}, "zero_optimization": {"stage": 3, "overlap_comm": true, "reduce_bucket_size": 5e8,
 "offload_optimizer": {"device": "cpu"}}, "gradient_clipping": 1.0, "activation_checkpointing": {}})"};
}

constexpr char kScript[] = "train.sh", kYaml[] = "train.yaml", kToml[] = "train.toml", kJson[] = "train.json";

template <const char* Name>
void read_file(const std::string& path) {
  std::error_code ignored;
  const std::filesystem::path named = std::filesystem::path(path).parent_path() / Name;
  std::filesystem::rename(path, named, ignored);
  job::JobFiles files;
  (void)files.give(named.string());
}

template <const char* Name>
Target reads(std::vector<std::string> (*made)(), const std::string& more) {
  return {.run = import_file<Name>, .made = made, .limits = {4'000'000, more, read_file<Name>}};
}

const bool registered_scripts = targets().add(
    {"job_scripts", "launch scripts", {}, reads<kScript>(scripts, "200,000 commands, 2,000 rounds of a loop")});
const bool registered_yaml = targets().add({"job_yaml", "jobs in YAML", {}, reads<kYaml>(yaml, "50,000 settings")});
const bool registered_toml = targets().add({"job_toml", "jobs in TOML", {}, reads<kToml>(toml, "")});
const bool registered_json = targets().add({"job_json", "jobs in JSON", {}, reads<kJson>(json, "50,000 settings")});

}  // namespace

}  // namespace rehearse::fuzz::jobs
