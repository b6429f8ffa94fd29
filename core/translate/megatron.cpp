// Megatron-LM: arguments of pretrain_gpt.py, those of earlier releases and of forks among them. Facts from
// NVIDIA/Megatron-LM
// @5be9626709af (core_v0.19.0) megatron/training/arguments.py, megatron/training/config/*.py and
// megatron/core/transformer/transformer_config.py; arguments that are gone from @e269e2006495 (v2.5),
// @38879f8b3f0e (core_v0.4.0) and @d580efc68a9f (core_v0.12.0) megatron/training/arguments.py.

#include "core/translate/language.hpp"

namespace rehearse::translate {

void ignore_megatron(std::vector<Term>& table);  // megatron_ignored.cpp

namespace {

void add_axes_of_megatron(std::vector<Term>& t) {
  t.push_back(number("--tensor-model-parallel-size", "strategy.tp"));
  t.push_back(number("--model-parallel-size", "strategy.tp").last_in("2021.04"));
  t.push_back(number("--pipeline-model-parallel-size", "strategy.pp"));
  t.push_back(number("--context-parallel-size", "strategy.cp"));
  t.push_back(number("--expert-model-parallel-size", "strategy.ep"));
  t.push_back(number("--expert-tensor-parallel-size", "strategy.etp"));
  t.push_back(number("--num-distributed-optimizer-instances", "job.optimizer_instances"));
  t.push_back(number("--micro-batch-size", "strategy.microbatch"));
  t.push_back(number("--batch-size", "strategy.microbatch").last_in("2021.04"));
  t.push_back(number("--global-batch-size", "training.global_batch"));
  t.push_back(number("--seq-length", "training.sequence_length"));
  t.push_back(number("--encoder-seq-length", "training.sequence_length").only_read());
  t.push_back(number("--decoder-seq-length", "model.decoder").only_read());
  t.push_back(number("--num-layers-per-virtual-pipeline-stage", "job.layers_per_chunk"));
  t.push_back(number("--num-virtual-stages-per-pipeline-rank", "strategy.virtual_stages"));
  t.push_back(text("--pipeline-model-parallel-layout", "job.layout"));
  t.push_back(number("--decoder-first-pipeline-num-layers", "job.first_stage_layers"));
  t.push_back(number("--decoder-last-pipeline-num-layers", "job.last_stage_layers"));
  t.push_back(toggle("--account-for-embedding-in-pipeline-split", "job.embedding_is_layer"));
  t.push_back(toggle("--account-for-loss-in-pipeline-split", "job.loss_is_layer"));
  t.push_back(toggle("--sequence-parallel", "strategy.sequence_parallel"));
  t.push_back(words("--cp-comm-type", "strategy.context",
                    {{"p2p", "ring"},
                     {"a2a", "ulysses"},
                     {"all_gather", "allgather"},
                     {"allgather", "allgather"},
                     {"a2a+p2p", nullptr}}));
  t.push_back(toggle("--use-tp-pp-dp-mapping", "job.pp_before_dp"));
  t.push_back(toggle("--overlap-moe-expert-parallel-comm", "job.expert_overlap"));
  t.push_back(toggle("--enable-zero-bubble", "job.zero_bubble").only_read());
  t.push_back(toggle("--zero-bubble-v-schedule", "job.zero_bubble_v").only_read());
  t.push_back(toggle("--enable-zbh1-pipeline", "job.zero_bubble").only_read());
}

void add_data_parallelism(std::vector<Term>& t) {
  t.push_back(toggle("--use-distributed-optimizer", "job.distributed_optimizer"));
  t.push_back(toggle("--use-megatron-fsdp", "job.megatron_fsdp"));
  t.push_back(toggle("--use-custom-fsdp", "job.megatron_fsdp").last_in("0.13"));
  t.push_back(toggle("--use-torch-fsdp2", "job.torch_fsdp"));
  t.push_back(mark("--torch-fsdp2-no-reshard-after-forward", "strategy.fsdp.reshard_after_forward", "never"));
  t.push_back(words("--data-parallel-sharding-strategy", "job.sharding",
                    {{"no_shard", "no_shard"},
                     {"optim", "optim"},
                     {"optim_grads", "optim_grads"},
                     {"optim_grads_params", "optim_grads_params"}}));
  t.push_back(number("--ddp-bucket-size", "job.bucket_parameters"));
  t.push_back(toggle("--overlap-grad-reduce", "strategy.overlap.grad_reduce"));
  t.push_back(toggle("--overlap-param-gather", "strategy.overlap.param_gather"));
  t.push_back(toggle("--tp-comm-overlap", "strategy.overlap.tp"));
  t.push_back(mark("--no-overlap-p2p-communication", "strategy.overlap.pp", false));
  t.push_back(
      mark("--no-async-tensor-model-parallel-allreduce", "framework.overlap_tp_backward", false).last_in("0.7"));
  t.push_back(mark("--no-scatter-gather-tensors-in-pipeline", "framework.scatter_gather", false).last_in("2023.01"));
  t.push_back(words("--DDP-impl", "job.ddp", {{"local", "local"}, {"torch", "torch"}}).last_in("2023.01"));
  t.push_back(toggle("--defer-embedding-wgrad-compute", "job.defer_head_gradients"));
  t.push_back(number("--wgrad-deferral-limit", "job.deferral_limit"));
  t.push_back(toggle("--use-precision-aware-optimizer", "job.precise_optimizer"));
  t.push_back(words("--exp-avg-dtype", "training.optimizer_states",
                    {{"fp32", "fp32"}, {"fp16", "fp16"}, {"bf16", "bf16"}, {"fp8", "fp8"}}));
  t.push_back(words("--main-params-dtype", "training.master_weights", {{"fp32", "fp32"}, {"fp16", "fp16"}}));
  t.push_back(words("--ckpt-format", "job.checkpoint_format",
                    {{"torch", "torch"},
                     {"torch_dist", "torch_dist"},
                     {"torch_dcp", "torch_dcp"},
                     {"fsdp_dtensor", "fsdp_dtensor"},
                     {"zarr", "zarr"}}));
  t.push_back(toggle("--optimizer-cpu-offload", "job.optimizer_offload"));
  t.push_back(toggle("--cpu-optimizer", "job.optimizer_offload").only_read());
  t.push_back(number("--cpu-offloading-num-layers", "job.offloaded_layers"));
  t.push_back(toggle("--fine-grained-activation-offloading", "job.activation_offload").only_read());
  t.push_back(toggle("--accumulate-allreduce-grads-in-fp32", "job.gradients_fp32"));
  t.push_back(toggle("--grad-reduce-in-bf16", "job.gradients_bf16"));
  t.push_back(words("--megatron-fsdp-grad-comm-dtype", "job.gradient_type",
                    {{"bf16", "model"}, {"fp16", "model"}, {"fp32", "fp32"}, {"auto", nullptr}}));
}

void add_recomputation(std::vector<Term>& t) {
  t.push_back(words("--recompute-granularity", "strategy.recompute",
                    {{"none", "none"}, {"full", "full"}, {"selective", "selective"}}));
  t.push_back(mark("--recompute-activations", "strategy.recompute", "selective").only_read());
  t.push_back(words("--recompute-method", "strategy.recompute_method",
                    {{"none", nullptr}, {"uniform", "uniform"}, {"block", "block"}}));
  t.push_back(number("--recompute-num-layers", "strategy.recompute_layers"));
  t.push_back(list("--recompute-modules", "job.recompute_modules"));
  t.push_back(mark("--moe-layer-recompute", "job.recompute_experts").only_read());
  t.push_back(mark("--checkpoint-activations", "strategy.recompute", "full").last_in("3.0"));
  t.push_back(number("--checkpoint-num-layers", "strategy.recompute_layers").last_in("3.0"));
  t.push_back(
      words("--activations-checkpoint-method", "job.checkpoint_method", {{"uniform", "uniform"}, {"block", "block"}})
          .last_in("2022.02"));
  t.push_back(number("--activations-checkpoint-num-layers", "strategy.recompute_layers").last_in("2022.02"));
}

void add_precision(std::vector<Term>& t) {
  t.push_back(toggle("--bf16", "job.bf16"));
  t.push_back(toggle("--fp16", "job.fp16"));
  t.push_back(words("--fp8-format", "job.fp8", {{"hybrid", "hybrid"}, {"e4m3", "e4m3"}, {"none", nullptr}}));
  t.push_back(mark("--fp8-hybrid", "job.fp8", "hybrid").last_in("23.04"));
  t.push_back(mark("--fp8-e4m3", "job.fp8", "e4m3").last_in("23.04"));
  t.push_back(
      words("--fp8-recipe", "training.fp8.recipe",
            {{"delayed", "delayed"}, {"tensorwise", "tensorwise"}, {"blockwise", "blockwise"}, {"mxfp8", "mxfp8"}}));
  t.push_back(toggle("--fp8-param-gather", "training.fp8.parameters"));
  t.push_back(toggle("--fp8-param", "training.fp8.parameters").only_read());
  t.push_back(toggle("--fp8-dot-product-attention", "training.fp8.attention").only_read());
  t.push_back(words("--fp4-format", "job.fp4", {{"e2m1", true}, {"none", nullptr}}));
}

void add_training_of_megatron(std::vector<Term>& t) {
  t.push_back(words("--optimizer", "job.optimizer", {{"adam", "adam"}, {"sgd", "sgd"}, {"lamb", "lamb"}}));
  t.push_back(number("--lr", "training.learning_rate"));
  t.push_back(number("--weight-decay", "training.weight_decay"));
  t.push_back(number("--clip-grad", "job.clip"));
  t.push_back(number("--seed", "training.seed"));
  t.push_back(number("--train-samples", "job.samples"));
  t.push_back(number("--train-tokens", "job.tokens").only_read());
  t.push_back(number("--train-iters", "job.steps"));
  t.push_back(number("--moe-expert-capacity-factor", "training.experts.capacity_factor"));
  t.push_back(toggle("--moe-pad-expert-input-to-capacity", "training.experts.pad_to_capacity"));
  t.push_back(mark("--moe-router-force-load-balancing", "training.experts.imbalance", "none").only_read());
  t.push_back(
      words("--moe-token-dispatcher-type", "job.dispatcher",
            {{"alltoall", "alltoall"}, {"allgather", "allgather"}, {"flex", "flex"}, {"alltoall_seq", "alltoall"}}));
  t.push_back(
      words("--moe-flex-dispatcher-backend", "job.flex_backend", {{"deepep", "deepep"}, {"hybridep", "hybridep"}}));
  t.push_back(mark("--moe-enable-deepep", "job.flex_backend", "deepep").only_read());
  t.push_back(toggle("--freeze-LM", "job.frozen").only_read());
}

void add_kernels(std::vector<Term>& t) {
  t.push_back(words("--attention-backend", "job.attention_backend",
                    {{"flash", "flash"},
                     {"fused", "fused"},
                     {"unfused", "unfused"},
                     {"local", "local"},
                     {"auto", nullptr},
                     {"AttnBackend.flash", "flash"},
                     {"AttnBackend.fused", "fused"},
                     {"AttnBackend.unfused", "unfused"},
                     {"AttnBackend.local", "local"},
                     {"AttnBackend.auto", nullptr}}));
  t.push_back(mark("--use-flash-attn", "kernels.attention", "flash").only_read());
  t.push_back(mark("--use-flash-attn-v1", "kernels.attention", "flash").only_read());
  t.push_back(mark("--use-flash-attn-v2", "kernels.attention", "flash").only_read());
  t.push_back(mark("--use-flash-attn-triton", "job.flash_triton").only_read());
  t.push_back(toggle("--cross-entropy-loss-fusion", "job.loss_fusion"));
  t.push_back(words("--cross-entropy-fusion-impl", "job.loss_fusion_kind", {{"native", "native"}, {"te", "te"}}));
  t.push_back(mark("--no-gradient-accumulation-fusion", "framework.fused_gradient_accumulation", false));
  t.push_back(mark("--no-bias-gelu-fusion", "framework.fused_activation", false));
  t.push_back(mark("--no-bias-swiglu-fusion", "framework.fused_activation", false));
  t.push_back(toggle("--use-transformer-engine-op-fuser", "framework.fused_casts"));
  t.push_back(words("--cuda-graph-impl", "kernels.cuda_graphs",
                    {{"none", false}, {"local", true}, {"transformer_engine", true}, {"full_iteration", true}}));
  t.push_back(toggle("--enable-cuda-graph", "kernels.cuda_graphs").only_read());
  t.push_back(toggle("--external-cuda-graph", "kernels.cuda_graphs").only_read());
  t.push_back(
      words("--transformer-impl", "framework.products",
            {{"local", "pytorch"}, {"transformer_engine", "transformer_engine"}, {"inference_optimized", nullptr}}));
}

void add_model_of_megatron(std::vector<Term>& t) {
  t.push_back(number("--num-layers", "model.layers"));
  t.push_back(number("--encoder-num-layers", "model.layers").only_read());
  t.push_back(number("--decoder-num-layers", "model.decoder").only_read());
  t.push_back(number("--hidden-size", "model.hidden"));
  t.push_back(number("--ffn-hidden-size", "model.ffn"));
  t.push_back(number("--num-attention-heads", "model.heads"));
  t.push_back(number("--kv-channels", "model.head_dim"));
  t.push_back(toggle("--group-query-attention", "model.grouped"));
  t.push_back(number("--num-query-groups", "model.kv_heads"));
  t.push_back(number("--num-key-value-heads", "model.kv_heads_alone").only_read());
  t.push_back(
      words("--attention-head-type", "model.head_type", {{"multihead", "multihead"}, {"multiquery", "multiquery"}})
          .only_read());
  t.push_back(number("--max-position-embeddings", "model.positions"));
  t.push_back(number("--vocab-size", "model.vocabulary"));
  t.push_back(number("--pad-vocab-size-to", "model.vocabulary").only_read());
  t.push_back(number("--padded-vocab-size", "model.vocabulary").only_read());
  t.push_back(number("--make-vocab-size-divisible-by", "model.vocabulary_multiple"));
  t.push_back(words("--normalization", "model.norm", {{"RMSNorm", "rms"}, {"LayerNorm", "layer"}}));
  t.push_back(number("--norm-epsilon", "model.norm_eps"));
  t.push_back(number("--layernorm-epsilon", "model.norm_eps").only_read());
  t.push_back(words("--position-embedding-type", "model.position",
                    {{"learned_absolute", "learned"},
                     {"rope", "rope"},
                     {"alibi", "alibi"},
                     {"none", "none"},
                     {"rotary", "rope"},
                     {"absolute", "learned"},
                     {"mrope", "rope"},
                     {"yarn", "rope"}}));
  t.push_back(mark("--use-rotary-position-embeddings", "model.position", "rope").only_read());
  t.push_back(number("--rotary-base", "model.rope_theta"));
  t.push_back(number("--rotary-percent", "model.rope_fraction"));
  t.push_back(mark("--swiglu", "model.activation", "swiglu"));
  t.push_back(mark("--squared-relu", "model.activation", "squared_relu"));
  t.push_back(mark("--quick-geglu", "model.activation", "quick_geglu"));
  t.push_back(toggle("--disable-bias-linear", "model.bias", false, true));
  t.push_back(toggle("--add-qkv-bias", "model.qkv_bias"));
  t.push_back(toggle("--untie-embeddings-and-output-weights", "model.tied", false, true));
  t.push_back(toggle("--qk-layernorm", "model.qk_norm"));
  t.push_back(number("--attention-dropout", "model.attention_dropout"));
  t.push_back(number("--hidden-dropout", "model.hidden_dropout"));
  t.push_back(number("--init-method-std", "model.init_std"));
  t.push_back(text("--window-size", "model.window"));
  t.push_back(text("--window-attn-skip-freq", "model.window_skip"));
  t.push_back(words("--softmax-type", "model.softmax",
                    {{"vanilla", "vanilla"}, {"off-by-one", "off-by-one"}, {"learnable", "learnable"}}));
  t.push_back(number("--glu-linear-offset", "model.glu_offset"));
  t.push_back(number("--activation-func-clamp-value", "model.activation_limit"));
  t.push_back(mark("--enable-gpt-oss", "model.gpt_oss").only_read());
  t.push_back(text("--hybrid-layer-pattern", "model.hybrid").only_read());
  t.push_back(text("--hybrid-override-pattern", "model.hybrid").only_read());
  t.push_back(text("--hybrid-attention-ratio", "model.hybrid").only_read());
  t.push_back(text("--spec", "model.spec").only_read());
  t.push_back(text("--tokenizer-type", "model.tokenizer").only_read());
  t.push_back(text("--tokenizer-model", "model.tokenizer_name").only_read());
  t.push_back(text("--tokenizer-name-or-path", "model.tokenizer_name").only_read());
  t.push_back(text("--vocab-file", "model.vocabulary_file").only_read());
}

void add_experts_of_megatron(std::vector<Term>& t) {
  t.push_back(toggle("--multi-latent-attention", "model.latent"));
  t.push_back(number("--q-lora-rank", "model.q_rank"));
  t.push_back(number("--kv-lora-rank", "model.kv_rank"));
  t.push_back(number("--qk-head-dim", "model.nope_dim"));
  t.push_back(number("--qk-nope-head-dim", "model.nope_dim").only_read());
  t.push_back(number("--qk-pos-emb-head-dim", "model.rope_dim"));
  t.push_back(number("--qk-rope-head-dim", "model.rope_dim").only_read());
  t.push_back(number("--v-head-dim", "model.v_dim"));
  t.push_back(list("--num-experts", "model.experts"));
  t.push_back(number("--moe-router-topk", "model.top_k"));
  t.push_back(number("--moe-ffn-hidden-size", "model.expert_ffn"));
  t.push_back(number("--moe-shared-expert-intermediate-size", "model.shared_ffn"));
  t.push_back(number("--moe-router-num-groups", "model.expert_groups"));
  t.push_back(number("--moe-router-group-topk", "model.group_limit"));
  t.push_back(words("--moe-router-score-function", "model.router",
                    {{"softmax", "softmax"}, {"sigmoid", "sigmoid"}, {"sqrtsoftplus", nullptr}}));
  t.push_back(number("--moe-router-topk-scaling-factor", "model.router_scale"));
  t.push_back(toggle("--moe-router-pre-softmax", "model.router_before_choice"));
  t.push_back(toggle("--moe-router-enable-expert-bias", "model.router_bias"));
  t.push_back(toggle("--moe-grouped-gemm", "job.grouped_experts"));
  t.push_back(number("--moe-aux-loss-coeff", "model.aux_loss"));
  t.push_back(number("--moe-z-loss-coeff", "model.z_loss"));
  t.push_back(text("--moe-layer-freq", "model.expert_layers"));
  t.push_back(number("--mtp-num-layers", "model.predict_further"));
}

Language megatron() {
  Language out{"Megatron-LM", "megatron-core", {}};
  add_axes_of_megatron(out.terms);
  add_data_parallelism(out.terms);
  add_recomputation(out.terms);
  add_precision(out.terms);
  add_training_of_megatron(out.terms);
  add_kernels(out.terms);
  add_model_of_megatron(out.terms);
  add_experts_of_megatron(out.terms);
  ignore_megatron(out.terms);
  // What pretrain_gpt.py takes where nothing is said: fp32, LayerNorm, biases, dropout of 0.1 and an output layer that
  // shares the embedding's weights.
  out.fallbacks = {{"model.attention_dropout", 0.1},
                   {"model.hidden_dropout", 0.1},
                   {"model.vocabulary_multiple", 128},
                   {"model.norm", "layer"},
                   {"model.position", "learned"},
                   {"model.activation", "gelu"},
                   {"model.bias", true},
                   {"model.tied", true},
                   {"model.init_std", 0.02},
                   {"model.top_k", 2},
                   {"training.weight_decay", 0.01}};
  return out;
}

}  // namespace

const Language& megatron_words() {
  static const Language language = megatron();
  return language;
}

namespace {

[[maybe_unused]] const bool entered_megatron =
    languages().add({"megatron", "arguments of Megatron-LM's pretrain_gpt.py", {}, megatron_words()});

}  // namespace

}  // namespace rehearse::translate
