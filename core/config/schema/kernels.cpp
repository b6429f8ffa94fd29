// Rows of `kernels`: which kernels the framework uses.

#include "core/config/settings/kernels.hpp"
#include "core/config/schema/rows.hpp"

namespace rehearse::schema {
namespace {

Field kernels(const std::string& name, auto member, std::string help) {
  return row("kernels." + name, at(&Scenario::kernels, member), std::move(help));
}

}  // namespace

void add_kernels(std::vector<Field>& t) {
  t.push_back(kernels("attention", &KernelSettings::attention, "How attention is computed.")
                  .more("unfused writes the s * s scores to memory; flash keeps them on the chip (Dao et al. 2022)."));
  t.push_back(kernels("flash", &KernelSettings::flash, "Which flash attention runs.")
                  .like("flash2")
                  .more("auto: what frameworks prefer on the GPU's generation. flash1, flash2, flash3: Dao-AILab's; "
                        "flash_triton: its first version in Triton; cudnn: NVIDIA's, which Transformer "
                        "Engine prefers from Hopper on; cudnn_9.13: its versions up to 9.13, slower on Blackwell. "
                        "Without effect where attention is unfused."));
  t.push_back(
      kernels("fused_norm", &KernelSettings::fused_norm,
              "Norm, bias, dropout, residual, rotation and gated activation run as fused kernels.")
          .more("Norms and activations then also find the largest values that fp8 scales are made of. false: RMSNorm, "
                "rotation and gated activation move the "
                "bytes of PyTorch's eager operators, and attention that is unfused runs operator by operator."));
  t.push_back(kernels("fused_activation", &KernelSettings::fused_activation,
                      "Gated and squared activations are one kernel each.")
                  .more("Of experts they always are, but for GPT-OSS's bounds, which fused_experts alone takes in. "
                        "false: they move the bytes of PyTorch's eager operators, as in Megatron without "
                        "bias_activation_fusion; so they do without fused_norm."));
  t.push_back(kernels("fused_cross_entropy", &KernelSettings::fused_cross_entropy,
                      "The loss is computed without storing its probabilities."));
  t.push_back(
      kernels("fused_gradient_accumulation", &KernelSettings::fused_gradient_accumulation,
              "Products of weight gradients add to the sum over microbatches.")
          .more("As in Megatron-LM since autumn 2021 with APEX (gradient_accumulation_fusion). false: they write a "
                "gradient that a kernel adds, as PyTorch's autograd does; without effect "
                "where a step has one microbatch, or where each microbatch's gradients are reduced into shards. Holds "
                "for linear layers, convolutions, experts and routers; embeddings, norms and biases always add."));
  t.push_back(kernels("cuda_graphs", &KernelSettings::cuda_graphs,
                      "Kernels are launched as captured graphs: less launch overhead."));
  t.push_back(kernels("launch_blocking", &KernelSettings::launch_blocking,
                      "The host waits for every kernel before it launches the next: CUDA_LAUNCH_BLOCKING=1.")
                  .more("The host's time (kernels.host) then adds to the device's, and nothing runs beside a kernel: "
                        "what overlaps is refused. For predictions; a run on this machine "
                        "does as its environment says."));
  t.push_back(kernels("clip_on_device", &KernelSettings::clip_on_device,
                      "The norm by which gradients are clipped stays on the device.")
                  .more("false: the host reads it, as in Megatron. Where ranks divide the optimizer's state "
                        "(zero_stage 1 and 2) the GPU then waits for the host, which updates tensor by tensor. "
                        "Without effect elsewhere, and without clip_gradients."));
  t.push_back(kernels("fused_casts", &KernelSettings::fused_casts,
                      "Norms and activations, forward and backward, write in fp8 what products read of them.")
                  .more("As Transformer Engine's operation fuser: such casts move no bytes of their own. Not with "
                        "scales from the tensor itself (tensorwise), nor in fp4: those look at all of it first."));
  t.push_back(kernels("fused_adapters", &KernelSettings::fused_adapters,
                      "Products of low-rank adapters (training.lora) scale and add inside themselves, where tp is 1.")
                  .more("As Transformer Engine's operation fuser in NeMo: each adapter's result is added by its second "
                        "product, its input's gradient by its first. false: a product with "
                        "alpha / rank, then a sum, each a kernel."));
  t.push_back(
      kernels("fused_experts", &KernelSettings::fused_experts,
              "Experts' gated activation, and the casts to fp8 around it, run inside their products.")
          .more("As cuDNN's fused grouped MLP in Transformer Engine: the activation moves no bytes of its own."));
  t.push_back(kernels("samples_first", &KernelSettings::samples_first,
                      "Samples are the first dimension of activations, as in PyTorch's DTensor.")
                  .more("Tensor parallelism then puts pieces of several samples in order by a copy after a gather and "
                        "before a scatter of sequences, adds gradients of products that "
                        "read one value before it reduces them, and in fp8 does as torchao: what several products read "
                        "is cast once, operands that were gathered are turned for the "
                        "weight gradient, scales of a tensor are agreed on by all ranks before each cast, scales of "
                        "rows are found after a gather in bf16. A context-parallel ring then "
                        "sends keys and values of every query head and gradients in fp32, and waits for them. false: "
                        "sequences come first, as in Megatron."));
  t.push_back(kernels("gather_per_product", &KernelSettings::gather_per_product,
                      "Each product of sequence parallelism gathers its tokens by itself.")
                  .more("What PyTorch's ColwiseParallel does where every projection is given slices of the sequence as "
                        "its input: query, key, value, gate and up gather the same "
                        "tokens, and each scatters its term of their gradient. false: they are gathered once, as "
                        "torchtitan's PrepareModuleInput and Megatron do. Not for products in fp8."));
  t.push_back(kernels("host", &KernelSettings::host, "Whose code launches kernels on the CPU.")
                  .more("Small layers take as long as their launches, and what a launch costs depends on the Python "
                        "around it: groups 'launch' of "
                        "topologies/calibration. eager counts bare launches and no Python around them."));
  t.push_back(kernels("products", &KernelSettings::products, "Whose calls of the library multiply matrices.")
                  .more("On Hopper, whole training steps of Megatron-LM and NeMo sustain faster products than those of "
                        "FSDP frameworks on torch.nn.Linear: groups 'power' "
                        "and 'power_pytorch' of topologies/calibration. PyTorch on cuBLAS 12.8 came out with the "
                        "former, on three rows. Without effect where a generation has no such "
                        "constants."));
}

}  // namespace rehearse::schema
