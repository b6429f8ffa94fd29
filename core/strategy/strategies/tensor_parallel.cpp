// Tensor parallelism (Shoeybi et al. 2019, sec. 3): heads, MLP neurons and the vocabulary are dealt to the ranks of a
// group. A weight split by output features is column parallel, one split by input features row parallel and its output
// a partial sum.

#include <algorithm>

#include <fmt/format.h>

#include "core/base/index.hpp"
#include "core/config/settings/strategy.hpp"
#include "core/strategy/aliases.hpp"
#include "core/strategy/strategy.hpp"
#include "core/strategy/workload.hpp"

namespace rehearse {

namespace {

bool splits(DimTag tag) {
  return tag == DimTag::heads || tag == DimTag::kv_heads || tag == DimTag::ffn || tag == DimTag::vocabulary ||
         tag == DimTag::adapted;
}

int split_dim(const Shape& shape) {
  for (std::size_t d = 0; d < shape.size(); ++d)
    if (splits(shape[d].tag)) return static_cast<int>(d);
  return -1;
}

std::string_view what(const BlockSpec& block, DimTag tag) {
  const bool mamba =
      std::any_of(block.ops.begin(), block.ops.end(), [](const OpSpec& op) { return op.kind == OpKind::state_space; });
  switch (tag) {
    case DimTag::heads: return mamba ? "mamba_num_heads" : "num_attention_heads";
    case DimTag::adapted: return "hidden_size";
    case DimTag::kv_heads: return mamba ? "n_groups" : "num_key_value_heads";
    default: return "intermediate_size";
  }
}

/// A vocabulary that does not divide is padded to the next multiple, as frameworks do, so that every rank computes the
/// same.
Shard slice_of(const Shape& shape, int d, int tp) {
  Shard s = shard_on(d);
  const Dim& dim = nth(shape, d);
  s.padded = dim.tag == DimTag::vocabulary && dim.size % tp != 0;
  return s;
}

class TensorParallel final : public Strategy {
 public:
  bool active(const PlanRequest& request) const override { return request.settings.tp > 1; }

  void check_axes(const PlanRequest& request) const override {
    const int tp = request.settings.tp;
    for (const BlockSpec& block : request.workload.network.blocks) {
      for (const TensorSpec& tensor : block.tensors) {
        for (const Dim& dim : tensor.shape) {
          // A vocabulary is padded; heads and neurons are not.
          if (!splits(dim.tag) || dim.tag == DimTag::vocabulary || dim.size % tp == 0) continue;
          std::string valid;
          for (int k = 1; k <= dim.size && k <= 64; ++k)
            if (dim.size % k == 0) valid += (valid.empty() ? "" : ", ") + std::to_string(k);
          throw Error(ErrorKind::usage,
                      fmt::format("tp({}) does not divide {}({})", tp, what(block, dim.tag), dim.size), "strategy.tp",
                      fmt::format("valid for this model: {}", valid));
        }
      }
    }
  }

  void assign(const PlanRequest& request, LayoutPlan& plan) const override {
    const auto& blocks = request.workload.network.blocks;
    for (std::size_t b = 0; b < blocks.size(); ++b) {
      for (std::size_t t = 0; t < blocks[b].tensors.size(); ++t)
        if (const int d = split_dim(blocks[b].tensors[t].shape); d >= 0)
          plan.blocks[b].tensors[t].emplace_back(Axis::tp,
                                                 slice_of(blocks[b].tensors[t].shape, d, request.settings.tp));
      for (std::size_t p = 0; p < blocks[b].params.size(); ++p)
        if (const int d = split_dim(blocks[b].params[p].shape); d >= 0)
          plan.blocks[b].params[p].emplace_back(Axis::tp, slice_of(blocks[b].params[p].shape, d, request.settings.tp));
    }
  }
};

[[maybe_unused]] const bool registered_tensor_parallel = strategies().add(
    {"tensor_parallel",
     "heads, MLP neurons and vocabulary split over the ranks of a group; all-reduce after each half layer",
     {{"tp", "ranks per tensor-parallel group", "1"}},
     std::make_shared<TensorParallel>()});

[[maybe_unused]] const bool named_tensor_parallel =
    name_strategy("tensor_parallel",
                  {{"keras.distribution.ModelParallel", "Keras", "strategy.tp=N, strategy.dp=M, of its layout map"},
                   {"--tensor-model-parallel-size", "Megatron-LM", "strategy.tp=N"}});

}  // namespace

}  // namespace rehearse
