#include "core/strategy/bodies/recompute_groups.hpp"
#include "core/config/settings/strategy.hpp"

#include <algorithm>

#include <fmt/format.h>

namespace rehearse {

namespace {

enum class Kind { keeps, first, inner };

class Groups {
 public:
  Groups(ProgramFrame& frame, const BlockOptions& options, const StrategySettings& settings,
         std::vector<BlockTensors>& blocks, std::vector<BlockBodies>& bodies)
      : frame_(frame), options_(options), settings_(settings), blocks_(blocks), bodies_(bodies) {}

  RecomputeGroups make(const std::vector<int>& block_at, const std::vector<ChunkPlacement>& chunks) {
    out_.body_at = block_at;
    const bool block = settings_.recompute_method == RecomputeMethod::block;
    if (!block && settings_.recompute_layers == 1) return std::move(out_);
    check();
    for (const ChunkPlacement& c : chunks) {
      std::vector<int> layers;
      for (int p = c.first_layer; p < c.last_layer; ++p)
        if (spec(block_at[at(p)]).is_layer()) layers.push_back(p);
      if (block)
        keep_after(layers);
      else
        group(layers);
    }
    return std::move(out_);
  }

 private:
  static std::size_t at(int i) { return static_cast<std::size_t>(i); }
  [[nodiscard]] const BlockSpec& spec(int block) const { return *blocks_[at(block)].spec; }

  void check() const {
    const bool any =
        std::any_of(blocks_.begin(), blocks_.end(), [](const BlockTensors& b) { return b.spec->is_layer(); });
    if (!any)
      throw Error(ErrorKind::usage, "this network has no repeated layers to recompute in part",
                  "strategy.recompute_layers",
                  "set strategy.recompute_method to uniform and strategy.recompute_layers to 1");
    if (settings_.recompute_method == RecomputeMethod::uniform && (settings_.fsdp.enabled || settings_.zero_stage == 3))
      throw Error(
          ErrorKind::usage,
          fmt::format("groups of {} layers run again together, but their weights are gathered one layer at a time",
                      settings_.recompute_layers),
          "strategy.recompute_layers", "set strategy.recompute_layers to 1, or strategy.recompute_method to block");
  }

  void keep_after(const std::vector<int>& layers) {
    for (std::size_t i = at(settings_.recompute_layers); i < layers.size(); ++i) use(layers[i], Kind::keeps);
  }

  void group(const std::vector<int>& layers) {
    const std::size_t n = at(settings_.recompute_layers);
    for (std::size_t first = 0; first < layers.size(); first += n) {
      const std::size_t end = std::min(first + n, layers.size());
      for (std::size_t i = first; i < end; ++i) use(layers[i], i == first ? Kind::first : Kind::inner);
      out_.groups[layers[end - 1]] = layers[first];
    }
  }

  void use(int position, Kind kind) {
    const int block = out_.body_at[at(position)];
    const auto [made, fresh] = made_.try_emplace({block, kind}, static_cast<int>(bodies_.size()));
    if (fresh) bodies_.push_back(bodies_of(block, kind));
    out_.body_at[at(position)] = made->second;
  }

  /// The block's tensors where it keeps what backward reads.
  BlockTensors& keeping(int block) {
    const auto known = keeping_.find(block);
    if (known != keeping_.end()) return known->second;
    return keeping_.emplace(block, keep_values(frame_, blocks_[at(block)], options_)).first->second;
  }

  StepBodies::Made body(BlockTensors& tensors, const char* name, Phase phase, void (BlockBody::*fill)()) {
    BlockBody b(frame_, tensors, options_, tensors.spec->name + name, phase);
    (b.*fill)();
    return b.finish();
  }

  BlockBodies bodies_of(int block, Kind kind) {
    BlockBodies out = bodies_[at(block)];
    BlockTensors& kept = keeping(block);
    if (kind == Kind::keeps) {
      out.forward = body(kept, ".forward", Phase::forward, &BlockBody::forward);
      out.backward = backward_of(block);
      return out;
    }
    BlockTensors inner = blocks_[at(block)];
    inner.keeps_input = false;
    if (kind == Kind::inner) out.forward = body(inner, ".forward", Phase::forward, &BlockBody::forward);
    for (const bool hands_on : {true, false}) {
      BlockBody again(frame_, kept, options_, kept.spec->name + ".forward_again", Phase::recompute);
      again.forward_again(hands_on);
      (hands_on ? out.again : out.again_last) = again.finish();
    }
    out.backward = backward_of(block);
    return out;
  }

  /// One for all kinds, made after a forward that keeps what it reads.
  StepBodies::Made backward_of(int block) {
    const auto [known, fresh] = backward_.try_emplace(block, StepBodies::Made{-1, -1});
    if (fresh) {
      known->second = body(keeping(block), ".backward", Phase::input_grad, &BlockBody::backward);
      out_.backwards.emplace_back(block, known->second.body);
    }
    return known->second;
  }

  ProgramFrame& frame_;
  const BlockOptions& options_;
  const StrategySettings& settings_;
  std::vector<BlockTensors>& blocks_;
  std::vector<BlockBodies>& bodies_;
  RecomputeGroups out_;
  std::map<std::pair<int, Kind>, int> made_;
  std::map<int, BlockTensors> keeping_;
  std::map<int, StepBodies::Made> backward_;
};

}  // namespace

RecomputeGroups make_recompute_groups(ProgramFrame& frame, const BlockOptions& options,
                                      const StrategySettings& settings, std::vector<BlockTensors>& blocks,
                                      const std::vector<int>& block_at, const std::vector<ChunkPlacement>& chunks,
                                      std::vector<BlockBodies>& bodies) {
  return Groups(frame, options, settings, blocks, bodies).make(block_at, chunks);
}

}  // namespace rehearse
