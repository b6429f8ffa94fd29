// PyTorch's own sharding without a framework around it: arguments of fully_shard (FSDP2) or FullyShardedDataParallel
// (FSDP1) in a file, a module that calls them on the user's model, and torchrun. pytorch/pytorch @08187d9edd (2.14):
// torch/distributed/fsdp/_fully_shard, fully_sharded_data_parallel.py.

#include <fmt/format.h>

#include "core/config/settings/strategy.hpp"
#include "core/export/setting_table.hpp"
#include "core/export/start_rules.hpp"
#include "core/strategy/workload.hpp"

namespace rehearse::exporting {

namespace {

Flags fsdp_flags(std::initializer_list<std::pair<const char*, Json>> values) {
  return said(translate::pytorch_fsdp_words(), values);
}
Rule in_fsdp(const std::string& key) { return told(translate::pytorch_fsdp_words(), key); }

const char* policy_of(int version) {
  return version == 2 ? "fully_shard.mp_policy." : "FullyShardedDataParallel.mixed_precision.";
}

/// What only one of the two versions is told.
template <int version>
std::optional<Flags> reshard_fsdp(const Json& value, const ExportInput& in) {
  Flags out = fsdp_flags({{"job.fsdp_version", version}});
  const bool keeps = value == "never", several = plan(in).dp_replicate > 1;
  if (version == 2)
    out.push_back({"fully_shard.reshard_after_forward", !keeps});
  else
    out.push_back({"FullyShardedDataParallel.sharding_strategy", several
                                                                     ? keeps ? "_HYBRID_SHARD_ZERO2" : "HYBRID_SHARD"
                                                                 : keeps ? "SHARD_GRAD_OP"
                                                                         : "FULL_SHARD"});
  return out;
}

template <int version>
std::optional<Flags> precision_fsdp(const Json& value, const ExportInput& in) {
  const std::string type = value == "fp32" ? "float32" : value == "bf16_mixed" ? "bfloat16" : "float16";
  if (value != "fp32" && value != "bf16_mixed" && value != "fp16_mixed") return std::nullopt;
  const bool wide = value == "fp32" || in.scenario.training.gradient_dtype == GradientDtype::fp32;
  const std::string policy = policy_of(version);
  return Flags{{policy + "param_dtype", type}, {policy + "reduce_dtype", wide ? "float32" : type}};
}

/// FSDP2 gathers one unit ahead by itself; FSDP1 is told about backward.
template <int version>
std::optional<Flags> prefetch_fsdp(const Json& value, const ExportInput&) {
  if (version == 2) return value == 1 ? std::optional(Flags{}) : std::nullopt;
  if (value != 0 && value != 1) return std::nullopt;
  return Flags{{"FullyShardedDataParallel.backward_prefetch", value == 1 ? "BACKWARD_PRE" : "none"}};
}

template <int version>
std::optional<Flags> limit_fsdp(const Json& value, const ExportInput&) {
  if (version == 2) return value == true ? std::optional(Flags{}) : std::nullopt;
  return Flags{{"FullyShardedDataParallel.limit_all_gathers", value}};
}

template <int version>
std::optional<Flags> offload_fsdp(const Json& value, const ExportInput& in) {
  if (value == "none") return Flags{};
  if (value != "optimizer" || plan(in).declared.find("strategy.offload_parameters") == nullptr) return std::nullopt;
  return Flags{{version == 2 ? "fully_shard.cpu_offload" : "FullyShardedDataParallel.cpu_offload", true}};
}

const char* const kMesh = "mesh.dp_replicate, mesh.dp_shard";

template <int version>
const std::vector<Rule>& rules_fsdp() {
  static const std::vector<Rule> table{
      {"strategy.dp", kMesh,
       [](const Json&, const ExportInput& in) -> std::optional<Flags> {
         return fsdp_flags({{"strategy.dp_replicate", plan(in).dp_replicate}, {"job.shard", plan(in).dp_shard}});
       }},
      {"strategy.dp_replicate", kMesh, no_flags},
      {"strategy.dp_shard", kMesh, no_flags},
      {"strategy.fsdp.enabled", kMesh, no_flags},
      {"strategy.fsdp.reshard_after_forward", "fsdp_version", reshard_fsdp<version>},
      {"strategy.fsdp.prefetch_backward", "FullyShardedDataParallel.backward_prefetch", prefetch_fsdp<version>,
       "other numbers of units are calls: set_modules_to_backward_prefetch"},
      {"strategy.fsdp.limit_all_gathers", "FullyShardedDataParallel.limit_all_gathers", limit_fsdp<version>,
       "fully_shard has no such limit to lift"},
      {"strategy.offload", "cpu_offload", offload_fsdp<version>,
       "FSDP offloads parameters, gradients and optimizer together, or nothing"},
      {"strategy.offload_parameters", "cpu_offload",
       [](const Json& v, const ExportInput& in) -> std::optional<Flags> {
         return v == false || plan(in).offload == Offload::optimizer ? std::optional(Flags{}) : std::nullopt;
       },
       "FSDP offloads parameters, gradients and optimizer together, or nothing"},
      in_fsdp("strategy.microbatch"),
      {"strategy.recompute", "checkpoint_blocks",
       [](const Json& v, const ExportInput& in) -> std::optional<Flags> {
         if ((v != "none" && v != "full") || plan(in).recompute_layers != 1) return std::nullopt;
         return fsdp_flags({{"job.fsdp_checkpoints", v == "full"}});
       },
       "torch.utils.checkpoint runs a block again as a whole"},
      {"strategy.bucket", "(no buckets)", no_flags},
      choice("strategy.overlap.grad_reduce", "(FSDP)", {{true, {}}}),
      {"training.global_batch", "batch.global",
       [](const Json& v, const ExportInput&) -> std::optional<Flags> {
         return fsdp_flags({{"job.global_batch", v}});
       }},
      in_fsdp("training.sequence_length"),
      {"training.precision", "param_dtype, reduce_dtype", precision_fsdp<version>,
       "a policy names the type of parameters and of reductions"},
      {"training.gradient_dtype", "reduce_dtype", no_flags},
      {"training.optimizer", "optimizer.name",
       [](const Json& v, const ExportInput&) { return translate::pytorch_fsdp_words().say("job.optimizer", v); }},
      in_fsdp("training.learning_rate"),
      in_fsdp("training.weight_decay"),
      choice("training.clip_gradients", "max_norm",
             {{true, fsdp_flags({{"job.clip", 1.0}})}, {false, fsdp_flags({{"job.clip", 0.0}})}}),
      {"training.tokens", "steps",
       [](const Json&, const ExportInput& in) -> std::optional<Flags> {
         const auto steps = whole_steps(in);
         return steps ? fsdp_flags({{"job.steps", *steps}}) : Flags{};
       }},
      in_fsdp("training.seed"),
      in_fsdp("kernels.compile"),
      choice("kernels.attention", "(scaled_dot_product_attention of the model)", {{"flash", {}}}),
      autograd_sums(),
  };
  return table;
}

/// What both versions refuse.
const std::vector<StartRule>& fsdp_start() {
  static const std::vector<StartRule> rules{
      {[](const ExportInput& in) { return plan(in).tp * plan(in).pp * plan(in).cp * plan(in).ep > 1; },
       "axes other than data-parallel ones: plans of tensors, stages, sequences and experts are the model's code",
       "torch/distributed/fsdp, which has none"},
      {[](const ExportInput& in) { return !uses_fsdp(in); }, "plans without FSDP: strategy.fsdp.enabled=true",
       "torch/distributed/fsdp"},
  };
  return rules;
}

/// The module that calls the wrappers on the user's model, in four parts: what it imports, how it begins, the wrapper's
/// arguments, and the wrapping.
constexpr const char* kImports[] = {
    R"(import json

import torch
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import BackwardPrefetch, CPUOffload, FullyShardedDataParallel
from torch.distributed.fsdp import MixedPrecision, ShardingStrategy
)",
    R"(import json

import torch
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import CPUOffloadPolicy, MixedPrecisionPolicy, OffloadPolicy, fully_shard
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
)"};

constexpr const char* kBegin =
    R"(

def shard(model, blocks, path="fsdp.json"):
    """Shards `model`, each of `blocks` (names of its submodules, one per layer) a unit of its own."""
    with open(path) as f:
        plan = json.load(f)
    told, mesh = plan["{0}"], plan["mesh"]
)";

