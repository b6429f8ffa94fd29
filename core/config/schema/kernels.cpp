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
                        "Without effect where attention is unfused.")
                  .seldom());
  t.push_back(
      kernels("fused_cross_entropy", &KernelSettings::fused_cross_entropy, "The loss stores no probabilities."));
  t.push_back(kernels("compile", &KernelSettings::compile, "Layers run as torch.compile makes them.")
                  .more("What it changes is a matter of the framework: see rehearse explain framework:NAME. Without a "
                        "framework it changes nothing."));
  t.push_back(kernels("cuda_graphs", &KernelSettings::cuda_graphs, "Kernels are launched as captured graphs."));
}

}  // namespace rehearse::schema
