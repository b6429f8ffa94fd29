#include "core/strategy/operators/halo.hpp"

#include <algorithm>

#include "core/base/index.hpp"

namespace rehearse {

namespace {

constexpr int kFirstSide = 2;  // batch, channels

std::int64_t floor_div(std::int64_t a, std::int64_t b) { return a >= 0 ? a / b : -((-a + b - 1) / b); }
std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return -floor_div(-a, b); }

struct Span {
  std::int64_t begin, end;
};

/// Slice `i` of `k` of a side of n elements, as Shard cuts it.
Span slice(std::int64_t n, int i, int k) {
  const std::int64_t step = (n + k - 1) / k;
  return {std::min(n, i * step), std::min(n, (i + 1) * step)};
}

/// Compares, tile by tile, what of a side of `n` elements is needed with what is owned.
template <class Needed>
HaloNeed compare(std::int64_t n, int tiles, Needed needed) {
  HaloNeed out;
  for (int i = 0; i < tiles; ++i) {
    const Span own = slice(n, i, tiles);
    Span need = needed(i);
    need = {std::clamp<std::int64_t>(need.begin, 0, n), std::clamp<std::int64_t>(need.end, 0, n)};
    if (own.begin >= own.end) out.fits = false;
    if (need.begin >= need.end) continue;
    const std::int64_t before = std::max<std::int64_t>(0, own.begin - need.begin),
                       after = std::max<std::int64_t>(0, need.end - own.end);
    if (i > 0 && before > slice(n, i - 1, tiles).end - slice(n, i - 1, tiles).begin) out.fits = false;
    if (i + 1 < tiles && after > slice(n, i + 1, tiles).end - slice(n, i + 1, tiles).begin) out.fits = false;
    out.before = std::max(out.before, before);
    out.after = std::max(out.after, after);
  }
  return out;
}

Axis axis_of(DimTag tag) { return tag == DimTag::height ? Axis::tile_h : Axis::tile_w; }

bool tiled(const Layout& layout, Axis axis) { return !std::holds_alternative<Replicate>(layout_on(layout, axis)); }

}  // namespace

HaloNeed halo_of_input(const WindowDim& w, std::int64_t in, std::int64_t out, int tiles) {
  HaloNeed need = compare(in, tiles, [&](int i) {
    const Span made = slice(out, i, tiles);
    if (made.begin >= made.end) return Span{0, 0};
    return Span{made.begin * w.stride - w.padding,
                (made.end - 1) * w.stride - w.padding + w.dilation * (w.kernel - 1) + 1};
  });
  const Span last = slice(out, tiles - 1, tiles);
  need.fits &= last.begin < last.end;
  return need;
}

HaloNeed halo_of_gradient(const WindowDim& w, std::int64_t in, std::int64_t out, int tiles) {
  return compare(out, tiles, [&](int i) {
    const Span wanted = slice(in, i, tiles);
    if (wanted.begin >= wanted.end) return Span{0, 0};
    return Span{ceil_div(wanted.begin + w.padding - w.dilation * (w.kernel - 1), w.stride),
                floor_div(wanted.end - 1 + w.padding, w.stride) + 1};
  });
}

HaloNeed input_need(const OpSpec& op, std::size_t side, std::int64_t in, std::int64_t out, int tiles) {
  return op.transposed ? halo_of_gradient(op.window[side], out, in, tiles)
                       : halo_of_input(op.window[side], in, out, tiles);
}

HaloNeed gradient_need(const OpSpec& op, std::size_t side, std::int64_t in, std::int64_t out, int tiles) {
  return op.transposed ? halo_of_input(op.window[side], out, in, tiles)
                       : halo_of_gradient(op.window[side], in, out, tiles);
}

namespace {

/// Length of side `dim` that a rank holds, with the halos on axes in `filled`.
ExprId held(ProgramFrame& f, const Tensor& t, int dim, const std::vector<Axis>& filled) {
  ExprPool& e = f.program.exprs;
  ExprId n = f.local(t, dim);
  for (const Axis axis : filled) {
    const AxisLayout l = layout_on(t.layout, axis);
    const auto* h = std::get_if<Halo>(&l);
    if (h == nullptr || h->dim != dim) continue;
    const ExprId inner = e.apply(ExprOp::lt, ExprPool::kZero, e.coord(axis));
    const ExprId more = e.apply(ExprOp::lt, e.apply(ExprOp::add, e.coord(axis), ExprPool::kOne), e.extent(axis));
    n = e.apply(ExprOp::add, n, f.mul(inner, e.constant(h->before)));
    n = e.apply(ExprOp::add, n, f.mul(more, e.constant(h->after)));
  }
  return n;
}

/// Elements for each peer: those behind its own for the one before, those before its own for the one after.
CollectiveTask exchange_on(ProgramFrame& f, const Tensor& t, Axis axis, const Halo& h,
                           const std::vector<Axis>& filled) {
  ExprPool& e = f.program.exprs;
  ExprId across = ExprPool::kOne;
  for (int d = 0; d < static_cast<int>(t.shape.size()); ++d)
    if (d != h.dim) across = f.mul(across, held(f, t, d, filled));
  const ExprId me = e.coord(axis), peer = e.variable(Var::peer);
  const ExprId before_me = e.apply(ExprOp::eq, e.apply(ExprOp::add, peer, ExprPool::kOne), me);
  const ExprId after_me = e.apply(ExprOp::eq, peer, e.apply(ExprOp::add, me, ExprPool::kOne));
  const auto rows = [&](std::int64_t to_before, std::int64_t to_after) {
    return f.mul(across, e.apply(ExprOp::select, before_me, e.constant(to_before),
                                 e.apply(ExprOp::select, after_me, e.constant(to_after), ExprPool::kZero)));
  };
  CollectiveTask c;
  c.op = CollectiveOp::halo_exchange;
  c.group = f.group(std::string(name_of(axis)), {axis});
  c.variable_counts = true;
  c.count_to_peer = rows(h.after, h.before);
  c.count_from_peer = rows(h.before, h.after);
  return c;
}

}  // namespace

