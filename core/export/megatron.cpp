// Megatron-LM: arguments of pretrain_gpt.py (megatron/training/arguments.py and the configuration classes that make
// arguments, 0.20 of August 2026). What arguments.py refuses when it starts becomes no flag here, and is listed.

#include <algorithm>
#include <functional>
#include <iterator>
#include <map>

#include <fmt/format.h>

#include "core/base/shell_word.hpp"
#include "core/config/settings/strategy.hpp"
#include "core/export/megatron_words.hpp"
#include "core/export/setting_table.hpp"
#include "core/export/start_rules.hpp"
#include "core/strategy/workload.hpp"
#include "core/translate/facts.hpp"

namespace rehearse::exporting {

namespace {

/// Names and words are those of the table by which jobs are imported, too.
Flags megatron_flags(std::initializer_list<std::pair<const char*, Json>> values) {
  return said(translate::megatron_words(), values);
}
Rule in_megatron(const std::string& key, std::string why = {}) {
  return exporting::told(translate::megatron_words(), key, std::move(why));
}

bool recomputes_products(const ExportInput& in) {
  const auto& modules = plan(in).recompute_modules;
  return std::find(modules.begin(), modules.end(), "every_second_product") != modules.end();
}

std::optional<Flags> recompute_megatron(const Json& value, const ExportInput& in) {
  const StrategySettings& s = in.scenario.strategy;
  if (s.recompute == Recompute::none) return Flags{};
  if (s.recompute == Recompute::full)
    return megatron_flags({{"strategy.recompute", value},
                           {"strategy.recompute_method", name_of(s.recompute_method)},
                           {"strategy.recompute_layers", s.recompute_layers}});
  if (recomputes_products(in)) return std::nullopt;
  return megatron_flags({{"strategy.recompute", value}, {"job.recompute_modules", s.recompute_modules}});
}

bool unequal_layers(const ExportInput& in) { return in.scenario.strategy.pp > 1 && !chunk_layers(in).empty(); }

/// "Et*3|t*4|t*4|t*3L": embedding, decoder layers, further predictions and loss by chunk.
std::string layout(const std::vector<std::int64_t>& chunks, std::int64_t predict_further) {
  std::string out = "E";
  for (std::size_t c = 0; c < chunks.size(); ++c) out += (c > 0 ? "|t*" : "t*") + std::to_string(chunks[c]);
  return out + std::string(static_cast<std::size_t>(predict_further), 'm') + "L";
}

/// Said once, by the numbers where they are given, else by what lets stages differ.
std::optional<Flags> stage_layers(const ExportInput& in) {
  const StrategySettings& s = in.scenario.strategy;
  if (!unequal_layers(in)) return Flags{};
  if (s.schedule != "1f1b" && s.schedule != "interleaved_1f1b") return std::nullopt;
  const std::vector<std::int64_t> chunks = chunk_layers(in);
  const bool middle_equal =
      s.virtual_stages == 1 && (chunks.size() < 4 || std::adjacent_find(chunks.begin() + 1, chunks.end() - 1,
                                                                        std::not_equal_to<>()) == chunks.end() - 1);
  if (!middle_equal) return megatron_flags({{"job.layout", layout(chunks, in.transformer->predict_further)}});
  // Of two stages the second gets what is left.
  if (chunks.size() <= 2) return megatron_flags({{"job.first_stage_layers", chunks.front()}});
  return megatron_flags({{"job.first_stage_layers", chunks.front()}, {"job.last_stage_layers", chunks.back()}});
}

std::optional<Flags> schedule_megatron(const Json&, const ExportInput& in) {
  const StrategySettings& s = in.scenario.strategy;
  if (s.pp == 1) return Flags{};
  if (s.schedule == "1f1b") return Flags{};
  if (s.schedule == "interleaved_1f1b" && unequal_layers(in)) return Flags{};  // The layout has the chunks too.
  if (s.schedule == "interleaved_1f1b") return megatron_flags({{"strategy.virtual_stages", s.virtual_stages}});
  return std::nullopt;
}

std::optional<Flags> torch_fsdp(const Json& value, const ExportInput&) {
  if (value == false) return Flags{};
  return megatron_flags({{"job.torch_fsdp", true}, {"framework.fused_gradient_accumulation", false}});
}

/// torch_fsdp() comes with the flag.
std::optional<Flags> gradient_sums(const Json& fused, const ExportInput& in) {
  const bool fsdp = in.scenario.strategy.fsdp.enabled;
  if (fused == true) return fsdp && sums_whole_gradients(in) ? std::nullopt : std::optional<Flags>(Flags{});
  return fsdp ? Flags{} : megatron_flags({{"framework.fused_gradient_accumulation", false}});
}

bool sharded_optimizer(const ExportInput& in) { return in.scenario.strategy.zero_stage > 0; }

std::optional<Flags> gather_early(const Json& value, const ExportInput& in) {
  if (value == false || in.scenario.strategy.dp == 1) return Flags{};
  return sharded_optimizer(in) && in.scenario.strategy.overlap.grad_reduce
             ? std::optional<Flags>(megatron_flags({{"strategy.overlap.param_gather", true}}))
             : std::nullopt;
}

std::optional<Flags> overlap_tp(const Json& value, const ExportInput& in) {
  if (value == false || in.scenario.strategy.tp == 1) return Flags{};
  return in.scenario.strategy.sequence_parallel ? std::optional<Flags>(megatron_flags({{"strategy.overlap.tp", true}}))
                                                : std::nullopt;
}

std::optional<Flags> overlap_pp(const Json& value, const ExportInput& in) {
  const StrategySettings& s = in.scenario.strategy;
  if (value == true || s.virtual_stages == 1 || s.pp == 1) return Flags{};
  return s.pp > 2 ? std::optional<Flags>(megatron_flags({{"strategy.overlap.pp", false}})) : std::nullopt;
}

std::optional<Flags> fp8_parameters(const Json& value, const ExportInput& in) {
  if (value == false || in.scenario.training.precision != Precision::fp8_mixed) return Flags{};
  return sharded_optimizer(in) ? std::optional<Flags>(megatron_flags({{"training.fp8.parameters", true}}))
                               : std::nullopt;
}

/// Only bfloat16 has a choice: fp16's gradients keep its type unless told to be in fp32. PyTorch's FSDP2 is given no
/// type to reduce in (megatron/core/distributed/torch_fully_sharded_data_parallel.py), so it takes the parameters'.
std::optional<Flags> gradients(const Json& value, const ExportInput& in) {
  const Precision p = in.scenario.training.precision;
  if (p == Precision::fp32) return Flags{};
  if (in.scenario.strategy.fsdp.enabled) return value == "fp32" ? std::nullopt : std::optional<Flags>(Flags{});
  if (value == "fp32") return megatron_flags({{"job.gradients_fp32", true}});
  return p == Precision::fp16_mixed ? Flags{} : megatron_flags({{"job.gradients_bf16", true}});
}

std::optional<Flags> optimizer(const Json& value, const ExportInput& in) {
  if (value == "adamw" || (value == "adam" && in.scenario.training.weight_decay == 0))
    return megatron_flags({{"job.optimizer", "adam"}});
  return value == "sgd" ? std::optional<Flags>(megatron_flags({{"job.optimizer", value}})) : std::nullopt;
}

std::optional<Flags> zero_megatron(const Json& value, const ExportInput&) {
  if (value == 0) return Flags{};
  if (value == 1) return megatron_flags({{"job.distributed_optimizer", true}});
  return megatron_flags({{"job.megatron_fsdp", true},
                         {"job.checkpoint_format", "fsdp_dtensor"},
                         {"job.sharding", value == 2 ? "optim_grads" : "optim_grads_params"},
                         {"job.distributed_optimizer", true}});
}

std::optional<Flags> placement(const Json&, const ExportInput& in) {
  // Megatron's default order is tp-cp-ep-dp-pp; the other one it knows swaps the last two. An axis of one rank has no
  // place.
  const StrategySettings& s = in.scenario.strategy;
  const std::map<std::string, int> sizes{{"tp", s.tp}, {"cp", s.cp}, {"ep", s.ep}, {"dp", s.dp}, {"pp", s.pp}};
  const auto matters = [&](const std::string& axis) { return sizes.contains(axis) && sizes.at(axis) > 1; };
  const auto of = [&](const std::vector<std::string>& axes) {
    std::vector<std::string> out;
    std::copy_if(axes.begin(), axes.end(), std::back_inserter(out), matters);
    return out;
  };
  const std::vector<std::string> order = of(s.placement);
  if (order == of({"tp", "cp", "ep", "dp", "pp"})) return Flags{};
  if (order == of({"tp", "cp", "ep", "pp", "dp"})) return megatron_flags({{"job.pp_before_dp", true}});
  return std::nullopt;
}

std::optional<Flags> bucket(const Json&, const ExportInput& in) {
  if (!in.scenario.strategy.overlap.grad_reduce) return Flags{};
  const double bytes = in.scenario.training.gradient_dtype == GradientDtype::fp32 ? 4 : 2;
  return megatron_flags(
      {{"job.bucket_parameters", static_cast<std::int64_t>(in.scenario.strategy.bucket.value() / bytes)}});
}

/// Megatron starts with --train-samples or --train-iters only, and a plan need not say how long it trains.
constexpr int kPlaceholderIterations = 1000;
constexpr int kBlackwell = 100;  // Compute capability 10.0.

/// Layers that are recomputed whole are captured with the whole iteration only, and that asks for no check of the loss
/// in between (transformer_config.py, arguments.py).
std::optional<Flags> cuda_graphs(const Json& value, const ExportInput& in) {
  if (value == false) return Flags{};
  if (in.scenario.strategy.recompute != Recompute::full) return megatron_flags({{"kernels.cuda_graphs", true}});
  return Flags{{"--cuda-graph-impl", "full_iteration"}, {"--no-check-for-nan-in-loss-and-grad", {}}};
}

/// Up to Hopper Megatron wants one work queue, so that the exchanges of tensor and context parallelism are launched
/// before the kernels that follow them (arguments.py); with sharded parameters it wants several.
bool one_connection(const ExportInput& in) {
  const StrategySettings& s = in.scenario.strategy;
  const auto& parts = in.cluster.parts();
  return (s.tp > 1 || s.cp > 1) && !s.fsdp.enabled && s.zero_stage < 2 &&
         std::any_of(parts.begin(), parts.end(), [](const auto& p) { return p.gpu->compute_capability < kBlackwell; });
}

std::optional<Flags> samples(const Json& value, const ExportInput& in) {
  const double per_sample = static_cast<double>(in.scenario.training.sequence_length);
  if (value == 0) return megatron_flags({{"job.steps", kPlaceholderIterations}});
  return megatron_flags({{"job.samples", static_cast<std::int64_t>(value.get<double>() / per_sample)}});
}

const std::vector<Rule>& rules_megatron() {
  static const std::vector<Rule> table{
      in_megatron("strategy.tp"),
      in_megatron("strategy.pp"),
      in_megatron("strategy.cp"),
      {"strategy.ep", "--expert-model-parallel-size",
       [](const Json& v, const ExportInput& in) -> std::optional<Flags> {
         return in.workload.network.routing() != nullptr ? megatron_flags({{"strategy.ep", v}}) : Flags{};
       }},
      {"strategy.etp", "--expert-tensor-parallel-size",
       [](const Json& v, const ExportInput& in) -> std::optional<Flags> {
         return in.workload.network.routing() != nullptr ? megatron_flags({{"strategy.etp", v}}) : Flags{};
       }},
      {"strategy.dp", "(ranks / other axes)", no_flags},
      {"strategy.dp_replicate", "--num-distributed-optimizer-instances",
       [](const Json& v, const ExportInput& in) -> std::optional<Flags> {
         if (in.scenario.strategy.dp_shard <= 1 || v == 1) return Flags{};
         return sharded_optimizer(in) ? std::optional<Flags>(megatron_flags({{"job.optimizer_instances", v}}))
                                      : std::nullopt;
       },
       "only the distributed optimizer's shards have replicas"},
      {"strategy.dp_shard", "(dp / dp_replicate)",
       [](const Json& v, const ExportInput& in) -> std::optional<Flags> {
         return v == 1 || sharded_optimizer(in) || in.scenario.strategy.fsdp.enabled ? std::optional<Flags>(Flags{})
                                                                                     : std::nullopt;
       },
       "nothing is sharded without the distributed optimizer or FSDP"},
      in_megatron("strategy.microbatch"),
      in_megatron("strategy.context"),
      {"strategy.schedule", "--num-virtual-stages-per-pipeline-rank", schedule_megatron,
       "Megatron runs 1F1B and its interleaved form"},
      {"strategy.virtual_stages", "(with schedule)", no_flags},
      {"strategy.layers_per_stage",
       "--decoder-first-pipeline-num-layers, --decoder-last-pipeline-num-layers, --pipeline-model-parallel-layout",
       [](const Json&, const ExportInput& in) -> std::optional<Flags> {
         return in.scenario.strategy.layers_per_stage.empty() ? Flags{} : stage_layers(in);
       },
       "Megatron runs 1F1B and its interleaved form"},
      {"strategy.uneven_layers", "(as strategy.layers_per_stage)",
       [](const Json&, const ExportInput& in) -> std::optional<Flags> {
         return in.scenario.strategy.layers_per_stage.empty() ? stage_layers(in) : Flags{};
       },
       "Megatron runs 1F1B and its interleaved form"},
      in_megatron("strategy.sequence_parallel"),
      {"strategy.recompute", "--recompute-granularity", recompute_megatron,
       "Megatron-LM recomputes modules and not products"},
      {"strategy.recompute_modules", "--recompute-modules",
       [](const Json&, const ExportInput& in) -> std::optional<Flags> {
         return plan(in).recompute == Recompute::selective && recomputes_products(in) ? std::nullopt
                                                                                      : std::optional<Flags>(Flags{});
       },
       "Megatron-LM recomputes modules and not products"},
      {"strategy.recompute_method", "--recompute-method", no_flags},
      {"strategy.recompute_layers", "--recompute-num-layers", no_flags},
      {"strategy.zero_stage", "--use-distributed-optimizer, --use-megatron-fsdp", zero_megatron},
      {"strategy.bucket", "--ddp-bucket-size", bucket},
      {"strategy.placement", "--use-tp-pp-dp-mapping", placement, "Megatron orders tp-cp-ep-dp-pp or tp-cp-ep-pp-dp"},
      choice("framework.scatter_gather", "(with --sequence-parallel)", {{false, {}}},
             "Megatron splits what goes from stage to stage where sequence parallelism has split it; a flag of its own "
             "is gone since 2026"),
      {"framework.deferred_head_gradients", "--defer-embedding-wgrad-compute, --wgrad-deferral-limit",
       [](const Json& v, const ExportInput&) -> std::optional<Flags> {
         return v == 0 ? Flags{} : megatron_flags({{"job.defer_head_gradients", true}, {"job.deferral_limit", v}});
       }},
      in_megatron("strategy.overlap.grad_reduce"),
      {"strategy.overlap.param_gather", "--overlap-param-gather", gather_early,
       "Megatron gathers early only with the distributed optimizer and --overlap-grad-reduce"},
      {"strategy.overlap.tp", "--tp-comm-overlap", overlap_tp,
       "Megatron overlaps tensor parallelism only where it is sequence-parallel"},
      {"strategy.overlap.pp", "--no-overlap-p2p-communication", overlap_pp,
       "with interleaved stages Megatron needs the overlap on two stages"},
      {"strategy.fsdp.enabled", "--use-torch-fsdp2", torch_fsdp},
      choice("strategy.offload", "--optimizer-cpu-offload, --cpu-offloading",
             {{"none", {}},
              {"optimizer", megatron_flags({{"job.optimizer_offload", true}, {"job.precise_optimizer", true}})}},
             "Megatron offloads activations by layers of its own choice"),
      in_megatron("training.global_batch"),
      in_megatron("training.sequence_length"),
      choice("training.precision", "--bf16, --fp16, --fp8-format",
             {{"fp32", {}},
              {"bf16_mixed", megatron_flags({{"job.bf16", true}})},
              {"fp16_mixed", megatron_flags({{"job.fp16", true}})},
              {"fp8_mixed", megatron_flags({{"job.bf16", true}, {"job.fp8", "hybrid"}})}},
             "Megatron keeps fp32 master weights beside 16-bit ones, or all in fp32"),
      {"training.fp8.recipe", "--fp8-recipe",
       [](const Json& v, const ExportInput& in) -> std::optional<Flags> {
         if (in.scenario.training.precision != Precision::fp8_mixed) return Flags{};
         return translate::megatron_words().say("training.fp8.recipe", v);
       }},
      {"training.fp8.parameters", "--fp8-param-gather", fp8_parameters,
       "Megatron gathers fp8 parameters only where its own optimizer or FSDP shards them"},
      {"training.gradient_dtype", "--accumulate-allreduce-grads-in-fp32, --grad-reduce-in-bf16", gradients,
       "--use-torch-fsdp2 reduces gradients in the parameters' type"},
      {"training.optimizer", "--optimizer", optimizer,
       "Megatron's adam decays weights apart from the gradient (adamw), and no argument changes that"},
      in_megatron("training.learning_rate"),
      in_megatron("training.weight_decay"),
      choice("training.clip_gradients", "--clip-grad",
             {{true, megatron_flags({{"job.clip", 1.0}})}, {false, megatron_flags({{"job.clip", 0.0}})}}),
      {"training.tokens", "--train-samples, --train-iters", samples},
      in_megatron("training.seed"),
      {"training.experts.capacity_factor", "--moe-expert-capacity-factor",
       [](const Json& v, const ExportInput&) -> std::optional<Flags> {
         return v == 0 ? Flags{} : megatron_flags({{"training.experts.capacity_factor", v}});
       }},
      in_megatron("training.experts.pad_to_capacity"),
      choice("kernels.attention", "--attention-backend",
             {{"flash", megatron_flags({{"job.attention_backend", "flash"}})},
              {"unfused", megatron_flags({{"job.attention_backend", "unfused"}})}}),
      {"kernels.fused_cross_entropy", "--cross-entropy-loss-fusion",
       [](const Json& v, const ExportInput&) -> std::optional<Flags> {
         return v == true ? megatron_flags({{"job.loss_fusion", true}}) : Flags{};
       }},
      {"framework.fused_gradient_accumulation", "--no-gradient-accumulation-fusion", gradient_sums},
      in_megatron("framework.fused_casts"),
      {"kernels.cuda_graphs", "--cuda-graph-impl", cuda_graphs},
  };
  return table;
}

Flags model_flags(const ExportInput& in) {
  Flags out;
  for (const auto& [fact, value] : translate::facts_of(*in.transformer)) {
    Json stated = value;
    if (fact == "model.positions")
      stated = std::max(in.transformer->max_positions, in.scenario.training.sequence_length);
    // What needs no flag is what Megatron has anyway.
    if (const auto flags = translate::megatron_words().say(fact, stated))
      out.insert(out.end(), flags->begin(), flags->end());
  }
  if (in.transformer->experts.routing.experts > 0) {
    const Flags experts =
        megatron_flags({{"job.dispatcher", "alltoall"}, {"job.grouped_experts", grouped_experts(in)}});
    out.insert(out.end(), experts.begin(), experts.end());
  }
  return out;
}

Exported write_megatron(const ExportInput& in) {
  if (!trained_by("Megatron-LM's pretrain_gpt.py", in).pattern.empty())
    throw Error(ErrorKind::usage,
                fmt::format("Megatron-LM's pretrain_gpt.py trains layers of attention and an MLP, and {} is a hybrid, "
                            "which pretrain_hybrid.py trains by other flags",
                            in.workload.network.name),
                "model", "for this network: --to torchrun, slurm or kubernetes, which start any program");
  refuse_what_cannot_start("Megatron-LM", megatron_start(), in);
  Mapped m = map_settings(in, rules_megatron(), "Megatron-LM");
  Exported out;
  add_model(m, model_flags(in));
  if (in.scenario.training.optimizer == Optimizer::adam && in.scenario.training.weight_decay == 0)
    m.left_out.push_back(
        {"training.optimizer", "adam", "Megatron's adam is adamw; without decay of weights the two are one"});
  round_tokens(m, in, in.scenario.training.sequence_length, "samples");
  if (in.scenario.training.tokens == 0)
    m.left_out.push_back(
        {"training.tokens", "0",
         fmt::format("the plan does not say how long to train: --train-iters {} is a placeholder for your number",
                     kPlaceholderIterations)});
  std::string text = "#!/usr/bin/env bash\n" + banner(in) +
                     "# MEGATRON_PATH: a clone of Megatron-LM. MASTER_ADDR, MASTER_PORT, NODE_RANK: as for torchrun. "
                     "Data, tokenizer and checkpoints are yours to add:\n"
                     "#   ./pretrain.sh --data-path ... --tokenizer-type ... --tokenizer-model ... --save ...\n"
                     "set -euo pipefail\n" +
                     (one_connection(in) ? "export CUDA_DEVICE_MAX_CONNECTIONS=1\n" : "") + "\nARGUMENTS=(\n";
  for (const Flag& f : m.flags) {
    text += "  " + f.name;
    if (f.value.is_array())
      for (const Json& v : f.value) text += " " + shell_word(plain(v));
    else if (!f.value.is_null())
      text += " " + shell_word(plain(f.value));
    text += "\n";
  }
  const std::vector<Pool> all = pools(in);
  text += fmt::format(
      ")\n\nexec torchrun --nnodes \"${{NNODES:-{}}}\" --nproc-per-node \"${{GPUS_PER_NODE:-{}}}\" --node-rank "
      "\"${{NODE_RANK:-0}}\" \\\n"
      "  --master-addr \"${{MASTER_ADDR:-localhost}}\" --master-port \"${{MASTER_PORT:-29500}}\" \\\n  "
      "\"${{MEGATRON_PATH:?}}/pretrain_gpt.py\" \"${{ARGUMENTS[@]}}\" \"$@\"\n",
      node_count(all), all.front().gpus);
  if (all.size() > 1)
    m.left_out.push_back({"cluster.parts", fmt::format("{} kinds of machines", all.size()),
                          "Megatron-LM gives every rank of an axis the same share"});
  out.files.push_back({"pretrain.sh", std::move(text), true, false});
  out.settings = std::move(m.settings);
  out.left_out = std::move(m.left_out);
  out.notes.push_back(
      "add data, tokenizer and checkpoints: ./pretrain.sh --data-path ... --tokenizer-type ...; run it on every node "
      "with NODE_RANK and MASTER_ADDR set");
  return out;
}

[[maybe_unused]] const bool entered_megatron =
    enter("megatron", "arguments of Megatron-LM's pretrain_gpt.py, as a script", rules_megatron(), write_megatron);
[[maybe_unused]] const bool named_megatron = writes_for("megatron", "megatron-core");

}  // namespace

}  // namespace rehearse::exporting
