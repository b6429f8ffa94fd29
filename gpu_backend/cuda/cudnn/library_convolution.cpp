#include "gpu_backend/cuda/library_convolution.hpp"

#include <array>
#include <map>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "gpu_backend/cuda/cudnn/convolution_graphs.hpp"
#include "gpu_backend/cuda/cudnn/plan.hpp"
#include "gpu_backend/cuda/cudnn/session.hpp"
#include "gpu_backend/execute/device.hpp"

namespace rehearse::cuda {

namespace {

bool aligned(const Reals& x) { return reinterpret_cast<std::uintptr_t>(x.data) % kCudnnAlignment == 0; }

}  // namespace

struct LibraryConvolution::Impl {
  using Key = std::pair<ConvolutionResult, ConvolutionShape>;
  LibraryConvolutionOptions options;
  CudnnSession cudnn;
  std::map<Key, std::unique_ptr<CudnnPlan>> plans;  ///< Null: declined.
  std::vector<std::unique_ptr<CudnnPlan>> retired;

  /// Null where the shape is declined.
  const CudnnPlan* plan_of(const Key& key) {
    const ElementType type = key.second.type;
    if ((type != ElementType::real16 && type != ElementType::real32) || cudnn.handle() == nullptr) return nullptr;
    const auto [at, made] = plans.try_emplace(key);
    if (!made) return at->second.get();
    try {
      at->second = std::make_unique<CudnnPlan>(CudnnTarget(cudnn.handle()), convolution_graph(key.first, key.second),
                                               CudnnWish{true, options.most_scratch});
    } catch (const CudnnFailure&) {
      // Nothing was enqueued: it stays declined.
    }
    return at->second.get();
  }
};

LibraryConvolution::LibraryConvolution(const LibraryConvolutionOptions& options) : impl_(std::make_unique<Impl>()) {
  impl_->options = options;
}
LibraryConvolution::~LibraryConvolution() = default;

void LibraryConvolution::prepare(ConvolutionResult result, const ConvolutionShape& shape) {
  (void)impl_->plan_of({result, shape});
}

bool LibraryConvolution::run(cudaStream_t stream, ConvolutionResult result, Reals small, Reals weights, Reals large,
                             const ConvolutionShape& shape, const Scratch& scratch) {
  if (!aligned(small) || !aligned(weights) || !aligned(large)) return false;
  const CudnnPlan* plan = impl_->plan_of({result, shape});
  if (plan == nullptr) return false;
  void* workspace = nullptr;
  try {
    if (plan->workspace_bytes() > 0) workspace = scratch(plan->workspace_bytes());
  } catch (const OutOfMemory&) {
    impl_->retired.push_back(std::move(impl_->plans[{result, shape}]));  // Kernels of earlier calls may still run.
    return false;
  }
  const std::array<CudnnPlace, 3> places{CudnnPlace{kConvolutionSmall, small.data},
                                         CudnnPlace{kConvolutionWeights, weights.data},
                                         CudnnPlace{kConvolutionLarge, large.data}};
  plan->run(impl_->cudnn.handle(), stream, places, workspace);
  return true;
}

std::string LibraryConvolution::description() const {
  const CudnnSession& cudnn = impl_->cudnn;
  if (!cudnn.missing().empty()) return "own kernels: " + cudnn.missing();
  if (!cudnn.opened()) return {};
  std::size_t taken = 0;
  for (const auto& [key, plan] : impl_->plans) taken += plan != nullptr ? 1 : 0;
  return fmt::format("cuDNN {}: {} of {} kinds of calls", cudnn.name_of_version(), taken, impl_->plans.size());
}

}  // namespace rehearse::cuda
