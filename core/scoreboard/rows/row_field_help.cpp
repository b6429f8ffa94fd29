#include "core/scoreboard/rows/row_field_help.hpp"

namespace rehearse {

const std::vector<RowFieldHelp>& measured_field_help() {
  static const std::vector<RowFieldHelp> fields{
      {"iteration_time_s, step_time_s, iteration_time_ms, step_time_ms", "one optimizer step"},
      {"tokens_per_s, tokens_per_s_per_gpu, samples_per_s, samples_per_s_per_gpu, sequences_per_s",
       "throughput of all GPUs or of one; tokens_per_second and tokens_per_sec are read, too, and images_per_s"},
      {"model_tflops_per_gpu, mfu, mfu_pct, tflops_per_gpu, hfu, hfu_pct",
       "operations of a GPU, the last three with those of recomputation; sources count differently, so that such a row "
       "is listed and counts in no error figure"},
      {"peak_allocated_GiB, peak_memory_GiB",
       "peak memory of the fullest GPU: allocated by tensors, reserved for them"},
  };
  return fields;
}

const std::vector<RowFieldHelp>& row_field_help() {
  static const std::vector<RowFieldHelp> fields{
      {"model", "a network of rehearse list models, or any name where the sizes below are there"},
      {"arch", "words on the network, beside its name"},
      {"layers, hidden, heads, kv_heads, head_dim, ffn, vocab, experts, experts_per_token, moe_layers",
       "sizes of the network; whole numbers"},
      {"gpus, nodes", "GPUs that train, or nodes with gpus_per_node each"},
      {"tp, pp, dp, cp, ep, etp, vpp", "degrees of parallelism and model chunks per pipeline rank; whole numbers"},
      {"seq_len, global_batch, global_batch_tokens, batch_per_gpu, micro_batch, grad_accum, microbatches",
       "tokens per sequence; sequences or tokens per optimizer step, sequences per GPU, per microbatch and replica; "
       "microbatches"},
      {"task", "what is trained where that is not all of the network: a word such as LoRA"},
      {"topology", "words on the network between nodes, beside inter_node"},
      {"precision", "fp32, tf32, fp16, bf16 (with fp32 master weights), pure bf16, fp8 with its recipe, fp4"},
      {"sequence_parallel, torch_compile, limit_all_gathers", "truth values"},
      {"profile", "a framework and its release, of rehearse list frameworks"},
      {"framework", "a name, for the tables"},
      {"model_family", "gpt2, gpt_neox, nemotron, mpt, llama, mixtral, bert, qwen3_moe, deepseek_v3, gpt_oss"},
      {"attention", "unfused, flash_triton, flash1, flash2, flash3, cudnn_9.13 (versions up to it), cudnn"},
      {"merged_projections", "q, k and v are one product, gate and up another; truth value"},
      {"fp8_recipe", "as training.fp8.recipe of a scenario"},
      {"fp8_attention", "as training.fp8.attention of a scenario"},
      {"fp4_unrotated", "products in NVFP4 run without rotation: framework.fp8_rotation is false"},
      {"fp8_parameters",
       "working weights are stored and gathered in fp8, frozen ones in fp4 where products run so; truth value"},
      {"checkpoints",
       "megatron: recomputed layers run again to their end; pytorch: to the last value that backward reads, and "
       "selective is by operator"},
      {"fused_kernels", "norm, bias, dropout, residual, rotation and activation run as fused kernels"},
      {"fused_activation", "a gated or squared activation outside experts is one kernel; with fused_kernels only"},
      {"gather_per_product", "as framework.gather_per_product of a scenario"},
      {"samples_first", "as framework.samples_first of a scenario"},
      {"channels_first", "as framework.channels_first of a scenario"},
      {"downsample_in_bottleneck, aux_logits, image_size",
       "of networks of images, which are known by name: the stride of a residual block lies in its first 1 x 1 (v1); "
       "Inception's auxiliary loss is taken; pixels of a side"},
      {"fused_cross_entropy", "the loss stores no probabilities"},
      {"fused_gradient_accumulation", "as framework.fused_gradient_accumulation of a scenario"},
      {"launch_blocking", "as framework.launch_blocking of a scenario"},
      {"host", "eager, megatron, megatron_deepspeed: whose code launches kernels"},
      {"products", "transformer_engine, pytorch: whose calls of the library multiply matrices"},
      {"cuda_graphs", "layers are replayed as captured graphs"},
      {"clip_on_device", "as framework.clip_on_device of a scenario"},
      {"fused_casts", "as framework.fused_casts of a scenario"},
      {"fused_adapters", "as framework.fused_adapters of a scenario"},
      {"fused_experts", "as framework.fused_experts of a scenario"},
      {"capacity_factor, pad_to_capacity", "as training.experts of a scenario; left out: dropless"},
      {"dispatch",
       "alltoall: a row for each expert; per_rank: a copy for each rank that a token visits, or for each NVLink domain "
       "where experts lie in several (DeepEP, HybridEP)"},
      {"lora_rank, lora_alpha, lora_dropout, lora_all_to_all",
       "as training.lora of a scenario, for rows whose task says LoRA"},
      {"lora_targets", "products with an adapter, of qkv, proj, fc1, fc2, with commas between them"},
      {"stage_layers", "layers of each pipeline chunk in model order: 4x15,1 is 15 chunks of 4 and one of 1"},
      {"context", "as strategy.context of a scenario"},
      {"zero3_lists", "as framework.zero3_lists of a scenario"},
      {"gradient_dtype", "fp32 or model: in which type gradients are kept and reduced"},
      {"overlap_grad_reduce, overlap_param_gather, overlap_p2p", "truth values"},
      {"bucket_cap_mb", "MiB of gradients that are reduced together, as of Apex's distributed_fused_adam"},
      {"bucket_parameters, bucket_grows",
       "parameters whose gradients are reduced together, as Megatron Core's bucket_size; whether that is a million a "
       "data-parallel rank where that is more, as where nobody sets it. Left out, as bucket_cap_mb too: "
       "strategy.bucket"},
      {"overlap_tp", "none, backward (the input gradient's reduction under the weight gradient's product), full"},
      {"deferred_head_gradients", "as framework.deferred_head_gradients of a scenario, where pp > 1; left out: none"},
      {"scatter_gather", "pipeline messages are split over the tensor-parallel group"},
      {"recompute", "as in a row; full:5: the first 5 layers of every chunk; modules:mla_up_proj,mlp: these modules"},
      {"offload, offload_layers",
       "optimizer, parameters, activations or several of these words: what is kept in host memory (parameters: the "
       "optimizer too); activations of so many layers of a chunk, its first, else of all but its last"},
      {"optimizer_in_backward", "each parameter is updated, and its gradient freed, during backward"},
      {"parameter_dtype",
       "bf16, where precision says bf16: parameters and optimizer states are stored so, without master weights"},
      {"optimizer_states, master_weights",
       "as training.optimizer_states and training.master_weights of a scenario; optimizer may also say 8-bit Adam, or "
       "AdamW, bf16 moments"},
      {"schedule, vpp, micro_batch, zero_stage, optimizer, clip_gradients, dropout, tied_embeddings, vocab, seq_len",
       "as in a row"},
      {"sharding, fsdp_sharding, fsdp",
       "words for zero_stage, where that is left out: FSDP, HSDP (inside each node), ZeRO-3, NO_SHARD"},
      {"dp_shard", "ranks of data parallelism that state is divided over, where not all"},
      {"machine", "a machine of the catalogue, where the usual one for the GPU has another network"},
      {"gpu_type, gpus_per_node, inter_node, nics",
       "the machine, where a whole file was measured on one. What is read of inter_node: "
       "core/scoreboard/rows/port_words.hpp"},
  };
  return fields;
}

}  // namespace rehearse
