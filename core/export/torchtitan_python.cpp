// torchtitan as it is configured from its release 0.3 on: a function in Python that returns a Trainer.Config.
// pytorch/torchtitan @b5bcd76c66d0 (August 2026): torchtitan/config/configs.py, config/manager.py, trainer.py,
// models/*/__init__.py and config_registry.py.

#include <fmt/format.h>

#include "core/config/settings/strategy.hpp"
#include "core/export/setting_table.hpp"
#include "core/export/start_rules.hpp"
#include "core/export/torchtitan_models.hpp"
#include "core/strategy/workload.hpp"

namespace rehearse::exporting {

namespace {

/// Places in a Trainer.Config, "parallelism.tensor_parallel_degree".
Rule in_python(std::string key, std::string place) {
  return {std::move(key), place, [place](const Json& v, const ExportInput&) -> std::optional<Flags> {
            return Flags{{place, v}};
          }};
}

std::int64_t tokens(const ExportInput& in, std::int64_t sequences) {
  return sequences * in.scenario.training.sequence_length;
}

int python_shards(const ExportInput& in) {
  const StrategySettings& s = plan(in);
  return uses_fsdp(in) ? s.dp_shard : s.zero_stage == 3 ? s.dp : 1;
}

std::optional<Flags> replicas_in_python(const Json&, const ExportInput& in) {
  const StrategySettings& s = plan(in);
  const std::string p = "parallelism.data_parallel_";
  return Flags{{p + "replicate_degree", s.dp / python_shards(in)}, {p + "shard_degree", python_shards(in)}};
}

/// Ranks of a sequence always shard parameters there, too (ParallelDims.fsdp_enabled).
std::optional<Flags> shards_in_python(const Json&, const ExportInput& in) {
  return plan(in).cp > 1 && python_shards(in) == 1 ? std::nullopt : std::optional<Flags>(Flags{});
}

std::optional<Flags> stages_in_python(const Json& value, const ExportInput& in) {
  Flags out{{"parallelism.pipeline_parallel_degree", value}};
  if (value == 1) return out;
  const StrategySettings& s = plan(in);
  const std::int64_t microbatches = in.scenario.training.global_batch / (s.microbatch * std::max(1, s.dp));
  out.push_back({"parallelism.num_pp_microbatches", microbatches});
  if (!chunk_layers(in).empty()) return out;
  out.push_back({"parallelism.pipeline_parallel_first_stage_less_layers", 0});
  out.push_back({"parallelism.pipeline_parallel_last_stage_less_layers", 0});
  if (s.virtual_stages > 1)
    out.push_back({"parallelism.pipeline_parallel_layers_per_stage",
                   in.workload.network.layers() / (std::int64_t{s.pp} * s.virtual_stages)});
  return out;
}

std::optional<Flags> schedule_in_python(const Json& value, const ExportInput& in) {
  if (plan(in).pp == 1) return Flags{};
  const auto flags = translate::torchtitan_words().say("strategy.schedule", value);
  return flags;
}

std::optional<Flags> recompute_in_python(const Json& value, const ExportInput& in) {
  const std::string place = "activation_checkpoint";
  if (value == "none") return Flags{{place, "None"}};
  if (value == "full") return plan(in).recompute_layers == 1 ? std::optional(Flags{{place, "FullAC"}}) : std::nullopt;
  return plan(in).recompute_modules == std::vector<std::string>{"every_second_product"}
             ? std::optional(Flags{{place, "SelectiveAC"}})
             : std::nullopt;
}

std::optional<Flags> precision_in_python(const Json& value, const ExportInput& in) {
  if (value == "fp32") return Flags{{"training.mixed_precision_param", "float32"}};
  const Flag bf16{"training.mixed_precision_param", "bfloat16"};
  if (value == "bf16_mixed") return Flags{bf16};
  if (value == "bf16") return Flags{bf16, {"training.dtype", "bfloat16"}};
  if (value != "fp8_mixed") return std::nullopt;
  const bool mx = in.scenario.training.fp8.recipe == Fp8Recipe::mxfp8;  // Others are refused at the start.
  return Flags{bf16, {"model_spec.converters", mx ? "MXFP8LinearConverter" : "Float8LinearConverter"}};
}

/// Experts lie over shards, sequences and tensors, and then each is whole; without ranks of their own they are split as
/// the layers around them.
std::optional<Flags> experts_in_python(const Json& value, const ExportInput& in) {
  const StrategySettings& s = plan(in);
  if (in.workload.network.routing() == nullptr || value == 1) return Flags{};
  return python_shards(in) * s.cp * s.tp % s.ep == 0
             ? std::optional(Flags{{"parallelism.expert_parallel_degree", value}})
             : std::nullopt;
}

const std::vector<Rule>& rules_torchtitan_python() {
  static const std::vector<Rule> table{
      in_python("strategy.tp", "parallelism.tensor_parallel_degree"),
      {"strategy.pp", "parallelism.pipeline_parallel_degree, parallelism.num_pp_microbatches", stages_in_python},
      {"strategy.layers_per_stage", "parallelism.module_fqns_per_model_part", no_flags},
      {"strategy.uneven_layers", "parallelism.module_fqns_per_model_part", no_flags},
      in_python("strategy.cp", "parallelism.context_parallel_degree"),
      {"strategy.ep", "parallelism.expert_parallel_degree", experts_in_python,
       "torchtitan takes experts' ranks from shards, sequences and tensors, which ep must divide; replicas do not "
       "count: set the degrees of sharding and of experts yourself"},
      {"strategy.etp", "(experts of their own ranks are whole)",
       [](const Json& v, const ExportInput& in) -> std::optional<Flags> {
         if (in.workload.network.routing() == nullptr) return Flags{};
         return v == (plan(in).ep == 1 ? plan(in).tp : 1) ? std::optional(Flags{}) : std::nullopt;
       },
       "torchtitan splits each expert over tp ranks where experts have no ranks of their own, else not"},
      {"strategy.dp", "parallelism.data_parallel_{replicate,shard}_degree", replicas_in_python},
      {"strategy.dp_replicate", "parallelism.data_parallel_replicate_degree", no_flags},
      {"strategy.dp_shard", "parallelism.data_parallel_shard_degree", no_flags},
      {"strategy.zero_stage", "parallelism.data_parallel_shard_degree",
       [](const Json& v, const ExportInput&) -> std::optional<Flags> {
         return v == 0 || v == 3 ? std::optional(Flags{}) : std::nullopt;
       },
       "torchtitan shards parameters with gradients and optimizer state, or nothing"},
      {"strategy.fsdp.enabled", "parallelism.data_parallel_shard_degree", shards_in_python,
       "ranks of a sequence always shard parameters there (ParallelDims.fsdp_enabled)"},
      {"strategy.fsdp.reshard_after_forward", "parallelism.fsdp_reshard_after_forward",
       [](const Json& v, const ExportInput&) -> std::optional<Flags> {
         return Flags{{"parallelism.fsdp_reshard_after_forward", v == "auto" ? Json("default") : v}};
       }},
      {"strategy.microbatch", "training.num_tokens_per_microbatch_per_dp_rank",
       [](const Json& v, const ExportInput& in) -> std::optional<Flags> {
         return Flags{{"training.num_tokens_per_microbatch_per_dp_rank", tokens(in, v.get<std::int64_t>())}};
       }},
      {"strategy.schedule", "parallelism.pipeline_parallel_schedule", schedule_in_python,
       "torchtitan has 1F1B, GPipe, Interleaved1F1B and ZBVZeroBubble"},
      {"strategy.virtual_stages", "parallelism.pipeline_parallel_layers_per_stage", no_flags},
      {"strategy.context", "(FlexAttention)",
       [](const Json& v, const ExportInput& in) -> std::optional<Flags> {
         return v == "allgather" || plan(in).cp == 1 ? std::optional(Flags{}) : std::nullopt;
       },
       "torchtitan gathers keys and values of a sequence's ranks"},
      in_python("strategy.sequence_parallel", "parallelism.enable_sequence_parallel"),
      {"strategy.recompute", "activation_checkpoint", recompute_in_python,
       "torchtitan recomputes whole layers or chosen operators, not these modules"},
      {"strategy.overlap.tp", "compile.enable_async_tensor_parallel",
       [](const Json& v, const ExportInput& in) -> std::optional<Flags> {
         return Flags{{"compile.enable_async_tensor_parallel", v == true && plan(in).tp > 1}};
       }},
      choice("strategy.offload", "training.enable_cpu_offload", {{"none", {{"training.enable_cpu_offload", false}}}},
             "torchtitan offloads parameters, gradients and optimizer state together, or nothing"),
      {"training.global_batch", "training.num_tokens_per_train_step",
       [](const Json& v, const ExportInput& in) -> std::optional<Flags> {
         return Flags{{"training.num_tokens_per_train_step", tokens(in, v.get<std::int64_t>())}};
       }},
      in_python("training.sequence_length", "training.max_context_length"),
      {"training.precision", "training.mixed_precision_param, model_spec.converters", precision_in_python,
       "torchtitan has bfloat16 and float32, and float8 by rowwise and mx recipes"},
      {"training.fp8.recipe", "model_spec.converters", no_flags},
      {"training.fp8.parameters", "(torchao)",
       [](const Json& v, const ExportInput& in) -> std::optional<Flags> {
         return v == false || in.scenario.training.precision != Precision::fp8_mixed ? std::optional(Flags{})
                                                                                     : std::nullopt;
       },
       "parameters are gathered in bfloat16"},
      choice("training.gradient_dtype", "training.mixed_precision_reduce",
             {{"fp32", {{"training.mixed_precision_reduce", "float32"}}}}, "torchtitan reduces in float32"),
      choice("training.optimizer", "optimizer", {{"adamw", {{"optimizer.name", "AdamW"}}}},
             "default_adamw makes AdamW: name your own groups of parameters"),
      in_python("training.learning_rate", "optimizer.lr"),
      in_python("training.weight_decay", "optimizer.weight_decay"),
      choice("training.clip_gradients", "training.max_norm", {{true, {{"training.max_norm", 1.0}}}},
             "torchtitan always clips; a large max_norm does nothing"),
      {"training.tokens", "training.steps",
       [](const Json&, const ExportInput& in) -> std::optional<Flags> {
         const auto steps = whole_steps(in);
         return steps ? Flags{{"training.steps", *steps}} : Flags{};
       }},
      in_python("training.seed", "debug.seed"),
      in_python("kernels.compile", "compile.enable"),
      {"kernels.cuda_graphs", "training.disable_cuda_graphs",
       [](const Json& v, const ExportInput&) -> std::optional<Flags> {
         return Flags{{"training.disable_cuda_graphs", v == false}};
       }},
      autograd_sums(),
      choice("kernels.attention", "(FlexAttention)", {{"flash", {}}}),
  };
  return table;
}

/// A value as Python writes it.
std::string literal(const Json& value) {
  if (value.is_null()) return "None";
  if (value.is_boolean()) return value == true ? "True" : "False";
  if (!value.is_array()) return value.dump();
  std::string out;
  for (const Json& v : value) out += (out.empty() ? "" : ", ") + literal(v);
  return "[" + out + "]";
}

/// "        training=TrainingConfig(...),": what the flags say of one part.
std::string part_of_config(const Flags& flags, const std::string& name, const std::string& type) {
  std::string out;
  for (const Flag& f : flags)
    if (f.name.starts_with(name + "."))
      out += fmt::format("            {}={},\n", f.name.substr(name.size() + 1), literal(f.value));
  return out.empty() ? out : fmt::format("        {}={}(\n{}        ),\n", name, type, out);
}

std::string said_of(const Flags& flags, const std::string& name) {
  for (const Flag& f : flags)
    if (f.name == name) return f.value.is_string() ? f.value.get<std::string>() : literal(f.value);
  return {};
}

std::string python_config(const ExportInput& in, const Flags& flags, const std::optional<TitanModel>& model) {
  const std::string converter = said_of(flags, "model_spec.converters"), kept = said_of(flags, "activation_checkpoint"),
                    compile = said_of(flags, "compile.enable");
  std::string out = banner(in) +
                    "# For torchtitan from 0.3 on, as of pytorch/torchtitan @b5bcd76c66d0. The data set is that of its "
                    "own configurations: put yours in its place.\n";
  out +=
      "from torchtitan.components.data import ConcatThenSplitPackingConfig, GrainDataLoader\n"
      "from torchtitan.components.loss import ChunkedLossWrapper, CrossEntropyLoss\n"
      "from torchtitan.components.optimizer import default_adamw\n";
  if (!converter.empty()) out += fmt::format("from torchtitan.components.quantization import {}\n", converter);
  out +=
      "from torchtitan.config import CompileConfig, ParallelismConfig, TrainingConfig\n"
      "from torchtitan.config.configs import DebugConfig\n";
  if (!kept.empty() && kept != "None")
    out += fmt::format("from torchtitan.distributed.activation_checkpoint import {}\n", kept);
  out +=
      "from torchtitan.hf_datasets.text_datasets import DATASETS\n"
      "from torchtitan.models.common.config_utils import decoder_vocab_size\n";
  out += model ? fmt::format("from torchtitan.models.{} import model_registry\n", model->name)
               : "from my_model import model_registry  # Yours: torchtitan has no model of these sizes.\n";
  out += "from torchtitan.trainer import Trainer\n\n\ndef plan() -> Trainer.Config:\n    model_spec = model_registry(";
  out += literal(model ? model->flavor : "plan");
  if (in.scenario.strategy.cp > 1 && model && model->name == "gpt_oss") out += ", attn_backend=\"flex\"";
  if (!converter.empty()) out += fmt::format(", converters=[{}.Config(model_compile_enabled={})]", converter, compile);
  out +=
      ")\n    return Trainer.Config(\n        model_spec=model_spec,\n        loss=ChunkedLossWrapper.Config(\n"
      "            loss_fn=CrossEntropyLoss.Config(global_vocab_size=decoder_vocab_size(model_spec)),\n        ),\n";
  Flags adamw;
  for (const Flag& f : flags)
    if (f.name != "optimizer.name") adamw.push_back(f);
  out += part_of_config(adamw, "optimizer", "default_adamw");
  out += part_of_config(flags, "training", "TrainingConfig");
  out += part_of_config(flags, "parallelism", "ParallelismConfig");
  out += part_of_config(flags, "compile", "CompileConfig");
  out += part_of_config(flags, "debug", "DebugConfig");
  out += fmt::format("        activation_checkpoint={},\n", kept == "None" ? kept : kept + ".Config()");
  return out +
         "        dataloader=GrainDataLoader.Config(dataset=ConcatThenSplitPackingConfig(dataset=DATASETS[\"c4\"])),\n"
         "    )\n";
}

Exported write_torchtitan_python(const ExportInput& in) {
  (void)trained_by("torchtitan", in);
  refuse_what_cannot_start("torchtitan@0.3.0rc1", torchtitan_python_start(), in);
  Mapped m = map_settings(in, rules_torchtitan_python(), "torchtitan");
  if (said_of(m.flags, "activation_checkpoint").empty()) m.flags.push_back({"activation_checkpoint", "None"});
  if (const Json parts = torchtitan_parts(in, "lm_head"); !parts.empty()) {
    m.flags.push_back({"parallelism.module_fqns_per_model_part", parts});
    m.settings.push_back({"strategy.layers_per_stage", "", m.flags.back().name, plain(parts)});
  }
  const auto known = torchtitan_model(*in.transformer);
  if (known)
    m.settings.push_back({"model", "", "model_spec.flavor", known->flavor});
  else
    m.left_out.push_back(
        {"model", in.workload.network.name, "torchtitan knows it by no flavor: give it a model_registry of your own"});
  round_tokens(m, in, tokens(in, in.scenario.training.global_batch), "steps");
  if (in.scenario.strategy.zero_stage == 3 && !uses_fsdp(in))
    m.left_out.push_back({"strategy.zero_stage", "3",
                          "written as what shards the same there, PyTorch's FSDP: strategy.fsdp.enabled=true"});
  if (pools(in).size() > 1)
    m.left_out.push_back({"cluster.parts", fmt::format("{} kinds of machines", pools(in).size()),
                          "torchtitan gives every rank of an axis the same share"});
  Exported out;
  out.files.push_back({"plan.py", python_config(in, m.flags, known), false, false});
  out.settings = std::move(m.settings);
  out.left_out = std::move(m.left_out);
  out.notes.push_back(
      "for torchtitan from 0.3 on, which is configured in Python: --to torchtitan writes the TOML of v0.2.2");
  out.notes.push_back(
      fmt::format("run on every node: PYTHONPATH=. torchrun --nnodes {} --nproc-per-node {} -m torchtitan.train "
                  "--module plan --config plan",
                  node_count(pools(in)), pools(in).front().gpus));
  return out;
}

[[maybe_unused]] const bool entered_torchtitan_python =
    enter("torchtitan_python", "a configuration in Python of torchtitan 0.3", rules_torchtitan_python(),
          write_torchtitan_python);
[[maybe_unused]] const bool named_torchtitan_python = writes_for("torchtitan_python", "torchtitan@0.3.0rc1");

}  // namespace

}  // namespace rehearse::exporting