void exchange_halos(BodyBuilder& builder, int formal, const std::string& name, Phase phase, int base) {
  const Tensor t = builder.tensor(formal);
  std::vector<Axis> filled;
  for (const auto& [axis, l] : t.layout) {
    const auto* h = std::get_if<Halo>(&l);
    if (h == nullptr || (h->before == 0 && h->after == 0)) continue;
    Task task;
    task.name = name + ".halo_" + (axis == Axis::tile_h ? "rows" : "columns");
    task.kind = exchange_on(builder.frame(), t, axis, *h, filled);
    const bool first = filled.empty() && base >= 0;
    task.operands = first ? std::vector<Operand>{read(base), write(formal)} : std::vector<Operand>{update(formal)};
    task.stream = builder.frame().tile;
    task.phase = phase;
    builder.add(std::move(task));
    filled.push_back(axis);
  }
}

int BlockBody::with_halos(int t, const std::string& why) {
  const int base = value(t);
  const bool forward = phase_ == Phase::forward || phase_ == Phase::recompute;
  if (forward && haloed_.insert(t).second) exchange_halos(builder_, base, why, phase_);
  return base;
}

void BlockBody::all_reduce(int formal, AxisSet axes, const std::string& name, Phase phase) {
  if (axes.empty()) return;
  ProgramFrame& f = builder_.frame();
  const bool tiles = axes.contains(Axis::tile_h) || axes.contains(Axis::tile_w);
  CollectiveTask c;
  c.op = CollectiveOp::all_reduce;
  const bool data = axes.contains(Axis::dp_replicate) || axes.contains(Axis::dp_shard);
  c.group = f.group(tiles && data ? "dp.tile" : tiles ? "tile" : "dp", axes);
  Task task;
  task.name = name + ".all_reduce";
  task.kind = c;
  task.operands = {update(formal)};
  task.stream = tiles ? f.tile : f.dp;
  task.phase = phase;
  builder_.add(std::move(task));
}

int windowed_input(BlockBody& b, const OpSpec& op, const std::string& why) {
  const Layout from = b.stored(op.inputs[0]), &to = b.stored(op.outputs[0]);
  Layout wanted = from;
  for (const Axis axis : {Axis::tile_h, Axis::tile_w})
    if (tiled(from, axis) && !tiled(to, axis)) wanted = with_axis(wanted, axis, Replicate{});
  return wanted == from ? b.with_halos(op.inputs[0], why) : b.value(op.inputs[0], wanted, why);
}

Layout input_gradient_layout(BlockBody& b, const OpSpec& op) {
  Layout out = gradient_layout(b.stored(op.inputs[0]));
  for (const Axis axis : {Axis::tile_h, Axis::tile_w})
    if (!tiled(b.stored(op.outputs[0]), axis)) out = with_axis(out, axis, Replicate{});
  return out;
}

int with_gradient_halos(BlockBody& b, const OpSpec& op, int formal, const std::string& why) {
  const BlockSpec& spec = *b.tensors().spec;
  const Shape &in = nth(spec.tensors, op.inputs[0]).shape, &out = nth(spec.tensors, op.outputs[0]).shape;
  ProgramFrame& f = b.builder().frame();
  Layout layout = b.builder().tensor(formal).layout;
  bool any = false;
  for (std::size_t side = 0; side < op.window.size(); ++side) {
    const std::size_t dim = side + kFirstSide;
    if (in[dim].tag == DimTag::depth) continue;
    const Axis axis = axis_of(in[dim].tag);
    if (!tiled(layout, axis)) continue;
    const HaloNeed need =
        gradient_need(op, side, in[dim].size, out[dim].size, f.program.mesh.islands().front().extent(axis));
    if (need.before == 0 && need.after == 0) continue;
    layout = with_axis(layout, axis, Halo{static_cast<int>(dim), need.before, need.after, {}});
    any = true;
  }
  if (!any) return formal;
  // Copied into a buffer with room for them around it.
  Tensor padded = b.builder().tensor(formal);
  padded.alias_of = -1;
  padded.alias_instance = {};
  padded.layout = layout;
  padded.lifetime = Lifetime::scratch;
  padded.per_layer = padded.per_chunk = padded.per_microbatch = false;
  padded.name += "@halo";
  const std::string name = padded.name;
  const int view = b.builder().scratch(name, f.add_tensor(std::move(padded)));
  exchange_halos(b.builder(), view, why + ".input_grad", Phase::input_grad, formal);
  return view;
}

int windowed_gradient(BlockBody& b, const OpSpec& op, const std::string& why) {
  const int dy = b.grad(op.outputs[0], gradient_layout(b.stored(op.outputs[0])), why);
  return with_gradient_halos(b, op, dy, why);
}

std::vector<double> window_scalars(const OpSpec& op) {
  std::vector<double> out;
  for (const WindowDim& w : op.window)
    for (const std::int64_t v : {w.kernel, w.stride, w.padding, w.dilation}) out.push_back(static_cast<double>(v));
  return out;
}

}  // namespace rehearse
