#include "gpu_backend/cuda/fused_attention.hpp"

#include <array>
#include <limits>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "gpu_backend/cuda/cudnn/attention_graphs.hpp"
#include "gpu_backend/cuda/cudnn/plan.hpp"
#include "gpu_backend/cuda/cudnn/session.hpp"
#include "gpu_backend/execute/device.hpp"

namespace rehearse::cuda {

namespace {

// cudnnGetVersion(): major * 10000 + minor * 100 + patch.
constexpr std::size_t kInfinityFrom = 91000;
constexpr std::size_t kAnyKeysFrom = 91501;  ///< Before, backward without padding wants multiples of 128 keys.
constexpr std::int64_t kKeysBefore = 128;
constexpr std::size_t kScratchAlignment = 256;  // Of what is cut from one block of scratch.

bool aligned(std::initializer_list<const void*> pointers) {
  for (const void* p : pointers)
    if (reinterpret_cast<std::uintptr_t>(p) % 16 != 0) return false;
  return true;
}
std::size_t rounded(std::size_t bytes) {
  return (bytes + kScratchAlignment - 1) / kScratchAlignment * kScratchAlignment;
}

bool in_one_run(const Line& line, std::int64_t n) {
  return n <= line.length || line.second == line.first + line.length;
}

/// Whether cuDNN's causal mask, by local numbers, is this one, and nothing is dropped.
bool expressible(const AttentionShape& z) {
  if (z.dropout.on() || z.batch == 0 || z.queries == 0 || z.keys == 0) return false;
  return !z.causal || (in_one_run(z.query, z.queries) && in_one_run(z.key, z.keys) && z.query.at(0) == z.key.at(0));
}
FusedAttentionShape sizes_of(const AttentionShape& z) {
  const bool narrow = z.causal && z.window > 0 && z.window < z.keys;
  return {z.batch, z.queries, z.keys, z.heads, z.kv_heads, z.d, z.v, z.causal, narrow ? z.window : 0, z.apart};
}

}  // namespace

struct FusedAttention::Impl {
  FusedAttentionOptions options;
  CudnnSession cudnn;
  std::map<std::pair<bool, FusedAttentionShape>, std::unique_ptr<CudnnPlan>> plans;  ///< Null: declined. By backward.
  std::vector<std::unique_ptr<CudnnPlan>> retired;

  /// Null where the shape is declined.
  const CudnnPlan* plan_of(const FusedAttentionShape& z, bool backward) {
    cudnnHandle_t handle = cudnn.handle();
    if (handle == nullptr) return nullptr;
    const auto [at, made] = plans.try_emplace({backward, z});
    if (!made) return at->second.get();
    if (backward && cudnn.version() < kAnyKeysFrom && z.keys % kKeysBefore != 0) return nullptr;
    try {
      auto plan = std::make_unique<CudnnPlan>(
          CudnnTarget(handle),
          backward ? fused_attention_grad_graph(z, options.deterministic) : fused_attention_graph(z),
          CudnnWish{options.deterministic, options.most_scratch});
      at->second = std::move(plan);
    } catch (const CudnnFailure&) {
      // Nothing was enqueued: it stays declined.
    }
    return at->second.get();
  }

  void run(cudaStream_t stream, const CudnnPlan& plan, std::span<const CudnnPlace> places, void* workspace) {
    plan.run(cudnn.handle(), stream, places, workspace);
  }
  /// A device that has no room for the scratch declines the shape from now on.
  bool borrow(void*& to, std::size_t bytes, const FusedAttentionShape& z, bool backward, const Scratch& scratch) {
    try {
      to = scratch(bytes);
      return true;
    } catch (const OutOfMemory&) {
      retired.push_back(std::move(plans[{backward, z}]));  // Kernels of earlier calls may still run.
      return false;
    }
  }
  /// What the host gives to a call.
  struct Numbers {
    float scale, nothing, window, one = 1;
    void add_masks(std::vector<CudnnPlace>& places, const FusedAttentionShape& z) const {
      if (!z.causal) return;
      places.push_back({kFusedNothing, &nothing});
      if (z.window == 0) return;
      places.push_back({kFusedOutside, &nothing});
      places.push_back({kFusedWindow, &window});
    }
  };
  [[nodiscard]] Numbers numbers(const AttentionShape& z) const {
    return {static_cast<float>(z.scale),
            cudnn.version() < kInfinityFrom ? std::numeric_limits<float>::lowest()
                                            : -std::numeric_limits<float>::infinity(),
            static_cast<float>(z.window)};
  }

