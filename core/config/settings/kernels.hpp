#pragma once
// Which kernels run: keys of a scenario after parsing and validation.

#include "core/config/setting_key.hpp"
#include "core/config/settings/choices.hpp"

namespace rehearse {

struct KernelSettings {
  AttentionKernel attention = AttentionKernel::flash;
  /// Norm, bias, dropout, residual, rotation and gated activation are a kernel each; else PyTorch's eager operators.
  bool fused_norm = true;
  /// Gated and squared activations are a kernel; without `fused_norm` they never are.
  bool fused_activation = true;
  bool fused_cross_entropy = false;
  /// Weight gradients are added up by the products that make them; else by a kernel each (PyTorch's AccumulateGrad).
  bool fused_gradient_accumulation = true;
  bool compile = false;      ///< torch.compile: facts of a framework's profile may hang on it.
  bool cuda_graphs = false;  ///< Launch overhead of captured graphs.
  /// CUDA_LAUNCH_BLOCKING=1: the host waits for every kernel, so that its time and the device's add up.
  bool launch_blocking = false;
  bool clip_on_device = false;  ///< The host does not wait for the gradients' norm before it updates.
  /// Norms and activations write what the products beside them read in fp8, where scales need no look at the whole
  /// tensor.
  bool fused_casts = false;
  /// Low-rank adapters' products scale and add what they write to what is there, where no tensor parallelism splits
  /// them.
  bool fused_adapters = false;
  /// Gated activation of experts and the casts of what it reads and writes run inside their products.
  bool fused_experts = false;
  FlashKernel flash = FlashKernel::automatic;  ///< Where attention is flash.
  HostCode host = HostCode::eager;
  ProductCalls products = ProductCalls::transformer_engine;
  /// Activations are [sample, sequence, hidden] in memory, as in PyTorch's DTensor: pieces of several samples'
  /// sequences that tensor parallelism gathers or scatters are put in order by a copy, and fp8 operands that it
  /// gathered are turned by another for the weight gradient (torchao).
  bool samples_first = false;
  /// Products that read the same tokens gather them one by one, and reduce their gradients one by one.
  bool gather_per_product = false;
  DeclaredSettings declared = {};  ///< Keys that other files declare.

  bool operator==(const KernelSettings&) const = default;
};

}  // namespace rehearse