constexpr const char* kArguments[] = {
    R"(    prefetch = told["backward_prefetch"]
    how = {
        "sharding_strategy": ShardingStrategy[told["sharding_strategy"]],
        "mixed_precision": MixedPrecision(**{k: getattr(torch, v) for k, v in told["mixed_precision"].items()}),
        "backward_prefetch": None if prefetch == "none" else BackwardPrefetch[prefetch],
        "limit_all_gathers": told["limit_all_gathers"],
        "cpu_offload": CPUOffload(offload_params=told.get("cpu_offload", False)),
        "device_id": torch.cuda.current_device(),
        "use_orig_params": True,
    }
    if mesh["dp_replicate"] > 1:
        sizes = (mesh["dp_replicate"], mesh["dp_shard"])
        how["device_mesh"] = init_device_mesh("cuda", sizes, mesh_dim_names=("dp_replicate", "dp_shard"))
)",
    R"(    sizes = (mesh["dp_replicate"], mesh["dp_shard"])
    names = ("dp_replicate", "dp_shard")
    if sizes[0] == 1:
        sizes, names = sizes[1:], names[1:]
    how = {
        "mesh": init_device_mesh("cuda", sizes, mesh_dim_names=names),
        "reshard_after_forward": told["reshard_after_forward"],
        "mp_policy": MixedPrecisionPolicy(**{k: getattr(torch, v) for k, v in told["mp_policy"].items()}),
        "offload_policy": CPUOffloadPolicy() if told.get("cpu_offload") else OffloadPolicy(),
    }
)"};

