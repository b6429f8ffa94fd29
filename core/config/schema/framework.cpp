// Rows of `framework`: facts of the software that trains. A profile (topologies/frameworks) sets them; who knows better
// states single ones.

#include "core/config/schema/rows.hpp"

namespace rehearse::schema {
namespace {

/// `was`: how the key was spelled before there were profiles.
Field fact(const std::string& name, std::string was, auto access, std::string help) {
  Field f = row("framework." + name, access, std::move(help));
  f.was = std::move(was);
  f.few_set_it = true;
  return f;
}

}  // namespace

void add_framework(std::vector<Field>& t) {
  t.push_back(
      row("framework.name", at(&Scenario::framework, &FrameworkSettings::name), "The software that trains.")
          .like("torchtitan@0.2")
          .more("A framework and its release: rehearse list frameworks. Its profile says what the software does, "
                "in place of the defaults of this group and of some other keys; what a scenario states goes "
                "first. Without a release, the newest that is known. Left out: reference, good kernels and "
                "nobody's habits."));
  t.push_back(fact("merged_projections", "", at(&Scenario::framework, &FrameworkSettings::merged_projections),
                   "Query, key and value are one product, gate and up another.")
                  .more("false: a product each. Adapters (training.lora) follow."));
  t.push_back(fact("checkpoints", "", at(&Scenario::framework, &FrameworkSettings::checkpoints),
                   "How far a recomputed layer runs again.")
                  .more("megatron: to its end. pytorch: to the last value that backward reads, as "
                        "torch.utils.checkpoint with use_reentrant=False stops early."));
  t.push_back(fact("host", "kernels.host", at(&Scenario::kernels, &KernelSettings::host),
                   "Whose code launches kernels on the CPU.")
                  .more("Small layers take as long as their launches, and what a launch costs depends on the Python "
                        "around it: groups 'launch' of "
                        "topologies/calibration. eager counts bare launches and no Python around them."));
  t.push_back(fact("products", "kernels.products", at(&Scenario::kernels, &KernelSettings::products),
                   "Whose calls of the library multiply matrices.")
                  .more("On Hopper, whole training steps of Megatron-LM and NeMo sustain faster products than those of "
                        "FSDP frameworks on torch.nn.Linear: groups 'power' "
                        "and 'power_pytorch' of topologies/calibration. PyTorch on cuBLAS 12.8 came out with the "
                        "former, on three rows. Without effect where a generation has no such "
                        "constants."));
  t.push_back(
      fact("fused_norm", "kernels.fused_norm", at(&Scenario::kernels, &KernelSettings::fused_norm),
           "Norm, bias, dropout, residual, rotation and gated activation run as fused kernels.")
          .more("Norms and activations then also find the largest values that fp8 scales are made of. false: RMSNorm, "
                "rotation and gated activation move the "
                "bytes of PyTorch's eager operators, and attention that is unfused runs operator by operator."));
  t.push_back(fact("fused_activation", "kernels.fused_activation",
                   at(&Scenario::kernels, &KernelSettings::fused_activation),
                   "Gated and squared activations are one kernel each.")
                  .more("Of experts they always are, but for GPT-OSS's bounds, which fused_experts alone takes in. "
                        "false: they move the bytes of PyTorch's eager operators, as in Megatron without "
                        "bias_activation_fusion; so they do without fused_norm."));
  t.push_back(fact("fused_casts", "kernels.fused_casts", at(&Scenario::kernels, &KernelSettings::fused_casts),
                   "Norms and activations, forward and backward, write in fp8 what products read of them.")
                  .more("As Transformer Engine's operation fuser: such casts move no bytes of their own. Not with "
                        "scales from the tensor itself (tensorwise), nor in fp4: those look at all of it first."));
  t.push_back(
      fact("fused_experts", "kernels.fused_experts", at(&Scenario::kernels, &KernelSettings::fused_experts),
           "Experts' gated activation, and the casts to fp8 around it, run inside their products.")
          .more("As cuDNN's fused grouped MLP in Transformer Engine: the activation moves no bytes of its own."));
  t.push_back(fact("fused_adapters", "kernels.fused_adapters", at(&Scenario::kernels, &KernelSettings::fused_adapters),
                   "Products of low-rank adapters (training.lora) scale and add inside themselves, where tp is 1.")
                  .more("As Transformer Engine's operation fuser in NeMo: each adapter's result is added by its second "
                        "product, its input's gradient by its first. false: a product with "
                        "alpha / rank, then a sum, each a kernel."));
  t.push_back(
      fact("fused_gradient_accumulation", "kernels.fused_gradient_accumulation",
           at(&Scenario::kernels, &KernelSettings::fused_gradient_accumulation),
           "Products of weight gradients add to the sum over microbatches.")
          .more("As in Megatron-LM since autumn 2021 with APEX (gradient_accumulation_fusion). false: they write a "
                "gradient that a kernel adds, as PyTorch's autograd does; without effect "
                "where a step has one microbatch, or where each microbatch's gradients are reduced into shards. Holds "
                "for linear layers, convolutions, experts and routers; embeddings, norms and biases always add."));
  t.push_back(fact("launch_blocking", "kernels.launch_blocking",
                   at(&Scenario::kernels, &KernelSettings::launch_blocking),
                   "The host waits for every kernel before it launches the next: CUDA_LAUNCH_BLOCKING=1.")
                  .more("The host's time (kernels.host) then adds to the device's, and nothing runs beside a kernel: "
                        "what overlaps is refused. For predictions; a run on this machine "
                        "does as its environment says."));
  t.push_back(fact("clip_on_device", "kernels.clip_on_device", at(&Scenario::kernels, &KernelSettings::clip_on_device),
                   "The norm by which gradients are clipped stays on the device.")
                  .more("false: the host reads it, as in Megatron. Where ranks divide the optimizer's state "
                        "(zero_stage 1 and 2) the GPU then waits for the host, which updates tensor by tensor. "
                        "Without effect elsewhere, and without clip_gradients."));
  t.push_back(fact("samples_first", "kernels.samples_first", at(&Scenario::kernels, &KernelSettings::samples_first),
                   "Samples are the first dimension of activations, as in PyTorch's DTensor.")
                  .more("Tensor parallelism then puts pieces of several samples in order by a copy after a gather and "
                        "before a scatter of sequences, adds gradients of products that "
                        "read one value before it reduces them, and in fp8 does as torchao: what several products read "
                        "is cast once, operands that were gathered are turned for the "
                        "weight gradient, scales of a tensor are agreed on by all ranks before each cast, scales of "
                        "rows are found after a gather in bf16. A context-parallel ring then "
                        "sends keys and values of every query head and gradients in fp32, and waits for them. false: "
                        "sequences come first, as in Megatron."));
  t.push_back(fact("gather_per_product", "kernels.gather_per_product",
                   at(&Scenario::kernels, &KernelSettings::gather_per_product),
                   "Each product of sequence parallelism gathers its tokens by itself.")
                  .more("What PyTorch's ColwiseParallel does where every projection is given slices of the sequence as "
                        "its input: query, key, value, gate and up gather the same "
                        "tokens, and each scatters its term of their gradient. false: they are gathered once, as "
                        "torchtitan's PrepareModuleInput and Megatron do. Not for products in fp8."));
  t.push_back(fact("overlap_tp_backward", "strategy.overlap.tp_backward",
                   at(&Scenario::strategy, &StrategySettings::overlap, &OverlapSettings::tp_backward),
                   "The input gradient's reduction runs under the weight gradient's product.")
                  .more("What Megatron does since autumn 2021. false: the product comes first and nothing runs beside "
                        "the reduction."));
  t.push_back(fact("scatter_gather", "strategy.scatter_gather",
                   at(&Scenario::strategy, &StrategySettings::scatter_gather),
                   "Split pipeline messages over tensor-parallel ranks and gather them over NVLink.")
                  .more("Narayanan et al. 2021, section 4.1."));
  t.push_back(fact("deferred_head_gradients", "strategy.deferred_head_gradients",
                   at(&Scenario::strategy, &StrategySettings::deferred_head_gradients),
                   "Microbatches whose weight gradient of the output layer waits for the last backward pass.")
                  .in(0, kMaxSize)
                  .like("22")
                  .more("The first so many of a step. The last stage, which has the output layer besides its own, then "
                        "computes them while the others drain; what they read "
                        "is kept until then, gathered where sequences were split. As Megatron-Core's "
                        "defer_embedding_wgrad_compute, which gathers again. Plans that 'search' finds have none."));
  t.push_back(fact("first_bucket", "strategy.first_bucket", at(&Scenario::strategy, &StrategySettings::first_bucket),
                   "Size of the bucket that is full first.")
                  .in(0, 1e15)
                  .like("1MiB")
                  .more("0: as the others. DistributedDataParallel makes it 1 MiB, so that the wire starts early."));
  t.push_back(fact("zero3_lists", "strategy.zero3.lists",
                   at(&Scenario::strategy, &StrategySettings::zero3, &Zero3Settings::lists),
                   "Each parameter is gathered, and its gradient scattered, through a list of tensors, one per rank.")
                  .more("As DeepSpeed did until October 2021: the host waits for the device, makes a view and launches "
                        "a copy for every rank. Thousands of ranks then cost "
                        "more than the wire."));
  t.push_back(fact("fp8_copies", "training.fp8.copies",
                   at(&Scenario::training, &TrainingSettings::fp8, &Fp8Settings::copies),
                   "Copies that a cast with a scale per tensor writes.")
                  .like("two")
                  .more("two: the second along the other dimension, which the weight gradient reads (Hopper). one: "
                        "tensor cores read either dimension (Blackwell). auto: as the GPUs "
                        "need. With other recipes always two."));
  t.push_back(fact("fp8_rotation", "training.fp8.rotation",
                   at(&Scenario::training, &TrainingSettings::fp8, &Fp8Settings::rotation),
                   "In fp4_mixed, operands of weight gradients are rotated before they are cast.")
                  .more("The random Hadamard transform of NVIDIA's recipe (arXiv 2509.25149). A pass of its own then "
                        "finds the largest value; false (NVTE_NVFP4_DISABLE_RHT): norms and "
                        "activations find it on their way."));
  t.push_back(fact("lora_all_to_all", "training.lora.all_to_all",
                   at(&Scenario::training, &TrainingSettings::lora, &LoraSettings::all_to_all),
                   "Second products beside row-parallel ones (proj, fc2) are split by outputs under tp.")
                  .more("As NeMo's a2a_experimental: what they write is exchanged for all features of a rank's tokens "
                        "under sequence parallelism, gathered without. false: they lie "
                        "whole on all ranks, and only what has rank features moves."));
}

}  // namespace rehearse::schema
