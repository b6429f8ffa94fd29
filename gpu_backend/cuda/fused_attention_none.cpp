// A build without cuDNN's headers: every shape is declined.

#include "gpu_backend/cuda/fused_attention.hpp"

namespace rehearse::cuda {

struct FusedAttention::Impl {};
FusedAttention::FusedAttention(const FusedAttentionOptions&) {}
FusedAttention::~FusedAttention() = default;
void FusedAttention::prepare(const AttentionShape&, ElementType, bool) {}
bool FusedAttention::forward(cudaStream_t, Reals, Reals, Reals, Reals, Reals, const AttentionShape&, const Scratch&) {
  return false;
}
bool FusedAttention::backward(cudaStream_t, Reals, Reals, Reals, Reals, Reals, Reals, Reals, Reals, Reals,
                              const AttentionShape&, const Scratch&) {
  return false;
}
std::string FusedAttention::description() const { return "own kernels: this build has no cuDNN"; }
std::size_t FusedAttention::backward_scratch(const AttentionShape&) { return 0; }

}  // namespace rehearse::cuda