  // What lies in backward's scratch, one after the other.
  struct BackwardScratch {
    std::size_t delta, dq_sum, workspace;
    [[nodiscard]] std::size_t all() const { return delta + dq_sum + workspace; }
  };
  [[nodiscard]] BackwardScratch scratch_of(const FusedAttentionShape& z, const CudnnPlan& plan) const {
    const auto rows = static_cast<std::size_t>(z.batch * z.heads * z.queries);
    return {rounded(4 * rows), options.deterministic ? 0 : rounded(4 * rows * static_cast<std::size_t>(z.d)),
            plan.workspace_bytes()};
  }
};

FusedAttention::FusedAttention(const FusedAttentionOptions& options) : impl_(std::make_unique<Impl>()) {
  impl_->options = options;
  if (cudnn_wish("any-order")) impl_->options.deterministic = false;
}
FusedAttention::~FusedAttention() = default;

void FusedAttention::prepare(const AttentionShape& z, ElementType type, bool backward) {
  if (type == ElementType::real16 && expressible(z)) (void)impl_->plan_of(sizes_of(z), backward);
}

bool FusedAttention::forward(cudaStream_t stream, Reals q, Reals k, Reals v, Reals out, Reals lse,
                             const AttentionShape& z, const Scratch& scratch) {
  if (q.type != ElementType::real16 || lse.type != ElementType::real32 || !expressible(z) ||
      !aligned({q.data, k.data, v.data, out.data, lse.data}))
    return false;
  const FusedAttentionShape sizes = sizes_of(z);
  const CudnnPlan* plan = impl_->plan_of(sizes, false);
  if (plan == nullptr) return false;
  const Impl::Numbers numbers = impl_->numbers(z);
  std::vector<CudnnPlace> places{{kFusedQ, q.data},     {kFusedK, k.data},     {kFusedV, v.data},
                                 {kFusedOut, out.data}, {kFusedLse, lse.data}, {kFusedScale, &numbers.scale}};
  numbers.add_masks(places, sizes);
  void* workspace = nullptr;
  if (plan->workspace_bytes() > 0 && !impl_->borrow(workspace, plan->workspace_bytes(), sizes, false, scratch))
    return false;
  impl_->run(stream, *plan, places, workspace);
  return true;
}

bool FusedAttention::backward(cudaStream_t stream, Reals dout, Reals q, Reals k, Reals v, Reals out, Reals lse,
                              Reals dq, Reals dk, Reals dv, const AttentionShape& z, const Scratch& scratch) {
  if (q.type != ElementType::real16 || lse.type != ElementType::real32 || dq.type != ElementType::real16 ||
      !expressible(z) || !aligned({dout.data, q.data, k.data, v.data, out.data, lse.data, dq.data, dk.data, dv.data}))
    return false;
  const FusedAttentionShape sizes = sizes_of(z);
  const CudnnPlan* plan = impl_->plan_of(sizes, true);
  if (plan == nullptr) return false;
  const Impl::BackwardScratch parts = impl_->scratch_of(sizes, *plan);
  void* borrowed = nullptr;
  if (!impl_->borrow(borrowed, parts.all(), sizes, true, scratch)) return false;
  auto* block = static_cast<std::byte*>(borrowed);
  const Impl::Numbers numbers = impl_->numbers(z);
  std::vector<CudnnPlace> places{{kFusedDout, dout.data},
                                 {kFusedQ, q.data},
                                 {kFusedK, k.data},
                                 {kFusedV, v.data},
                                 {kFusedOut, out.data},
                                 {kFusedLse, lse.data},
                                 {kFusedDq, dq.data},
                                 {kFusedDk, dk.data},
                                 {kFusedDv, dv.data},
                                 {kFusedDelta, block},
                                 {kFusedScale, &numbers.scale},
                                 {kFusedOne, &numbers.one}};
  numbers.add_masks(places, sizes);
  if (parts.dq_sum > 0) places.push_back({kFusedDqSum, block + parts.delta});
  impl_->run(stream, *plan, places, block + parts.delta + parts.dq_sum);
  return true;
}

std::size_t FusedAttention::backward_scratch(const AttentionShape& z) {
  const FusedAttentionShape sizes = sizes_of(z);
  const CudnnPlan* plan = expressible(z) ? impl_->plan_of(sizes, true) : nullptr;
  return plan == nullptr ? 0 : impl_->scratch_of(sizes, *plan).all();
}

std::string FusedAttention::description() const {
  const CudnnSession& cudnn = impl_->cudnn;
  if (!cudnn.missing().empty()) return "own kernels: " + cudnn.missing();
  if (!cudnn.opened()) return "own kernels: nothing that cuDNN takes";
  std::size_t taken = 0;
  std::string bounds;
  for (const auto& [key, plan] : impl_->plans) {
    if (plan == nullptr) continue;
    ++taken;
    if (key.first) bounds = impl_->options.deterministic ? ", gradients in one order" : ", gradients in any order";
  }
  return fmt::format("cuDNN {}: {} of {} kinds of calls{}", cudnn.name_of_version(), taken, impl_->plans.size(),
                     bounds);
}

}  // namespace rehearse::cuda
