// Context parallelism: ranks hold slices of every sequence, and attention alone looks beyond them. Causal sequences are
// dealt so that every rank has early and late tokens: 2 cp pieces, rank i holding the i-th from either end
// (Shard::zigzag). With Ulysses every rank attends over whole sequences, and plain slices do. Parameters are whole on
// all ranks, their gradients partial sums over cp.

#include <algorithm>

#include <fmt/format.h>

#include "core/base/error.hpp"
#include "core/config/settings/strategy.hpp"
#include "core/strategy/aliases.hpp"
#include "core/strategy/no_lowering.hpp"
#include "core/strategy/strategy.hpp"
#include "core/strategy/workload.hpp"

namespace rehearse {

namespace {

/// How many attentions of the network are causal, and how many are not.
struct Kinds {
  int causal = 0, both_ways = 0;
};
Kinds kinds_of(const Network& network) {
  Kinds out;
  for (const BlockSpec& block : network.blocks)
    for (const OpSpec& op : block.ops)
      if (op.kind == OpKind::attention) ++(op.causal ? out.causal : out.both_ways);
  return out;
}

bool balanced(const PlanRequest& request) {
  return request.settings.context != ContextExchange::ulysses && kinds_of(request.workload.network).causal > 0;
}

void check_slices(const PlanRequest& request) {
  const StrategySettings& s = request.settings;
  const std::int64_t length = request.workload.training.sequence_length;
  const bool with_tp = s.sequence_parallel && s.tp > 1;
  const std::int64_t pieces = (balanced(request) ? 2 : 1) * static_cast<std::int64_t>(s.cp);
  const std::int64_t slices = static_cast<std::int64_t>(s.cp) * (with_tp ? s.tp : 1);
  for (const std::int64_t k : {pieces, slices}) {
    if (length % k != 0)
      refuse_at("strategy.cp",
                fmt::format("cp({}){}: sequence_length({}) % {} = {} != 0", s.cp,
                            k == slices && with_tp ? fmt::format(" * tp({})", s.tp) : " in early and late pieces",
                            length, k, length % k),
                fmt::format("choose a sequence length that is a multiple of {}", k));
  }
}

/// Blocks of keys that travel are joined whole: neither those that a window hides nor a score of no key's are told
/// apart.
void refuse_windows(const PlanRequest& request) {
  for (const BlockSpec& block : request.workload.network.blocks)
    for (const OpSpec& op : block.ops)
      if (op.kind == OpKind::attention && (op.attention_window > 0 || !op.params.empty()))
        throw NoLowering(fmt::format("cp({}) has no lowering for attention {} ({})", request.settings.cp,
                                     op.attention_window > 0 ? "to a window" : "with sinks", block.name),
                         "strategy.cp", "set strategy.cp to 1");
}

/// All-to-all deals heads to the ranks of both axes.
void check_heads(const PlanRequest& request) {
  const StrategySettings& s = request.settings;
  for (const BlockSpec& block : request.workload.network.blocks) {
    for (const TensorSpec& t : block.tensors) {
      for (const Dim& d : t.shape) {
        if ((d.tag != DimTag::heads && d.tag != DimTag::kv_heads) ||
            d.size % (static_cast<std::int64_t>(s.cp) * s.tp) == 0)
          continue;
        refuse_at(
            "strategy.context",
            fmt::format("ulysses deals heads to cp({}) * tp({}) = {} ranks, which does not divide {}({})", s.cp, s.tp,
                        s.cp * s.tp, d.tag == DimTag::heads ? "num_attention_heads" : "num_key_value_heads", d.size),
            "set strategy.context to ring, which needs no heads of its own, or make cp smaller");
      }
    }
  }
}

class ContextParallel final : public Strategy {
 public:
  bool active(const PlanRequest& request) const override { return request.settings.cp > 1; }

  void check_axes(const PlanRequest& request) const override {
    const Kinds kinds = kinds_of(request.workload.network);
    if (kinds.causal + kinds.both_ways == 0)
      refuse_at("strategy.cp",
                fmt::format("cp({}) splits sequences that attention joins again: {} has none", request.settings.cp,
                            request.workload.network.name),
                "set strategy.cp to 1");
    if (kinds.causal > 0 && kinds.both_ways > 0)
      refuse_at("strategy.cp",
                "some attentions are causal and some are not: no one division of the sequence balances both",
                "set strategy.cp to 1");
    if (request.workload.kernels.attention == AttentionKernel::unfused) {
      refuse_at(
          "kernels.attention",
          fmt::format("cp({}) joins blocks of attention by the log-sum-exp that fused kernels write; unfused ones "
                      "keep whole rows of scores",
                      request.settings.cp),
          "set kernels.attention to flash");
    }
    refuse_windows(request);
    check_slices(request);
    if (request.settings.context == ContextExchange::ulysses) check_heads(request);
  }

  void assign(const PlanRequest& request, LayoutPlan& plan) const override {
    const auto& blocks = request.workload.network.blocks;
    for (std::size_t b = 0; b < blocks.size(); ++b) {
      for (std::size_t t = 0; t < blocks[b].tensors.size(); ++t) {
        const Shape& shape = blocks[b].tensors[t].shape;
        for (std::size_t d = 0; d < shape.size(); ++d) {
          if (shape[d].tag != DimTag::sequence) continue;
          Shard slice = shard_on(static_cast<int>(d));
          slice.zigzag = balanced(request);
          // Outermost: tensor-parallel ranks divide what a context-parallel rank has.
          Layout& layout = plan.blocks[b].tensors[t];
          layout.insert(layout.begin(), {Axis::cp, slice});
        }
      }
    }
  }
};

[[maybe_unused]] const bool registered_context_parallel = strategies().add(
    {"context_parallel",
     "ranks hold slices of every sequence; attention exchanges keys and values (ring, all-gather) or heads (Ulysses)",
     {{"cp", "ranks per sequence", "1"}, {"context", "ring, ulysses or allgather", "ring"}},
     std::make_shared<ContextParallel>()});

[[maybe_unused]] const bool named_context_parallel =
    name_strategy("context_parallel", {{"--context-parallel-size", "Megatron-LM", "strategy.cp=N"},
                                       {"--cp-comm-type p2p", "Megatron-LM", "strategy.context=ring"},
                                       {"--cp-comm-type a2a", "Megatron-LM", "strategy.context=ulysses"},
                                       {"--cp-comm-type all_gather", "Megatron-LM", "strategy.context=allgather"},
                                       {"DeepSpeed-Ulysses", "DeepSpeed", "strategy.cp=N, strategy.context=ulysses"}});

}  // namespace

}  // namespace rehearse