constexpr const char* kWrapping =
    R"(    for name in blocks:
        parent, _, child = name.rpartition(".")
        block = model.get_submodule(name)
        if plan["checkpoint_blocks"]:
            block = checkpoint_wrapper(block)
        if plan["compile_blocks"]:
            block.compile()
        setattr(model.get_submodule(parent), child, {0}(block, **how))
    return {0}(model, **how)
)";

template <int version>
std::string module_of_fsdp() {
  const char* const wrapper = version == 2 ? "fully_shard" : "FullyShardedDataParallel";
  return std::string(kImports[version - 1]) + fmt::format(kBegin, wrapper) + kArguments[version - 1] +
         fmt::format(kWrapping, wrapper);
}

template <int version>
Exported write_fsdp(const ExportInput& in) {
  refuse_what_cannot_start(fmt::format("PyTorch's FSDP{}", version), fsdp_start(), in);
  Mapped m = map_settings(in, rules_fsdp<version>(), "PyTorch");
  round_tokens(m, in, in.scenario.training.global_batch * in.scenario.training.sequence_length, "steps");
  if (!in.scenario.kernels.compile) {
    m.flags.push_back({"compile_blocks", false});
    m.settings.push_back({"kernels.compile", "false", "compile_blocks", "false"});
  }
  m.left_out.push_back({"model", in.workload.network.name, "the training script makes the model"});
  const std::vector<Pool> all = pools(in);
  if (all.size() > 1)
    m.left_out.push_back(
        {"cluster.parts", fmt::format("{} kinds of machines", all.size()), "FSDP gives every rank the same share"});
  Exported out;
  const std::string run =
      "#!/usr/bin/env bash\n" + banner(in) +
      "# TRAIN: your program, which calls fsdp.shard on its model. MASTER_ADDR, MASTER_PORT, NODE_RANK: as for "
      "torchrun.\n"
      "set -euo pipefail\ncd \"$(dirname \"${BASH_SOURCE[0]}\")\"\n\n" +
      fmt::format(
          "exec torchrun --nnodes \"${{NNODES:-{}}}\" --nproc-per-node \"${{GPUS_PER_NODE:-{}}}\" --node-rank "
          "\"${{NODE_RANK:-0}}\" \\\n  --master-addr \"${{MASTER_ADDR:-localhost}}\" --master-port "
          "\"${{MASTER_PORT:-29500}}\" \\\n  \"${{TRAIN:-train.py}}\" fsdp.json \"$@\"\n",
          node_count(all), all.front().gpus);
  out.files.push_back({"launch.sh", run, true, false});
  out.files.push_back({"fsdp.json", nested(m.flags).dump(2) + "\n", false, false});
  out.files.push_back({"fsdp.py", banner(in) + module_of_fsdp<version>(), false, false});
  out.settings = std::move(m.settings);
  out.left_out = std::move(m.left_out);
  out.notes.push_back(
      "call fsdp.shard(model, names of its layers) before the optimizer is made, and read the batch, the optimizer and "
      "the rest from fsdp.json; run: TRAIN=train.py ./launch.sh");
  return out;
}

[[maybe_unused]] const bool entered_fsdp1 =
    enter("fsdp1", "PyTorch's FullyShardedDataParallel, by a module and torchrun", rules_fsdp<1>(), write_fsdp<1>);
[[maybe_unused]] const bool entered_fsdp2 =
    enter("fsdp2", "PyTorch's fully_shard, by a module and torchrun", rules_fsdp<2>(), write_fsdp<2>);
[[maybe_unused]] const bool named_fsdp1 = writes_for("fsdp1", "pytorch-fsdp1");
[[maybe_unused]] const bool named_fsdp2 = writes_for("fsdp2", "pytorch-fsdp2");

}  // namespace

}  // namespace rehearse::exporting
