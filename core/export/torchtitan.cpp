// torchtitan: a train.toml (torchtitan/config/job_config.py of v0.2.2, February 2026: the last release that reads TOML;
// later ones are configured in Python).

#include <fmt/format.h>

#include "core/config/settings/strategy.hpp"
#include "core/export/setting_table.hpp"
#include "core/strategy/workload.hpp"

namespace rehearse::exporting {

namespace {

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
  return Flags{{"parallelism.data_parallel_shard_degree", shard_degree(in)}};
}

std::optional<Flags> replicate(const Json&, const ExportInput& in) {
  const StrategySettings& s = in.scenario.strategy;
  return Flags{{"parallelism.data_parallel_replicate_degree", s.fsdp.enabled      ? s.dp_replicate
                                                              : s.zero_stage == 3 ? 1
                                                                                  : s.dp}};
}

/// torchtitan takes experts' ranks from the shards, cp and tp (torchtitan/distributed/parallel_dims.py), not from
/// replicas.
std::optional<Flags> experts(const Json& value, const ExportInput& in) {
  const StrategySettings& s = in.scenario.strategy;
  if (in.workload.network.routing() == nullptr || value == 1) return Flags{};
  return shard_degree(in) * s.cp * s.tp % s.ep == 0
             ? std::optional<Flags>(Flags{{"parallelism.expert_parallel_degree", value}})
             : std::nullopt;
}

/// torchtitan counts embedding and head as a layer each unless told not to.
std::optional<Flags> pipeline(const Json& value, const ExportInput&) {
  Flags out{{"parallelism.pipeline_parallel_degree", value}};
  if (value != 1)
    out.insert(out.end(), {{"parallelism.pipeline_parallel_first_stage_less_layers", 0},
                           {"parallelism.pipeline_parallel_last_stage_less_layers", 0}});
  return out;
}

std::optional<Flags> schedule_torchtitan(const Json& value, const ExportInput& in) {
  if (in.scenario.strategy.pp == 1) return Flags{};
  static const std::vector<std::pair<std::string, std::string>> kNames{
      {"1f1b", "1F1B"}, {"gpipe", "GPipe"}, {"interleaved_1f1b", "Interleaved1F1B"}, {"zb_v", "ZBVZeroBubble"}};
  for (const auto& [ours, theirs] : kNames)
    if (value == ours) return Flags{{"parallelism.pipeline_parallel_schedule", theirs}};
  return std::nullopt;
}

/// All of it together, as torchtitan's "full", "selective", "none".
std::optional<Flags> recompute_torchtitan(const Json& value, const ExportInput& in) {
  if (value == "none" || value == "full")
    return in.scenario.strategy.recompute_layers == 1
               ? std::optional<Flags>(Flags{{"activation_checkpoint.mode", value}})
               : std::nullopt;
  return std::nullopt;
}

const std::vector<Rule>& rules_torchtitan() {
  static const std::vector<Rule> table{
      as_is("strategy.tp", "parallelism.tensor_parallel_degree"),
      {"strategy.pp", "parallelism.pipeline_parallel_degree", pipeline},
      as_is("strategy.cp", "parallelism.context_parallel_degree"),
      {"strategy.ep", "parallelism.expert_parallel_degree", experts,
       "torchtitan takes experts' ranks from data_parallel_shard_degree * context_parallel_degree * "
       "tensor_parallel_degree, which ep must divide; replicas do not count: set the degrees of sharding and of "
       "experts yourself"},
      {"strategy.dp", "(replicate * shard)", no_flags},
      {"strategy.dp_replicate", "parallelism.data_parallel_replicate_degree", replicate},
      {"strategy.dp_shard", "parallelism.data_parallel_shard_degree", shard,
       "torchtitan shards parameters with gradients and optimizer state, or nothing"},
      {"strategy.zero_stage", "parallelism.data_parallel_shard_degree",
       [](const Json& v, const ExportInput&) -> std::optional<Flags> {
         return v == 0 || v == 3 ? std::optional<Flags>(Flags{}) : std::nullopt;
       },
       "torchtitan shards parameters with gradients and optimizer state, or nothing"},
      {"strategy.fsdp.enabled", "(data_parallel_shard_degree)", no_flags},
      choice("strategy.fsdp.reshard_after_forward", "parallelism.fsdp_reshard_after_forward",
             {{"auto", {{"parallelism.fsdp_reshard_after_forward", "default"}}},
              {"always", {{"parallelism.fsdp_reshard_after_forward", "always"}}},
              {"never", {{"parallelism.fsdp_reshard_after_forward", "never"}}}}),
      {"strategy.microbatch", "parallelism.pipeline_parallel_microbatch_size, training.local_batch_size",
       [](const Json& v, const ExportInput& in) -> std::optional<Flags> {
         if (in.scenario.strategy.pp == 1) return Flags{{"training.local_batch_size", v}};
         return Flags{{"training.local_batch_size", local_batch(in)},
                      {"parallelism.pipeline_parallel_microbatch_size", v}};
       }},
      {"strategy.schedule", "parallelism.pipeline_parallel_schedule", schedule_torchtitan,
       "torchtitan has 1F1B, GPipe, Interleaved1F1B and ZBVZeroBubble"},
      {"strategy.virtual_stages", "parallelism.pipeline_parallel_layers_per_stage",
       [](const Json& v, const ExportInput& in) -> std::optional<Flags> {
         const StrategySettings& s = in.scenario.strategy;
         if (s.pp == 1 || v == 1) return Flags{};
         const int chunks = s.pp * s.virtual_stages, layers = in.workload.network.layers();
         return layers % chunks == 0
                    ? std::optional<Flags>(Flags{{"parallelism.pipeline_parallel_layers_per_stage", layers / chunks}})
                    : std::nullopt;
       }},
      choice("strategy.context", "parallelism.context_parallel_rotate_method",
             {{"ring", {{"parallelism.context_parallel_rotate_method", "alltoall"}}},
              {"allgather", {{"parallelism.context_parallel_rotate_method", "allgather"}}}},
             "torchtitan exchanges keys and values between context-parallel ranks"),
      {"strategy.sequence_parallel", "(with tensor parallelism)",
       [](const Json& v, const ExportInput& in) -> std::optional<Flags> {
         return v == true || in.scenario.strategy.tp == 1 ? std::optional<Flags>(Flags{}) : std::nullopt;
       },
       "torchtitan's tensor parallelism is always sequence-parallel"},
      {"strategy.recompute", "activation_checkpoint.mode", recompute_torchtitan,
       "torchtitan's selective modes recompute every second layer or chosen operators, not these modules"},
      choice("strategy.overlap.tp", "parallelism.enable_async_tensor_parallel",
             {{true, {{"parallelism.enable_async_tensor_parallel", true}, {"compile.enable", true}}},
              {false, {{"parallelism.enable_async_tensor_parallel", false}}}}),
      choice("strategy.offload", "training.enable_cpu_offload", {{"none", {{"training.enable_cpu_offload", false}}}},
             "torchtitan offloads parameters, gradients and optimizer state together, or nothing"),
      as_is("training.global_batch", "training.global_batch_size"),
      as_is("training.sequence_length", "training.seq_len"),
      {"training.precision", "training.mixed_precision_param, model.converters",
       [](const Json& v, const ExportInput& in) -> std::optional<Flags> {
         if (v == "bf16_mixed") return Flags{{"training.mixed_precision_param", "bfloat16"}};
         if (v == "fp32") return Flags{{"training.mixed_precision_param", "float32"}};
         if (v != "fp8_mixed") return std::nullopt;
         const Fp8Recipe r = in.scenario.training.fp8.recipe;
         if (r == Fp8Recipe::mxfp8)
           return Flags{{"training.mixed_precision_param", "bfloat16"},
                        {"model.converters", Json::array({"quantize.linear.mx"})}};
         if (r != Fp8Recipe::tensorwise && r != Fp8Recipe::rowwise) return std::nullopt;
         Flags out{{"training.mixed_precision_param", "bfloat16"},
                   {"model.converters", Json::array({"quantize.linear.float8"})}};
         if (r == Fp8Recipe::rowwise) out.push_back({"quantize.linear.float8.recipe_name", "rowwise"});
         return out;
       },
       "torchtitan has bfloat16 and float32, and float8 by tensorwise, rowwise and mx recipes"},
      {"training.fp8.recipe", "quantize.linear.float8.recipe_name",
       [](const Json& v, const ExportInput& in) -> std::optional<Flags> {
         if (in.scenario.training.precision != Precision::fp8_mixed || v == "tensorwise" || v == "rowwise" ||
             v == "mxfp8")
           return Flags{};
         return std::nullopt;
       }},
      choice("training.fp8.parameters", "quantize.linear.float8.enable_fsdp_float8_all_gather",
             {{false, {}}, {true, {{"quantize.linear.float8.enable_fsdp_float8_all_gather", true}}}}),
      choice("training.gradient_dtype", "training.mixed_precision_reduce",
             {{"fp32", {{"training.mixed_precision_reduce", "float32"}}}}, "torchtitan reduces in float32"),
      choice("training.optimizer", "optimizer.name",
             {{"adamw", {{"optimizer.name", "AdamW"}}}, {"adam", {{"optimizer.name", "Adam"}}}}),
      as_is("training.learning_rate", "optimizer.lr"),
      as_is("training.weight_decay", "optimizer.weight_decay"),
      choice("training.clip_gradients", "training.max_norm", {{true, {{"training.max_norm", 1.0}}}},
             "torchtitan always clips; a large max_norm does nothing"),
      {"training.tokens", "training.steps",
       [](const Json& v, const ExportInput& in) -> std::optional<Flags> {
         const double per_step = static_cast<double>(in.scenario.training.global_batch) *
                                 static_cast<double>(in.scenario.training.sequence_length);
         return v == 0 || per_step == 0
                    ? Flags{}
                    : Flags{{"training.steps", static_cast<std::int64_t>(v.get<double>() / per_step)}};
       }},
      as_is("training.seed", "debug.seed"),
      autograd_sums(),
      choice("kernels.attention", "(flash by scaled_dot_product_attention)", {{"flash", {}}}),
  };
  return table;
}

/// Names that torchtitan's own models have.
std::optional<std::pair<std::string, std::string>> known_model(const ExportInput& in) {
  const std::string& name = in.workload.network.name;
  for (const auto& [ours, model, flavor] :
       {std::tuple("llama3_8b", "llama3", "8B"), std::tuple("llama3_70b", "llama3", "70B"),
        std::tuple("llama3_1_8b", "llama3", "8B"), std::tuple("llama3_405b", "llama3", "405B")})
    if (name == ours || name.starts_with(std::string(ours) + "_"))
      return std::pair<std::string, std::string>(model, flavor);
  return std::nullopt;
}

Exported write_torchtitan(const ExportInput& in) {
  (void)trained_by("torchtitan", in);
  Mapped m = map_settings(in, rules_torchtitan(), "torchtitan");
  if (const auto known = known_model(in))
    add_model(m, {{"model.name", known->first}, {"model.flavor", known->second}});
  else
    m.left_out.push_back({"model", in.workload.network.name,
                          "torchtitan knows it by no name and flavor: register it (torchtitan/models), then set "
                          "model.name and model.flavor"});
  if (pools(in.cluster).size() > 1)
    m.left_out.push_back({"cluster.parts", fmt::format("{} kinds of machines", pools(in.cluster).size()),
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
      in.cluster.node_count(), pools(in.cluster).front().gpus));
  return out;
}

[[maybe_unused]] const bool entered_torchtitan =
    enter("torchtitan", "a train.toml of torchtitan", rules_torchtitan(), write_torchtitan);

}  // namespace

}  // namespace rehearse::exporting
