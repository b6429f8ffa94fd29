// Tensor-parallel communication under the products it feeds or follows (Wang et al. 2023, "Overlap communication with
// dependent computation via decomposition"; Transformer Engine's user buffers, PyTorch's async tensor parallelism): the
// sequence is cut into a piece per rank. A gather is k-1 hops of a piece, each beside the product of the piece at hand;
// a scatter is k-1 hops of a sum that grows by a term on every rank. As many bytes as the collective they stand for, in
// smaller products.

#include <fmt/format.h>

#include "core/strategy/operators/fp8.hpp"
#include "core/strategy/operators/ops_linear.hpp"

namespace rehearse::ops {

namespace {

constexpr int kLinearPiecesSequence = 1;
constexpr int kInOneCall = 0;  // Of ComputeTask::kernels: the library that cut the product launches its pieces.

/// The slice of the sequence that came from the rank `hops` before.
Layout piece_of(const Layout& layout, int hops) {
  Shard s = shard_on(kLinearPiecesSequence);
  s.turned = hops;
  return with_axis(layout, Axis::tp, s);
}

void hop(BlockBody& b, const std::string& name, int from, int to, Phase phase) {
  CollectiveTask c;
  c.op = CollectiveOp::send_recv;
  c.group = b.builder().frame().group("tp", {Axis::tp});
  Task task;
  task.name = name;
  task.kind = c;
  task.operands = {read(from), write(to)};
  task.stream = b.builder().frame().tp;
  task.phase = phase;
  b.builder().add(std::move(task));
}

/// A buffer for the whole of a value, and its pieces as views, by hops: this rank's own slice, then what the others'
/// send.
struct Gathered {
  int whole = -1;
  std::vector<int> pieces;
};

int view_of(BlockBody& b, int whole, const Layout& own, int hops) {
  BodyBuilder& body = b.builder();
  ProgramFrame& f = body.frame();
  ExprPool& e = f.program.exprs;
  Tensor t = body.tensor(whole);
  t.name = fmt::format("{}.piece{}", t.name, hops);
  t.layout = piece_of(own, hops);
  t.alias_of = body.tensor_id(whole);
  t.alias_dim = kLinearPiecesSequence;
  const ExprId ranks = e.extent(Axis::tp),
               back = e.apply(ExprOp::sub, e.apply(ExprOp::add, e.coord(Axis::tp), ranks), e.constant(hops));
  t.alias_offset = f.mul(e.apply(ExprOp::mod, back, ranks), f.local(t, kLinearPiecesSequence));
  const std::string name = t.name;
  return body.scratch(name, f.add_tensor(std::move(t)));
}

Gathered start_gather(BlockBody& b, const std::string& name, int own, Phase phase) {
  BodyBuilder& body = b.builder();
  const Layout layout = body.tensor(own).layout;
  Gathered out;
  out.whole = b.scratch_like(name + ".gathered", own, with_axis(layout, Axis::tp, Replicate{}));
  for (int hops = 0; hops < ranks_along(b, Axis::tp); ++hops) out.pieces.push_back(view_of(b, out.whole, layout, hops));
  body.compute(name + ".own_piece", pass(ComputeOp::copy), {read(own), write(out.pieces[0])}, phase);
  return out;
}

void hop_on(BlockBody& b, const Gathered& g, std::size_t at, const std::string& name, Phase phase) {
  if (at + 1 < g.pieces.size()) hop(b, fmt::format("{}.ring{}", name, at + 1), g.pieces[at], g.pieces[at + 1], phase);
}

Layout as_stored(BlockBody& b, const OpSpec&, int t) { return b.stored(t); }

/// This rank's slice of the output's gradient, cast before it is sent where products are in fp8; -1 where nothing needs
/// it.
int own_output_grad(BlockBody& b, const OpSpec& op) {
  if (!in_fp8(b, op)) return b.grad(op.outputs[0], gradient_layout(b.stored(op.outputs[0])), op.name);
  const std::vector<OperandCopies> cast = fp8_output_grads(b, op, as_stored);
  return cast.empty() ? -1 : cast.front().rows;
}

/// The head and the embedding are left as they are, as in Transformer Engine.
bool in_pieces(BlockBody& b) {
  return b.options().overlap_tp && b.tensors().spec->input >= 0 && b.tensors().spec->output >= 0;
}

}  // namespace

bool gathers_in_pieces(BlockBody& b, const OpSpec& op) {
  if (in_fp8(b, op) && (casts_gathered(b.builder().frame()) || fp8_brought(b, op, linear_input(b, op)) >= 0))
    return false;
  return in_pieces(b) && !op.low_rank && is_shard(b.param_layout(op.params[0]), Axis::tp, 0) &&
         is_shard(b.stored(op.inputs[0]), Axis::tp, kLinearPiecesSequence) &&
         !b.has_value(op.inputs[0], linear_input(b, op));
}

bool scatters_in_pieces(BlockBody& b, const OpSpec& op) {
  return in_pieces(b) && !op.low_rank && op.outputs.size() == 1 &&
         is_shard(b.param_layout(op.params[0]), Axis::tp, 1) &&
         is_shard(b.stored(op.outputs[0]), Axis::tp, kLinearPiecesSequence);
}

void piecewise_gather_forward(BlockBody& b, const OpSpec& op) {
  BodyBuilder& body = b.builder();
  const bool fp8 = in_fp8(b, op);
  const Gathered x =
      start_gather(b, op.name, fp8 ? fp8_input(b, op, b.stored(op.inputs[0])) : b.value(op.inputs[0]), b.phase());
  const int w = fp8 ? fp8_weight(b, op).rows : b.param(op.params[0]);
  std::vector<int> results;
  for (const int t : op.outputs) results.push_back(b.result(t, linear_output(b, op, t)));
  ComputeTask t = linear_product(b, op, "linear_piece", b.tokens(x.pieces[0]), body.dim(w, 0), body.dim(w, 1));
  t.transpose_b = true;
  std::vector<Operand> operands{read(x.whole), read(w)};
  for (const int y : results) operands.push_back(write(y));
  add_bias(b, op, t, operands);
  for (std::size_t i = 0; i < x.pieces.size(); ++i) {
    hop_on(b, x, i, op.name, b.phase());
    operands[0] = read(x.pieces[i]);
    body.compute(op.name, t, operands, b.phase());
    t.kernels = kInOneCall;
  }
  for (std::size_t i = 0; i < results.size(); ++i) b.keep(op.outputs[i], results[i], op.name);
  if (fp8)
    fp8_brought(b, op, linear_input(b, op)) = x.whole;
  else
    b.has_now(op.inputs[0], linear_input(b, op), x.whole);
}

void piecewise_scatter_forward(BlockBody& b, const OpSpec& op) {
  BodyBuilder& body = b.builder();
  const bool fp8 = in_fp8(b, op);
  const int x = fp8 ? fp8_input(b, op, linear_input(b, op)) : b.value(op.inputs[0], linear_input(b, op), op.name);
  const int w = fp8 ? fp8_weight(b, op).rows : b.param(op.params[0]), t = op.outputs[0],
            ranks = ranks_along(b, Axis::tp);
  const Layout stored = b.stored(t);
  int sum = -1;
  for (int step = 1; step <= ranks; ++step) {
    // What a rank adds to last is its own piece.
    const bool last = step == ranks;
    int arrived = -1;
    if (step > 1) {
      arrived = b.scratch_of(t, op.name + ".arrived", piece_of(stored, step % ranks));
      hop(b, fmt::format("{}.ring{}", op.name, step - 1), sum, arrived, b.phase());
    }
    const int term = b.scratch_of(t, op.name + ".term", piece_of(stored, step % ranks));
    ComputeTask product = linear_product(b, op, "linear_piece", b.tokens(term), body.dim(w, 0), body.dim(w, 1));
    product.transpose_b = true;
    if (step > 1) product.kernels = kInOneCall;
    std::vector<Operand> operands{read(x), read(w), write(term)};
    add_bias(b, op, product, operands);
    body.compute(op.name, product, operands, b.phase());
    if (step == 1) {
      sum = term;
      continue;
    }
    const int next = last ? b.result(t, stored) : b.scratch_of(t, op.name + ".sum", piece_of(stored, step));
    ComputeTask add = pass(ComputeOp::add);
    add.kernels = kInOneCall;
    body.compute(op.name + ".add", std::move(add), {read(arrived), read(term), write(next)}, b.phase());
    sum = next;
  }
}

int piecewise_input_grad(BlockBody& b, const OpSpec& op) {
  BodyBuilder& body = b.builder();
  const int own = own_output_grad(b, op);
  if (own < 0) return -1;
  const Gathered dy = start_gather(b, op.name + ".output_grad", own, Phase::input_grad);
  const int w = in_fp8(b, op) ? fp8_weight(b, op).columns : b.param(op.params[0]);
  const bool wanted = b.wants_grad(op.inputs[0]);
  const int dx = wanted ? b.scratch_of(op.inputs[0], op.name + ".input_grad", linear_input(b, op)) : -1;
  ComputeTask product = linear_product(b, op, "linear_input_grad_piece", b.tokens(own), body.dim(w, 1), body.dim(w, 0));
  for (std::size_t i = 0; i < dy.pieces.size(); ++i) {
    hop_on(b, dy, i, op.name + ".output_grad", Phase::input_grad);
    if (!wanted) continue;
    body.compute(op.name + ".input_grad", product, {read(w), write(dx), read(dy.pieces[i])}, Phase::input_grad);
    product.kernels = kInOneCall;
  }
  if (wanted) b.add_grad(op.inputs[0], dx, op.name);
  return dy.whole;
}

}  // namespace rehearse::ops
