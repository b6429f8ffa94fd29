// Hugging Face: accelerate.yaml (huggingface/accelerate @16cb6eb80dd9, 1.15: commands/config/config_args.py,
// ClusterConfig), training_args.json (huggingface/transformers @5eddc12e, 5.15: training_args.py, as HfArgumentParser
// reads it), and the command that takes both to the user's trainer.

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "core/config/settings/strategy.hpp"
#include "core/export/setting_table.hpp"
#include "core/export/start_rules.hpp"
#include "core/strategy/workload.hpp"

namespace rehearse::exporting {

namespace {

/// Names and words are those of the tables by which jobs are imported, too.
Flags in_file(std::initializer_list<std::pair<const char*, Json>> values) {
  return said(translate::accelerate_words(), values);
}
Flags as_argument(std::initializer_list<std::pair<const char*, Json>> values) {
  return said(translate::huggingface_words(), values);
}
Rule argument(const std::string& key) { return told(translate::huggingface_words(), key); }

bool by_ulysses(const ExportInput& in) { return plan(in).cp > 1 && plan(in).context == ContextExchange::ulysses; }
/// Whether axes go beyond what the kind of job says by itself: then all sizes are written, whose product is the ranks.
bool states_sizes(const ExportInput& in) {
  return plan(in).tp > 1 || plan(in).cp > 1 || (uses_fsdp(in) && plan(in).dp_replicate > 1);
}

const char* accelerate_kind(const ExportInput& in) {
  const StrategySettings& s = plan(in);
  return uses_fsdp(in) ? "fsdp" : uses_zero(in) ? "deepspeed" : s.dp * s.tp * s.cp > 1 ? "ddp" : "none";
}

std::optional<Flags> sizes_accelerate(const Json&, const ExportInput& in) {
  if (!states_sizes(in)) return Flags{};
  const StrategySettings& s = plan(in);
  Flags out = in_file({{"strategy.dp_replicate", uses_fsdp(in) ? s.dp_replicate : 1},
                       {"job.shard", uses_fsdp(in) ? s.dp_shard : s.dp},
                       {"strategy.tp", s.tp}});
  out.push_back(in_file({{by_ulysses(in) ? "job.ulysses" : "strategy.cp", s.cp}}).front());
  return out;
}

std::optional<Flags> exchange_accelerate(const Json& value, const ExportInput& in) {
  if (plan(in).cp == 1 || by_ulysses(in)) return Flags{};
  return translate::accelerate_words().say("job.cp_exchange", value);
}

/// fully_shard, version 2 of FSDP; the model's classes say which modules are units (_no_split_modules).
std::optional<Flags> reshard_accelerate(const Json& value, const ExportInput& in) {
  if (!uses_fsdp(in)) return Flags{};
  Flags out = in_file({{"job.fsdp_version", 2}});
  out.push_back({"fsdp_config.fsdp_reshard_after_forward", value != "never"});
  out.push_back({"fsdp_config.fsdp_auto_wrap_policy", "TRANSFORMER_BASED_WRAP"});
  out.push_back({"fsdp_config.fsdp_state_dict_type", "SHARDED_STATE_DICT"});
  return out;
}

std::optional<Flags> zero_stage_accelerate(const Json& value, const ExportInput& in) {
  if (!uses_zero(in)) return Flags{};
  Flags out = in_file({{"job.zero", value}});
  out.push_back({"deepspeed_config.zero3_init_flag", value == 3});
  // Else DeepSpeed starts ranks elsewhere through pdsh (utils/launch.py, prepare_deepspeed_cmd_env).
  if (node_count(pools(in)) > 1) out.push_back({"deepspeed_config.deepspeed_multinode_launcher", "standard"});
  return out;
}

/// With FSDP the modules that are sharded run again, else the model's own layers.
std::optional<Flags> recompute_accelerate(const Json& value, const ExportInput& in) {
  if ((value != "none" && value != "full") || plan(in).recompute_layers != 1) return std::nullopt;
  if (uses_fsdp(in)) return in_file({{"job.fsdp_checkpoints", value == "full"}});
  return Flags{{"gradient_checkpointing", value == "full"}};
}

bool offloads_all(const ExportInput& in) {
  return uses_fsdp(in) && plan(in).offload == Offload::optimizer &&
         plan(in).declared.find("strategy.offload_parameters") != nullptr;
}

std::optional<Flags> offload_accelerate(const Json& value, const ExportInput& in) {
  if (value == "none") return Flags{};
  if (offloads_all(in)) return in_file({{"job.cpu_offload", true}});
  return value == "optimizer" && uses_zero(in) ? std::optional<Flags>(in_file({{"job.offload_optimizer", "cpu"}}))
                                               : std::nullopt;
}

std::optional<Flags> offload_parameters_accelerate(const Json& value, const ExportInput& in) {
  if (value == false || offloads_all(in)) return Flags{};
  return uses_zero(in) && plan(in).zero_stage == 3 ? std::optional<Flags>(in_file({{"job.offload_parameters", "cpu"}}))
                                                   : std::nullopt;
}

std::optional<Flags> bucket_accelerate(const Json&, const ExportInput& in) {
  if (uses_fsdp(in)) return Flags{};
  constexpr double kMebi = 1 << 20;
  const double mib = plan(in).bucket.value() / kMebi;
  if (uses_zero(in) || mib != static_cast<double>(static_cast<std::int64_t>(mib))) return std::nullopt;
  return as_argument({{"job.bucket_mib", static_cast<std::int64_t>(mib)}});
}

std::optional<Flags> accumulation_accelerate(const Json& value, const ExportInput& in) {
  const std::int64_t steps = value.get<std::int64_t>() / (plan(in).microbatch * std::max(1, plan(in).dp));
  Flags out = as_argument({{"job.accumulation", steps}});
  if (uses_zero(in)) out.push_back({"deepspeed_config.gradient_accumulation_steps", steps});
  return out;
}

/// The Trainer's own bf16 and fp16 go before the file's mixed_precision.
std::optional<Flags> precision_accelerate(const Json& value, const ExportInput& in) {
  const Flag none{"mixed_precision", "no"};
  if (value == "fp32") return Flags{none};
  if (value == "tf32") return Flags{none, as_argument({{"job.tf32", true}}).front()};
  if (value == "bf16_mixed")
    return Flags{in_file({{"job.mixed", "bf16"}}).front(), as_argument({{"job.bf16", true}}).front()};
  if (value == "fp16_mixed")
    return Flags{in_file({{"job.mixed", "fp16"}}).front(), as_argument({{"job.fp16", true}}).front()};
  if (value != "fp8_mixed") return std::nullopt;
  if (in.scenario.training.fp8.recipe == Fp8Recipe::delayed)
    return in_file({{"job.mixed", "fp8"}, {"job.fp8_backend", "te"}, {"job.fp8", "hybrid"}});
  // torchao gathers fp8 unless told not to.
  return in_file({{"job.mixed", "fp8"},
                  {"job.fp8_backend", "ao"},
                  {"training.fp8.parameters", in.scenario.training.fp8.parameters && uses_fsdp(in)}});
}

std::optional<Flags> fp8_parameters_accelerate(const Json& value, const ExportInput& in) {
  const bool gathers = uses_fsdp(in) && in.scenario.training.fp8.recipe == Fp8Recipe::tensorwise;
  return value == false || in.scenario.training.precision != Precision::fp8_mixed || gathers
             ? std::optional<Flags>(Flags{})
             : std::nullopt;
}

std::optional<Flags> clip_accelerate(const Json& value, const ExportInput& in) {
  const double norm = value == true ? 1.0 : 0.0;
  Flags out = as_argument({{"job.clip", norm}});
  if (uses_zero(in)) out.push_back({"deepspeed_config.gradient_clipping", norm});
  return out;
}

std::optional<Flags> steps_accelerate(const Json&, const ExportInput& in) {
  const auto steps = whole_steps(in);
  return steps ? as_argument({{"job.steps", *steps}}) : Flags{};
}

std::optional<Flags> only_without_stages(const Json&, const ExportInput& in) {
  return plan(in).pp == 1 ? std::optional<Flags>(Flags{}) : std::nullopt;
}

const char* const kSizes = "parallelism_config.parallelism_config_{dp_replicate,dp_shard,tp,cp,sp}_size";

const std::vector<Rule>& rules_accelerate() {
  static const std::vector<Rule> table{
      {"strategy.tp", kSizes, sizes_accelerate},
      {"strategy.cp", kSizes, no_flags},
      {"strategy.context", "parallelism_config.parallelism_config_cp_comm_strategy", exchange_accelerate},
      {"strategy.dp", "(num_processes / other axes)", no_flags},
      {"strategy.dp_replicate", kSizes, no_flags},
      {"strategy.dp_shard", kSizes,
       [](const Json&, const ExportInput& in) -> std::optional<Flags> {
         return uses_zero_in_groups(in) ? std::nullopt : std::optional<Flags>(Flags{});
       },
       "deepspeed_config divides over all replicas"},
      {"strategy.fsdp.enabled", "distributed_type", no_flags},
      {"strategy.fsdp.reshard_after_forward", "fsdp_config.fsdp_reshard_after_forward", reshard_accelerate},
      {"strategy.zero_stage", "deepspeed_config.zero_stage", zero_stage_accelerate},
      {"strategy.schedule", "(no pipelines)", only_without_stages},
      {"strategy.virtual_stages", "(no pipelines)", only_without_stages},
      argument("strategy.microbatch"),
      {"strategy.sequence_parallel", "(tensor parallelism)",
       [](const Json& v, const ExportInput& in) -> std::optional<Flags> {
         return v == false || plan(in).tp == 1 ? std::optional<Flags>(Flags{}) : std::nullopt;
       },
       "transformers' plans of tensor parallelism keep sequences whole between the products"},
      {"strategy.recompute", "gradient_checkpointing, fsdp_config.fsdp_activation_checkpointing", recompute_accelerate,
       "a layer runs again as a whole, or not at all"},
      {"strategy.offload", "deepspeed_config.offload_optimizer_device, fsdp_config.fsdp_offload_params",
       offload_accelerate, "ZeRO offloads the optimizer, FSDP parameters, gradients and optimizer together"},
      {"strategy.offload_parameters", "deepspeed_config.offload_param_device, fsdp_config.fsdp_offload_params",
       offload_parameters_accelerate, "ZeRO 3 offloads parameters, and FSDP does together with the optimizer"},
      {"strategy.bucket", "ddp_bucket_cap_mb", bucket_accelerate,
       "DistributedDataParallel counts whole MiB, and deepspeed_config has no word for buckets: --to deepspeed"},
      choice("strategy.overlap.grad_reduce", "(DistributedDataParallel, FSDP)", {{true, {}}}),
      {"training.global_batch", "gradient_accumulation_steps", accumulation_accelerate},
      {"training.sequence_length", "(data)",
       [](const Json&, const ExportInput&) -> std::optional<Flags> { return std::nullopt; },
       "the data set's samples have that length"},
      {"training.precision", "mixed_precision", precision_accelerate,
       "weights of 16 bits are the model's own: load it as such"},
      {"training.fp8.recipe", "fp8_config.backend", no_flags},
      {"training.fp8.parameters", "fp8_config.enable_fsdp_float8_all_gather", fp8_parameters_accelerate,
       "torchao gathers float8 of tensorwise scales, with FSDP"},
      {"training.gradient_dtype", "(autograd)",
       [](const Json& v, const ExportInput& in) -> std::optional<Flags> {
         return v == "model" || in.scenario.training.precision == Precision::fp32 ? std::optional<Flags>(Flags{})
                                                                                  : std::nullopt;
       },
       "gradients have the type of what they belong to"},
      choice("training.optimizer", "optim",
             {{"adamw", as_argument({{"job.optimizer", "adamw"}})},
              {"adafactor", as_argument({{"job.optimizer", "adafactor"}})},
              {"sgd", as_argument({{"job.optimizer", "sgd"}})}}),
      argument("training.learning_rate"),
      argument("training.weight_decay"),
      {"training.clip_gradients", "max_grad_norm, deepspeed_config.gradient_clipping", clip_accelerate},
      {"training.tokens", "max_steps", steps_accelerate},
      argument("training.seed"),
      {"kernels.compile", "torch_compile",
       [](const Json& v, const ExportInput&) -> std::optional<Flags> {
         return v == true ? as_argument({{"kernels.compile", true}}) : Flags{};
       }},
      choice("kernels.attention", "(attn_implementation of the model)", {{"flash", {}}},
             "the model is loaded with its attention"),
      autograd_sums(),
  };
  return table;
}

/// Whether a place is one of accelerate.yaml; all others are arguments of the Trainer.
bool of_file(const Flag& f) {
  static constexpr std::array<std::string_view, 4> kBlocks{"fsdp_config", "deepspeed_config", "parallelism_config",
                                                           "fp8_config"};
  const std::string_view first = std::string_view(f.name).substr(0, f.name.find('.'));
  return first == "mixed_precision" || std::find(kBlocks.begin(), kBlocks.end(), first) != kBlocks.end();
}

/// Ranks are those of the plan: what of a machine it takes.
Flags machines(const ExportInput& in) {
  const std::vector<Pool> all = pools(in);
  Flags out{{"compute_environment", "LOCAL_MACHINE"}};
  out.push_back(in_file({{"job.distributed_type", accelerate_kind(in)}}).front());
  out.push_back({"machine_rank", 0});
  const Flags counts = in_file({{"job.nodes", node_count(all)}, {"job.gpus", node_count(all) * all.front().gpus}});
  out.insert(out.end(), counts.begin(), counts.end());
  out.push_back({"same_network", true});
  return out;
}

std::string launch_script(const ExportInput& in) {
  const bool several = node_count(pools(in)) > 1;
  return "#!/usr/bin/env bash\n" + banner(in) +
         "# TRAIN: your program, which takes the Trainer's arguments from a file (HfArgumentParser).\n" +
         (several ? "# On every machine, NODE_RANK from 0 on and MASTER_ADDR of the first.\n" : "") +
         "set -euo pipefail\n"
         "cd \"$(dirname \"${BASH_SOURCE[0]}\")\"\n\n"
         "exec accelerate launch --config_file accelerate.yaml \\\n" +
         (several ? "  --machine_rank \"${NODE_RANK:-0}\" --main_process_ip \"${MASTER_ADDR:?}\" "
                    "--main_process_port \"${MASTER_PORT:-29500}\" \\\n"
                  : "") +
         "  \"${TRAIN:-train.py}\" training_args.json \"$@\"\n";
}

Exported write_accelerate(const ExportInput& in) {
  refuse_what_cannot_start("accelerate@1.15", accelerate_start(), in);
  Mapped m = map_settings(in, rules_accelerate(), "accelerate");
  round_tokens(m, in, in.scenario.training.global_batch * in.scenario.training.sequence_length, "steps");
  Flags file = machines(in), arguments{{"output_dir", "out"}};
  for (const Flag& f : file) m.settings.push_back({"cluster", "", f.name, plain(f.value)});
  m.settings.push_back({"", "", "output_dir", "out"});
  for (const Flag& f : m.flags) (of_file(f) ? file : arguments).push_back(f);
  m.left_out.push_back({"model", in.workload.network.name, "the training script makes the model"});
  if (pools(in).size() > 1)
    m.left_out.push_back({"cluster.parts", fmt::format("{} kinds of machines", pools(in).size()),
                          "accelerate gives every rank of an axis the same share"});
  Exported out;
  out.files.push_back({"launch.sh", launch_script(in), true, false});
  out.files.push_back({"accelerate.yaml", banner(in) + yaml(nested(file)), false, false});
  out.files.push_back({"training_args.json", nested(arguments).dump(2) + "\n", false, false});
  out.settings = std::move(m.settings);
  out.left_out = std::move(m.left_out);
  out.notes.push_back(
      "run: TRAIN=train.py ./launch.sh, with a program that takes the Trainer's arguments from training_args.json; "
      "one with a loop of its own reads accelerate.yaml alone");
  return out;
}

[[maybe_unused]] const bool entered_accelerate =
    enter("accelerate", "an accelerate.yaml with the Trainer's arguments", rules_accelerate(), write_accelerate);
[[maybe_unused]] const bool named_accelerate = writes_for("accelerate", "huggingface-trainer");

}  // namespace

}  // namespace rehearse::exporting
