// Tiles: the ranks of a group hold slices of every image, height by width, with the same parameters (spatial
// parallelism: Dryden et al. 2019, arXiv:1903.06681). A window at the edge of a tile reads rows and columns of the
// neighbours: the halo, exchanged before every convolution and pool, and of the gradient before their backward. At the
// edge of the image there is padding as without tiles. From the first layer whose tiles would be empty or smaller than
// a halo on, images are gathered and every rank of the group does the same.

#include <algorithm>

#include <fmt/format.h>

#include "core/base/index.hpp"
#include "core/config/settings/strategy.hpp"
#include "core/strategy/no_lowering.hpp"
#include "core/strategy/operators/halo.hpp"
#include "core/strategy/strategy.hpp"
#include "core/strategy/workload.hpp"

namespace rehearse {

namespace {

bool has_window(const OpSpec& op) {
  return op.kind == OpKind::convolution || op.kind == OpKind::pool || op.kind == OpKind::upsample;
}

int dim_of(const Shape& shape, DimTag side) {
  for (std::size_t d = 0; d < shape.size(); ++d)
    if (shape[d].tag == side) return static_cast<int>(d);
  return -1;
}

/// One axis of tiles over one network: which tensors are tiled, and the halo each needs.
class TiledSide {
 public:
  TiledSide(const Network& network, DimTag side, int tiles) : network_(network), side_(side), tiles_(tiles) {
    for (const BlockSpec& b : network.blocks) sides_.emplace_back(b.tensors.size());
    for (std::size_t b = 0; b < network.blocks.size(); ++b) walk(b);
    // Twice: what a repeated block asks of its own output reaches the block behind it in the second round.
    for (int round = 0; round < 2; ++round)
      for (std::size_t b = network.blocks.size(); b-- > 0;) hand_back(b);
  }

  void assign(LayoutPlan& plan, Axis axis) const {
    for (std::size_t b = 0; b < network_.blocks.size(); ++b) {
      for (std::size_t t = 0; t < sides_[b].size(); ++t) {
        const Side& s = sides_[b][t];
        if (!s.tiled) continue;
        const int d = dim_of(network_.blocks[b].tensors[t].shape, side_);
        if (s.before == 0 && s.after == 0)
          plan.blocks[b].tensors[t].emplace_back(axis, shard_on(d));
        else
          plan.blocks[b].tensors[t].emplace_back(axis, Halo{d, s.before, s.after, {}});
      }
    }
  }

 private:
  struct Side {
    bool tiled = false;
    std::int64_t before = 0, after = 0;
  };

  [[nodiscard]] std::int64_t length(std::size_t b, int t) const {
    const Shape& shape = nth(network_.blocks[b].tensors, t).shape;
    const int d = dim_of(shape, side_);
    return d < 0 ? 0 : nth(shape, d).size;
  }
  Side& side(std::size_t b, int t) { return nth(sides_[b], t); }

  [[nodiscard]] bool divides(std::int64_t n) const { return n > (n + tiles_ - 1) / tiles_ * (tiles_ - 1); }

  [[noreturn]] void refuse(std::size_t b, const std::string& at, const std::string& what) const {
    const char* axis = side_ == DimTag::height ? "tile_h" : "tile_w";
    throw Error(ErrorKind::usage, fmt::format("{}({}): {}/{}: {}", axis, tiles_, network_.blocks[b].name, at, what),
                fmt::format("strategy.{}", axis), "choose fewer tiles or a larger image");
  }

  void walk(std::size_t b) {
    const BlockSpec& block = network_.blocks[b];
    for (std::size_t t = 0; t < block.tensors.size(); ++t) {
      const TensorSpec& s = block.tensors[t];
      Side& mine = sides_[b][t];
      const std::int64_t n = length(b, static_cast<int>(t));
      if (n == 0) continue;
      if (static_cast<int>(t) == block.input)
        mine.tiled = b > 0 && nth(sides_[b - 1], network_.blocks[b - 1].output).tiled;
      if (s.is_input() && s.loaded && !(mine.tiled = divides(n)))
        refuse(b, s.name, fmt::format("an image of {} cannot be cut so", n));
      if (!s.from.empty()) {
        const auto [maker, made] = find_skip(network_, s.from);
        mine.tiled = side(static_cast<std::size_t>(maker), made).tiled;
      }
    }
    for (const OpSpec& op : block.ops) decide(b, op);
    if (network_.repeat[b] > 1 && side(b, block.input).tiled != side(b, block.output).tiled)
      refuse(b, "output", "its tiles become too small between two copies of the block");
  }

