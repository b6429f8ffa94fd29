// torchtitan: a train.toml (torchtitan/config/job_config.py of v0.2.2, February 2026: the last release that reads TOML;
// later ones are configured in Python).

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/config/settings/strategy.hpp"
#include "core/export/setting_table.hpp"
#include "core/export/start_rules.hpp"
#include "core/export/torchtitan_models.hpp"
#include "core/strategy/workload.hpp"

namespace rehearse::exporting {

namespace {

/// Names and words are those of the table by which jobs are imported, too.
Flags torchtitan_flags(std::initializer_list<std::pair<const char*, Json>> values) {
  return said(translate::torchtitan_words(), values);
}
Rule in_torchtitan(const std::string& key, std::string why = {}) {
  return exporting::told(translate::torchtitan_words(), key, std::move(why));
}

/// The degrees say whether state is sharded, but for ranks of a sequence, which always shard it.
std::optional<Flags> said_by_degrees(const Json&, const ExportInput& in) {
  const StrategySettings& s = in.scenario.strategy;
  if (s.cp > 1 && !s.fsdp.enabled && s.zero_stage < 3) return std::nullopt;
  return Flags{};
}

std::int64_t local_batch(const ExportInput& in) {
  return in.scenario.training.global_batch / std::max(1, in.scenario.strategy.dp);
}

int shard_degree(const ExportInput& in) {
  const StrategySettings& s = in.scenario.strategy;
  return s.fsdp.enabled ? s.dp_shard : s.zero_stage == 3 ? s.dp : 1;
}

std::optional<Flags> shard(const Json&, const ExportInput& in) {
  const StrategySettings& s = in.scenario.strategy;
  if (!s.fsdp.enabled && s.zero_stage > 0 && s.zero_stage < 3) return std::nullopt;
  return torchtitan_flags({{"job.shard", shard_degree(in)}});
}

std::optional<Flags> replicate(const Json&, const ExportInput& in) {
  const StrategySettings& s = in.scenario.strategy;
  return torchtitan_flags({{"strategy.dp_replicate", s.fsdp.enabled ? s.dp_replicate : s.zero_stage == 3 ? 1 : s.dp}});
}

/// torchtitan takes experts' ranks from the shards, cp and tp (torchtitan/distributed/parallel_dims.py), not from
/// replicas.
std::optional<Flags> experts(const Json& value, const ExportInput& in) {
  const StrategySettings& s = in.scenario.strategy;
  if (in.workload.network.routing() == nullptr || value == 1) return Flags{};
  return shard_degree(in) * s.cp * s.tp % s.ep == 0 ? std::optional<Flags>(torchtitan_flags({{"strategy.ep", value}}))
                                                    : std::nullopt;
}

/// What ParallelDims._validate takes, and apply_moe_ep_tp does.
std::optional<Flags> experts_split(const Json&, const ExportInput& in) {
  const StrategySettings& s = in.scenario.strategy;
  if (in.workload.network.routing() == nullptr) return Flags{};
  if (s.ep == 1) return s.etp == s.tp ? std::optional<Flags>(Flags{}) : std::nullopt;
  return s.etp == 1 || s.etp == s.tp ? std::optional<Flags>(torchtitan_flags({{"strategy.etp", s.etp}})) : std::nullopt;
}

/// torchtitan counts embedding and head as a layer each unless told not to. Stages that differ are cut by name.
std::optional<Flags> pipeline(const Json& value, const ExportInput& in) {
  if (value == 1 || !chunk_layers(in).empty()) return torchtitan_flags({{"strategy.pp", value}});
  return torchtitan_flags({{"strategy.pp", value}, {"job.first_stage_less", 0}, {"job.last_stage_less", 0}});
}

std::optional<Flags> schedule_torchtitan(const Json& value, const ExportInput& in) {
  if (in.scenario.strategy.pp == 1) return Flags{};
  return translate::torchtitan_words().say("strategy.schedule", value);
}

/// All of it together, as torchtitan's "full", "selective", "none".
std::optional<Flags> recompute_torchtitan(const Json& value, const ExportInput& in) {
  if (value == "none" || value == "full")
    return in.scenario.strategy.recompute_layers == 1
               ? std::optional<Flags>(torchtitan_flags({{"job.checkpoint_mode", value}}))
               : std::nullopt;
  // Its policy by operators keeps every second product.
  const std::vector<std::string> by_operators{"every_second_product"};
  return in.scenario.strategy.recompute_modules == by_operators
             ? std::optional<Flags>(
                   torchtitan_flags({{"job.checkpoint_mode", "selective"}, {"job.selective_option", "op"}}))
             : std::nullopt;
}

const std::vector<Rule>& rules_torchtitan() {
  static const std::vector<Rule> table{
      in_torchtitan("strategy.tp"),
      {"strategy.pp", "parallelism.pipeline_parallel_degree", pipeline},
      in_torchtitan("strategy.cp"),
      {"strategy.ep", "parallelism.expert_parallel_degree", experts,
       "torchtitan takes experts' ranks from data_parallel_shard_degree * context_parallel_degree * "
       "tensor_parallel_degree, which ep must divide; replicas do not count: set the degrees of sharding and of "
       "experts yourself"},
      {"strategy.etp", "parallelism.expert_tensor_parallel_degree", experts_split,
       "torchtitan splits each expert over tp ranks where experts have no ranks of their own, else over tp or 1"},
      {"strategy.dp", "(replicate * shard)", no_flags},
      {"strategy.dp_replicate", "parallelism.data_parallel_replicate_degree", replicate},
      {"strategy.dp_shard", "parallelism.data_parallel_shard_degree", shard,
       "torchtitan shards parameters with gradients and optimizer state, or nothing"},
      {"strategy.zero_stage", "parallelism.data_parallel_shard_degree",
       [](const Json& v, const ExportInput&) -> std::optional<Flags> {
         return v == 0 || v == 3 ? std::optional<Flags>(Flags{}) : std::nullopt;
       },
       "torchtitan shards parameters with gradients and optimizer state, or nothing"},
      {"strategy.fsdp.enabled", "(data_parallel_shard_degree)", said_by_degrees,
       "ranks of a sequence always shard parameters there (ParallelDims.fsdp_enabled)"},
      in_torchtitan("strategy.fsdp.reshard_after_forward"),
      {"strategy.microbatch", "parallelism.pipeline_parallel_microbatch_size, training.local_batch_size",
       [](const Json& v, const ExportInput& in) -> std::optional<Flags> {
         if (in.scenario.strategy.pp == 1) return torchtitan_flags({{"job.local_batch", v}});
         return torchtitan_flags({{"job.local_batch", local_batch(in)}, {"job.pipeline_microbatch", v}});
       }},
      {"strategy.schedule", "parallelism.pipeline_parallel_schedule", schedule_torchtitan,
       "torchtitan has 1F1B, GPipe, Interleaved1F1B and ZBVZeroBubble"},
      {"strategy.virtual_stages", "parallelism.pipeline_parallel_layers_per_stage",
       [](const Json& v, const ExportInput& in) -> std::optional<Flags> {
         const StrategySettings& s = in.scenario.strategy;
         if (s.pp == 1 || v == 1) return Flags{};
         const int chunks = s.pp * s.virtual_stages, layers = in.workload.network.layers();
         return chunk_layers(in).empty() ? torchtitan_flags({{"job.layers_per_chunk", layers / chunks}}) : Flags{};
       }},
      {"strategy.layers_per_stage", "parallelism.module_fqns_per_model_part", no_flags},
      {"strategy.uneven_layers", "parallelism.module_fqns_per_model_part", no_flags},
      in_torchtitan("strategy.context", "torchtitan exchanges keys and values between context-parallel ranks"),
      {"strategy.sequence_parallel", "(with tensor parallelism)",
       [](const Json& v, const ExportInput& in) -> std::optional<Flags> {
         return v == true || in.scenario.strategy.tp == 1 ? std::optional<Flags>(Flags{}) : std::nullopt;
       },
       "torchtitan's tensor parallelism is always sequence-parallel"},
      {"strategy.recompute", "activation_checkpoint.mode", recompute_torchtitan,
       "torchtitan's selective modes recompute every second layer or chosen operators, not these modules"},
      {"strategy.overlap.tp", "parallelism.enable_async_tensor_parallel",
       [](const Json& v, const ExportInput& in) -> std::optional<Flags> {
         return torchtitan_flags({{"strategy.overlap.tp", v == true && in.scenario.strategy.tp > 1}});
       }},
      {"kernels.compile", "compile.enable",
       [](const Json& v, const ExportInput&) -> std::optional<Flags> {
         return v == true ? torchtitan_flags({{"kernels.compile", true}}) : Flags{};
       }},
      choice("strategy.offload", "training.enable_cpu_offload",
             {{"none", torchtitan_flags({{"job.cpu_offload", false}})}},
             "torchtitan offloads parameters, gradients and optimizer state together, or nothing"),
      {"training.global_batch", "training.global_batch_size",
       [](const Json& v, const ExportInput&) -> std::optional<Flags> {
         return torchtitan_flags({{"job.global_batch", v}});
       }},
      in_torchtitan("training.sequence_length"),
      {"training.precision", "training.mixed_precision_param, model.converters",
       [](const Json& v, const ExportInput& in) -> std::optional<Flags> {
         if (v == "bf16_mixed") return torchtitan_flags({{"job.parameter_type", "bf16"}});
         if (v == "fp32") return torchtitan_flags({{"job.parameter_type", "fp32"}});
         if (v != "fp8_mixed") return std::nullopt;
         const Fp8Recipe r = in.scenario.training.fp8.recipe;  // Others can't start (torchtitan_start.cpp).
         if (r == Fp8Recipe::mxfp8)
           return torchtitan_flags(
               {{"job.parameter_type", "bf16"}, {"job.converters", Json::array({"quantize.linear.mx"})}});
         const Json converters = Json::array({"quantize.linear.float8"});
         if (r != Fp8Recipe::rowwise)
           return torchtitan_flags({{"job.parameter_type", "bf16"}, {"job.converters", converters}});
         return torchtitan_flags(
             {{"job.parameter_type", "bf16"}, {"job.converters", converters}, {"training.fp8.recipe", "rowwise"}});
       },
       "torchtitan has bfloat16 and float32, and float8 by tensorwise, rowwise and mx recipes"},
      {"training.fp8.recipe", "quantize.linear.float8.recipe_name",
       [](const Json& v, const ExportInput& in) -> std::optional<Flags> {
         if (in.scenario.training.precision != Precision::fp8_mixed || v == "tensorwise" || v == "rowwise" ||
             v == "mxfp8")
           return Flags{};
         return std::nullopt;
       }},
      {"training.fp8.parameters", "quantize.linear.float8.enable_fsdp_float8_all_gather",
       [](const Json& v, const ExportInput& in) -> std::optional<Flags> {
         if (v == false || in.scenario.training.precision != Precision::fp8_mixed) return Flags{};
         const bool gathers = in.scenario.training.fp8.recipe == Fp8Recipe::tensorwise && shard_degree(in) > 1;
         return gathers ? std::optional<Flags>(torchtitan_flags({{"training.fp8.parameters", true}})) : std::nullopt;
       },
       "torchtitan gathers float8 only of tensorwise scales, over ranks that shard parameters"},
      choice("training.gradient_dtype", "training.mixed_precision_reduce",
             {{"fp32", torchtitan_flags({{"training.gradient_dtype", "fp32"}})}}, "torchtitan reduces in float32"),
      in_torchtitan("training.optimizer"),
      in_torchtitan("training.learning_rate"),
      in_torchtitan("training.weight_decay"),
      choice("training.clip_gradients", "training.max_norm", {{true, torchtitan_flags({{"job.clip", 1.0}})}},
             "torchtitan always clips; a large max_norm does nothing"),
      {"training.tokens", "training.steps",
       [](const Json&, const ExportInput& in) -> std::optional<Flags> {
         const auto steps = whole_steps(in);
         return steps ? torchtitan_flags({{"job.steps", *steps}}) : Flags{};
       }},
      in_torchtitan("training.seed"),
      autograd_sums(),
      choice("kernels.attention", "(flash by scaled_dot_product_attention)", {{"flash", {}}}),
  };
  return table;
}

Exported write_torchtitan(const ExportInput& in) {
  (void)trained_by("torchtitan", in);
  refuse_what_cannot_start("torchtitan@0.2.2", torchtitan_start(), in);
  Mapped m = map_settings(in, rules_torchtitan(), "torchtitan");
  if (const Json parts = torchtitan_parts(in, "output"); !parts.empty()) {
    m.flags.push_back(torchtitan_flags({{"job.module_parts", parts}}).front());
    m.settings.push_back({"strategy.layers_per_stage", fmt::format("{}", fmt::join(chunk_layers(in), " ")),
                          m.flags.back().name, plain(parts)});
  }
  if (const auto known = torchtitan_model(*in.transformer))
    add_model(m, torchtitan_flags({{"job.model_name", known->name}, {"job.flavor", known->flavor}}));
  else
    m.left_out.push_back({"model", in.workload.network.name,
                          "torchtitan knows it by no name and flavor: register it (torchtitan/models), then set "
                          "model.name and model.flavor"});
  round_tokens(m, in, in.scenario.training.global_batch * in.scenario.training.sequence_length, "steps");
  if (in.scenario.strategy.zero_stage == 3 && !in.scenario.strategy.fsdp.enabled) {
    m.left_out.push_back({"strategy.zero_stage", "3",
                          "written as what shards the same there, PyTorch's FSDP: strategy.fsdp.enabled=true"});
    for (const char* key : {"strategy.fsdp.enabled", "strategy.dp_shard", "strategy.dp_replicate"})
      m.left_out.push_back({key, "", "likewise"});
  }
  if (pools(in).size() > 1)
    m.left_out.push_back({"cluster.parts", fmt::format("{} kinds of machines", pools(in).size()),
                          "torchtitan gives every rank of an axis the same share"});
  Exported out;
  out.files.push_back(
      {"train.toml",
       banner(in) +
           "# For torchtitan v0.2.2, the last release that reads TOML; later ones are configured in Python.\n\n" +
           toml(nested(m.flags)),
       false, false});
  out.settings = std::move(m.settings);
  out.left_out = std::move(m.left_out);
  out.notes.push_back(
      "for torchtitan v0.2.2 (git checkout v0.2.2): later releases are configured in Python and read no .toml");
  out.notes.push_back(fmt::format(
      "run on every node: torchrun --nnodes {} --nproc-per-node {} -m torchtitan.train --job.config_file train.toml",
      node_count(pools(in)), pools(in).front().gpus));
  return out;
}

[[maybe_unused]] const bool entered_torchtitan =
    enter("torchtitan", "a train.toml of torchtitan", rules_torchtitan(), write_torchtitan);
[[maybe_unused]] const bool named_torchtitan = writes_for("torchtitan", "torchtitan@0.2.2");

}  // namespace

}  // namespace rehearse::exporting
