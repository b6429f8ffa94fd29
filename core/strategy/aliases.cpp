#include "core/strategy/aliases.hpp"

#include <algorithm>
#include <cctype>
#include <string>

namespace rehearse {

const std::vector<StrategyAlias>& strategy_aliases() {
  static const std::vector<StrategyAlias> table = [] {
    std::vector<StrategyAlias> t{
        {"DistributedDataParallel", "PyTorch", "data_parallel",
         "strategy.dp=N, strategy.bucket=25MiB, strategy.first_bucket=1MiB"},
        {"DataParallel", "PyTorch", "data_parallel_funnel", "strategy.data_parallel=funnel, strategy.bucket=10MiB"},
        {"ParameterServerStrategy", "TensorFlow, Keras", "parameter_server",
         "strategy.data_parallel=parameter_server, strategy.servers=N (synchronous here)"},
        {"variable_update=parameter_server", "tf_cnn_benchmarks", "parameter_server",
         "strategy.data_parallel=parameter_server"},
        {"no_sync", "PyTorch", "data_parallel", "strategy.grad_sync=last"},
        {"FullyShardedDataParallel", "PyTorch", "fsdp", "strategy.fsdp.enabled=true"},
        {"fully_shard", "PyTorch", "fsdp", "strategy.fsdp.enabled=true"},
        {"FULL_SHARD", "PyTorch", "fsdp", "strategy.fsdp.enabled=true, strategy.fsdp.reshard_after_forward=always"},
        {"SHARD_GRAD_OP", "PyTorch", "fsdp", "strategy.fsdp.enabled=true, strategy.fsdp.reshard_after_forward=never"},
        {"HYBRID_SHARD", "PyTorch", "hsdp", "strategy.fsdp.enabled=true, strategy.dp_shard=GPUs of a node"},
        {"ZeroRedundancyOptimizer", "PyTorch", "zero1", "strategy.zero_stage=1"},
        {"MirroredStrategy", "TensorFlow, Keras", "data_parallel", "strategy.dp=N on one machine"},
        {"MultiWorkerMirroredStrategy", "TensorFlow, Keras", "data_parallel", "strategy.dp=N on several machines"},
        {"TPUStrategy", "TensorFlow, Keras", "data_parallel", "strategy.dp=N on TPU cores"},
        {"Keras", "Keras", "data_parallel",
         "strategy.dp=N: fit() in the scope of MirroredStrategy, or of the one chosen"},
        {"keras.distribution.DataParallel", "Keras", "data_parallel", "strategy.dp=N"},
        {"keras.distribution.ModelParallel", "Keras", "tensor_parallel",
         "strategy.tp=N, strategy.dp=M, of its layout map"},
        {"CentralStorageStrategy", "TensorFlow, Keras", "parameter_server",
         "strategy.data_parallel=parameter_server, strategy.servers=1 (variables on a GPU here)"},
        {"Horovod", "Horovod", "data_parallel", "strategy.dp=N, strategy.bucket=128MiB (HOROVOD_FUSION_THRESHOLD)"},
        {"DeepSpeed stage 1", "DeepSpeed", "zero1", "strategy.zero_stage=1"},
        {"DeepSpeed stage 2", "DeepSpeed", "zero2", "strategy.zero_stage=2"},
        {"DeepSpeed stage 3", "DeepSpeed", "zero3", "strategy.zero_stage=3"},
        {"offload_optimizer device=cpu", "DeepSpeed", "offload_optimizer", "strategy.offload=optimizer"},
        {"stage3_prefetch_bucket_size", "DeepSpeed", "zero3", "strategy.zero3.prefetch_bucket"},
        {"stage3_param_persistence_threshold", "DeepSpeed", "zero3", "strategy.zero3.persistence_threshold"},
        {"--use-distributed-optimizer", "Megatron-LM", "zero1", "strategy.zero_stage=1"},
        {"--overlap-grad-reduce", "Megatron-LM", "data_parallel", "strategy.overlap.grad_reduce=true"},
        {"--overlap-param-gather", "Megatron-LM", "zero1", "strategy.overlap.param_gather=true"},
        {"--tensor-model-parallel-size", "Megatron-LM", "tensor_parallel", "strategy.tp=N"},
        {"--pipeline-model-parallel-size", "Megatron-LM", "pipeline_parallel", "strategy.pp=N"},
        {"--num-layers-per-virtual-pipeline-stage", "Megatron-LM", "pipeline_parallel",
         "strategy.schedule=interleaved_1f1b, strategy.virtual_stages=layers / (pp * N)"},
        {"device_map", "Hugging Face Accelerate", "model_parallel", "strategy.pp=N, strategy.schedule=model_parallel"},
        {"ScheduleGPipe", "PyTorch", "pipeline_parallel", "strategy.pp=N, strategy.schedule=gpipe"},
        {"Schedule1F1B", "PyTorch", "pipeline_parallel", "strategy.pp=N, strategy.schedule=1f1b"},
        {"ScheduleInterleaved1F1B", "PyTorch", "pipeline_parallel",
         "strategy.pp=N, strategy.schedule=interleaved_1f1b, strategy.virtual_stages=V"},
        {"ScheduleZBVZeroBubble", "PyTorch", "pipeline_parallel",
         "strategy.pp=N, strategy.schedule=zb_v, strategy.virtual_stages=2"},
        {"--context-parallel-size", "Megatron-LM", "context_parallel", "strategy.cp=N"},
        {"--cp-comm-type p2p", "Megatron-LM", "context_parallel", "strategy.context=ring"},
        {"--cp-comm-type a2a", "Megatron-LM", "context_parallel", "strategy.context=ulysses"},
        {"--cp-comm-type all_gather", "Megatron-LM", "context_parallel", "strategy.context=allgather"},
        {"DeepSpeed-Ulysses", "DeepSpeed", "context_parallel", "strategy.cp=N, strategy.context=ulysses"},
        {"--tp-comm-overlap", "Megatron-LM", "overlapped_tensor_parallel", "strategy.overlap.tp=true"},
        {"async tensor parallel", "torchtitan", "overlapped_tensor_parallel",
         "strategy.overlap.tp=true, strategy.sequence_parallel=true"},
        {"--expert-model-parallel-size", "Megatron-LM", "expert_parallel", "strategy.ep=N"},
        {"--expert-tensor-parallel-size", "Megatron-LM", "expert_parallel", "strategy.etp=N"},
        {"--overlap-p2p-communication", "Megatron-LM", "pipeline_parallel", "strategy.overlap.pp=true"},
        {"--optimizer-cpu-offload", "Megatron-LM", "offload_optimizer", "strategy.offload=optimizer"},
        {"DualPipe", "DeepSeek", "pipeline_parallel", "strategy.pp=N, strategy.schedule=dualpipe"},
        {"--sequence-parallel", "Megatron-LM", "sequence_parallel", "strategy.sequence_parallel=true"},
    };
    std::sort(t.begin(), t.end(), [](const StrategyAlias& a, const StrategyAlias& b) { return a.name < b.name; });
    return t;
  }();
  return table;
}

const StrategyAlias* find_strategy_alias(std::string_view name) {
  const auto& all = strategy_aliases();
  const auto folded = [](std::string_view text) {
    std::string out(text);
    std::transform(out.begin(), out.end(), out.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    return out;
  };
  const auto at =
      std::find_if(all.begin(), all.end(), [&](const StrategyAlias& a) { return folded(a.name) == folded(name); });
  return at == all.end() ? nullptr : &*at;
}

}  // namespace rehearse
