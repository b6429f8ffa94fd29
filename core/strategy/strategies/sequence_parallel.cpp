// Sequence parallelism (Korthikanti et al. 2022, sec. 4.2.2): outside attention and MLP the tensor-parallel ranks hold
// slices of the sequence, so that norms, dropouts and their activations are divided too. All-reduces become all-gather
// and reduce-scatter.

#include <algorithm>

#include <fmt/format.h>

#include "core/config/settings/strategy.hpp"
#include "core/strategy/aliases.hpp"
#include "core/strategy/strategy.hpp"
#include "core/strategy/workload.hpp"

namespace rehearse {

namespace {

class SequenceParallel final : public Strategy {
 public:
  bool active(const PlanRequest& request) const override {
    return request.settings.sequence_parallel && request.settings.tp > 1;
  }

  void check_axes(const PlanRequest& request) const override {
    const auto s = request.workload.training.sequence_length;
    if (s % request.settings.tp != 0)
      throw Error(ErrorKind::usage,
                  fmt::format("sequence_parallel: sequence_length({}) % tp({}) = {} != 0", s, request.settings.tp,
                              s % request.settings.tp),
                  "strategy.sequence_parallel",
                  "choose a sequence length that tp divides, or turn sequence_parallel off");
  }

  void assign(const PlanRequest& request, LayoutPlan& plan) const override {
    const auto& blocks = request.workload.network.blocks;
    for (std::size_t b = 0; b < blocks.size(); ++b) {
      for (std::size_t t = 0; t < blocks[b].tensors.size(); ++t) {
        const TensorSpec& tensor = blocks[b].tensors[t];
        const bool hidden = !tensor.shape.empty() && tensor.shape.back().tag == DimTag::hidden;
        if (tensor.integer || !hidden) continue;
        for (std::size_t d = 0; d < tensor.shape.size(); ++d)
          if (tensor.shape[d].tag == DimTag::sequence)
            plan.blocks[b].tensors[t].emplace_back(Axis::tp, shard_on(static_cast<int>(d)));
      }
    }
  }
};

[[maybe_unused]] const bool registered_sequence_parallel =
    strategies().add({"sequence_parallel",
                      "tensor-parallel ranks hold slices of the sequence outside attention and MLP",
                      {{"sequence_parallel", "on or off; needs tp > 1 to have an effect", "false"}},
                      std::make_shared<SequenceParallel>()});

[[maybe_unused]] const bool named_sequence_parallel =
    name_strategy("sequence_parallel", {{"--sequence-parallel", "Megatron-LM", "strategy.sequence_parallel=true"}});

}  // namespace

}  // namespace rehearse