  /// Whether the op's output is tiled, and what that asks of its input.
  void decide(std::size_t b, const OpSpec& op) {
    const int y = op.outputs[0];
    const std::int64_t out = length(b, y);
    if (op.kind == OpKind::pixel_loss) return label(b, op);
    if (out == 0) return;  // Features: whole images have gone into them.
    bool all = true, any = false;
    for (const int t : op.inputs) {
      all &= side(b, t).tiled;
      any |= side(b, t).tiled;
    }
    if (any != all)
      refuse(b, op.name, "some of its inputs are gathered, as their tiles are too small, and some are not");
    if (!any) {
      // One pixel spread over the image: every tile fills itself.
      if (op.kind == OpKind::upsample && length(b, op.inputs[0]) == 1 && divides(out))
        side(b, y).tiled = true;
      else if (out > length(b, op.inputs[0]))
        refuse(b, op.name, "the image grows again after its tiles have become too small to keep");
      return;
    }
    Side& made = side(b, y);
    made.tiled = divides(out);
    if (!has_window(op)) {
      if (!made.tiled) refuse(b, op.name, fmt::format("a side of {} cannot be cut so", out));
      return;
    }
    const auto w = static_cast<std::size_t>(dim_of(nth(network_.blocks[b].tensors, y).shape, side_)) - 2;
    const std::int64_t in = length(b, op.inputs[0]);
    const HaloNeed need = input_need(op, w, in, out, tiles_), back = gradient_need(op, w, in, out, tiles_);
    made.tiled &= need.fits && back.fits;
    if (!made.tiled) return;
    Side& x = side(b, op.inputs[0]);
    x.before = std::max(x.before, need.before);
    x.after = std::max(x.after, need.after);
  }

  /// Labels lie as the logits do.
  void label(std::size_t b, const OpSpec& op) { side(b, op.inputs[1]).tiled = side(b, op.inputs[0]).tiled; }

  /// Both sides of a boundary lie alike, and so do a skip connection's; a repeated block hands on what it takes.
  void hand_back(std::size_t b) {
    const BlockSpec& block = network_.blocks[b];
    for (std::size_t t = 0; t < block.tensors.size(); ++t)
      if (!block.tensors[t].from.empty()) {
        const auto [maker, made] = find_skip(network_, block.tensors[t].from);
        join(side(static_cast<std::size_t>(maker), made), sides_[b][t]);
      }
    if (network_.repeat[b] > 1) join(side(b, block.output), side(b, block.input));
    if (b > 0 && block.input >= 0) join(side(b - 1, network_.blocks[b - 1].output), side(b, block.input));
  }

  static void join(Side& a, Side& b) {
    a.before = b.before = std::max(a.before, b.before);
    a.after = b.after = std::max(a.after, b.after);
    if (!a.tiled || !b.tiled) a.before = b.before = a.after = b.after = 0;
  }

  const Network& network_;
  DimTag side_;
  int tiles_;
  std::vector<std::vector<Side>> sides_;
};

class TileParallel final : public Strategy {
 public:
  bool active(const PlanRequest& request) const override {
    return request.settings.tile_h > 1 || request.settings.tile_w > 1;
  }

  void check(const PlanRequest& request) const override {
    const Network& net = request.workload.network;
    const Shape& first = net.blocks.front().tensors.front().shape;
    if (dim_of(first, DimTag::height) < 0)
      throw Error(ErrorKind::usage, fmt::format("{} takes no images: there is nothing to tile", net.name),
                  "strategy.tile_h", "set strategy.tile_h and strategy.tile_w to 1");
    if (request.settings.fsdp.enabled)
      throw NoLowering("fsdp with tiles has no lowering: parameters of one unit are summed over tiles, others are not",
                       "strategy.fsdp.enabled", "set strategy.fsdp.enabled to false");
    if (request.settings.zero_stage > 0)
      throw NoLowering("zero_stage with tiles has no lowering: the optimizer state would be divided over replicas only",
                       "strategy.zero_stage", "set strategy.zero_stage to 0");
  }

  void assign(const PlanRequest& request, LayoutPlan& plan) const override {
    const Network& net = request.workload.network;
    if (request.settings.tile_h > 1) TiledSide(net, DimTag::height, request.settings.tile_h).assign(plan, Axis::tile_h);
    if (request.settings.tile_w > 1) TiledSide(net, DimTag::width, request.settings.tile_w).assign(plan, Axis::tile_w);
  }
};

[[maybe_unused]] const bool registered_tile_parallel = strategies().add(
    {"tile_parallel",
     "ranks hold tiles of every image; halos exchanged around each convolution and pool, gradients summed over tiles",
     {{"tile_h", "tiles along the height", "1"},
      {"tile_w", "tiles along the width", "1"},
      {"statistics", "batch moments are those of the whole image in either scope", "local"}},
     std::make_shared<TileParallel>()});

}  // namespace

}  // namespace rehearse
