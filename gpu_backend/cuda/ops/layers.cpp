// Norms, activations, attention, dropout, embeddings and what works element by element. Operands as in the files of the
// same names in cpu/ops.

#include <algorithm>
#include <array>
#include <vector>

#include "gpu_backend/communicate/transfer.hpp"
#include "gpu_backend/cuda/check.hpp"
#include "gpu_backend/cuda/ops/attention_shape.hpp"
#include "gpu_backend/cuda/ops/image_operands.hpp"

namespace rehearse::cuda {

namespace {

template <Curve kWhich>
void run_curve(const OperatorCall& c) {
  curve(stream(c), kWhich, reals(c.operand(0)), reals(c.operand(1)), c.operand(0).elements());
}
template <Curve kWhich>
void run_curve_grad(const OperatorCall& c) {
  curve_grad(stream(c), kWhich, reals(c.operand(0)), reals(c.operand(1)), reals(c.operand(2)), c.operand(1).elements());
}
/// One row where rows lie one after the other.
GatedRows gated_rows(const TensorView& gate, const TensorView& up, const TensorView& dgate, const TensorView& dup) {
  const std::int64_t n = gate.elements(), width = gate.apart > 0 || dgate.apart > 0 ? gate.from(2) : n;
  if (gate.apart != up.apart || dgate.apart != dup.apart)
    throw std::logic_error("a gate whose rows lie apart otherwise than those that it multiplies");
  return {width > 0 ? n / width : 0, width, gate.row_stride(width), dgate.row_stride(width)};
}
void run_silu_mul(const OperatorCall& c) {
  const TensorView &gate = c.operand(0), &up = c.operand(1);
  silu_mul(stream(c), reals(gate), reals(up), reals(c.operand(2)), gated_rows(gate, up, gate, up));
}
/// dy, gate, its gradient, what it multiplies, its gradient
void run_silu_mul_grad(const OperatorCall& c) {
  const TensorView &gate = c.operand(1), &dgate = c.operand(2), &up = c.operand(3), &dup = c.operand(4);
  silu_mul_grad(stream(c), reals(c.operand(0)), reals(gate), reals(up), reals(dgate), reals(dup),
                gated_rows(gate, up, dgate, dup));
}
bool apart_in_silu_mul(const OperatorCall&, std::size_t operand) { return operand < 2; }
bool apart_in_silu_mul_grad(const OperatorCall&, std::size_t operand) { return operand > 0; }

enum class NormKind { layer, rms, grouped };
/// Grouped: scalars: features of a run, each with its piece of the weight.
NormShape norm_shape(const OperatorCall& c, NormKind kind, const TensorView& weight) {
  const std::int64_t features =
      kind == NormKind::grouped ? static_cast<std::int64_t>(c.task->scalars.at(0)) : width(c.operand(0));
  return {c.operand(0).elements() / features, features, c.task->epsilon, kind == NormKind::layer,
          weight.elements() / features};
}
template <NormKind kKind>
void run_norm(const OperatorCall& c) {
  norm(stream(c), reals(c.operand(0)), reals(c.operand(1)), c.operands.size() > 3 ? c.operand(2).data : nullptr,
       reals(c.operands.back()), norm_shape(c, kKind, c.operand(1)));
}
/// x, dy, weight, dx; or, where the task accumulates: x, dy, weight gradient, [bias gradient].
template <NormKind kKind>
void run_norm_grad(const OperatorCall& c) {
  const NormShape z = norm_shape(c, kKind, c.operand(2));
  if (!c.task->accumulates)
    return norm_input_grad(stream(c), reals(c.operand(0)), reals(c.operand(1)), reals(c.operand(2)),
                           reals(c.operand(3)), z);
  norm_weight_grad(stream(c), reals(c.operand(0)), reals(c.operand(1)), reals(c.operand(2)),
                   c.operands.size() > 3 ? c.operand(3).data : nullptr, z,
                   c.launch->scratch(norm_scratch_bytes(z, c.operand(0).type)));
}

/// By cuDNN where it takes the shape, else by the kernels here.
void run_attention(const OperatorCall& c) {
  const Reals q = reals(c.operand(0)), k = reals(c.operand(1)), v = reals(c.operand(2)), to = reals(c.operand(3)),
              lse = reals(c.operand(4));
  const AttentionShape z = attention_shape(c, c.operand(0), c.operand(1), c.operand(2));
  if (!c.launch->fused_attention->forward(stream(c), q, k, v, to, lse, z, c.launch->scratch))
    attention(stream(c), q, k, v, to, lse, z);
}
void run_attention_grad(const OperatorCall& c) {
  const AttentionShape z = attention_grad_shape(c);
  std::array<Reals, 9> x;
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = reals(c.operand(i));
  const auto& [dout, q, k, v, result, lse, dq, dk, dv] = x;
  if (!c.launch->fused_attention->backward(stream(c), dout, q, k, v, result, lse, dq, dk, dv, z, c.launch->scratch))
    attention_grad(stream(c), dout, q, k, v, result, lse, dq, dk, dv, z,
                   c.launch->scratch(attention_scratch_bytes(z, q.type)));
}

/// Plans of cuDNN's load kernels, which can wait for all that runs.
template <bool kBackward>
void prepare_attention(const OperatorCall& c) {
  const AttentionShape z =
      kBackward ? attention_grad_shape(c) : attention_shape(c, c.operand(0), c.operand(1), c.operand(2));
  c.launch->fused_attention->prepare(z, c.operand(kBackward ? 1 : 0).type, kBackward);
}
/// q, k and v; their gradients too.
template <bool kBackward>
bool apart_in_attention(const OperatorCall&, std::size_t operand) {
  return kBackward ? (operand >= 1 && operand <= 3) || (operand >= 6 && operand <= 8) : operand <= 2;
}

Mask mask_of(const OperatorCall& c, const TensorView& s) {
  return {c.task->causal, s.extent(2), line(s, 2), line(s, 3)};
}
void run_softmax(const OperatorCall& c) {
  const TensorView& s = c.operand(0);
  softmax(stream(c), reals(s), reals(c.operand(1)), s.elements() / s.extent(3), s.extent(3), c.task->scalars.at(0),
          mask_of(c, s));
}
void run_softmax_grad(const OperatorCall& c) {
  const TensorView& p = c.operand(0);
  softmax_grad(stream(c), reals(p), reals(c.operand(1)), reals(c.operand(2)), p.elements() / p.extent(3), p.extent(3),
               c.task->scalars.at(0));
}
void run_mask(const OperatorCall& c) {
  const TensorView& s = c.operand(0);
  if (c.task->causal) mask_later(stream(c), reals(s), s.elements() / s.extent(3), s.extent(3), mask_of(c, s));
}
void run_scale(const OperatorCall& c) {
  for (const TensorView& x : c.operands) scale(stream(c), reals(x), x.elements(), c.task->scalars.at(0));
}

/// Whether neighbours' elements lie around some operand's own: those are left alone.
bool any_halo(const OperatorCall& c) {
  return std::any_of(c.operands.begin(), c.operands.end(), [](const TensorView& x) { return x.held->haloed(); });
}
Dropout elementwise_dropout(const OperatorCall& c, const TensorView& x) {
  std::int64_t per_sample = 1;
  for (std::size_t d = 1; d < x.held->shape.size(); ++d) per_sample *= x.held->shape[d];
  return dropout_of(c, c.first_sample * per_sample);
}
/// x, [residual], mask, y
void run_dropout(const OperatorCall& c) {
  const TensorView& x = c.operand(0);
  const bool adds = c.operands.size() > 3;
  const std::size_t mask = adds ? 2 : 1;
  if (any_halo(c))
    return dropout_own(stream(c), elements(x), adds ? elements(c.operand(1)) : Elements{}, elements(c.operand(mask)),
                       elements(c.operand(mask + 1)), global_elements(x), elementwise_dropout(c, x));
  dropout(stream(c), reals(x), adds ? c.operand(1).data : nullptr, c.operand(mask).as<std::uint8_t>(),
          reals(c.operand(mask + 1)), x.elements(), global_elements(x), elementwise_dropout(c, x));
}
void run_dropout_grad(const OperatorCall& c) {
  if (any_halo(c))
    return dropout_own_grad(stream(c), elements(c.operand(0)), elements(c.operand(1)), elements(c.operand(2)),
                            1 / (1 - c.task->probability));
  dropout_grad(stream(c), reals(c.operand(0)), c.operand(1).as<const std::uint8_t>(), reals(c.operand(2)),
               c.operand(0).elements(), 1 / (1 - c.task->probability));
}

/// tokens, table, out; or tokens, dy, table gradient. offsets: the table's first row
TableShape table_shape(const OperatorCall& c, const TensorView& table) {
  return {c.operand(0).elements(), table.extent(1), c.offsets.at(0), table.extent(0)};
}
void run_embedding(const OperatorCall& c) {
  embedding(stream(c), integers(c.operand(0)), reals(c.operand(1)), reals(c.operand(2)), table_shape(c, c.operand(1)));
}
void run_embedding_grad(const OperatorCall& c) {
  const TableShape z = table_shape(c, c.operand(2));
  embedding_grad(stream(c), integers(c.operand(0)), reals(c.operand(1)), reals(c.operand(2)), z,
                 c.launch->scratch(embedding_grad_scratch_bytes(z)));
}
PositionShape position_shape(const TensorView& x) { return {x.extent(0), x.extent(1), x.extent(2), line(x, 1)}; }
void run_add_position(const OperatorCall& c) {
  add_position(stream(c), reals(c.operand(0)), reals(c.operand(1)), reals(c.operand(2)), position_shape(c.operand(0)));
}
void run_position_grad(const OperatorCall& c) {
  position_grad(stream(c), reals(c.operand(0)), reals(c.operand(1)), position_shape(c.operand(0)));
}
template <int kDirection>
void run_rope(const OperatorCall& c) {
  const TensorView &x = c.operand(0), &y = c.operand(1);
  rope(stream(c), reals(x), reals(y),
       {x.extent(0), x.extent(1), x.rank() > 3 ? x.extent(2) : 1, width(x),
        static_cast<std::int64_t>(c.task->scalars.at(0)), c.task->scalars.at(1), line(x, 1), x.row_stride(x.from(2)),
        y.row_stride(y.from(2))},
       kDirection);
}
bool apart_in_rope(const OperatorCall&, std::size_t) { return true; }

/// a, b, sum; or, where the task accumulates, as many terms as sums in any order: the i-th sum gets the i-th term.
void run_add(const OperatorCall& c) {
  if (!c.task->accumulates && any_halo(c))
    return add_own(stream(c), elements(c.operand(0)), elements(c.operand(1)), elements(c.operand(2)));
  if (!c.task->accumulates)
    return add(stream(c), reals(c.operand(0)), reals(c.operand(1)), reals(c.operand(2)), c.operand(0).elements());
  std::vector<const TensorView*> terms, sums;
  for (const TensorView& x : c.operands) (x.access == Access::read ? terms : sums).push_back(&x);
  for (std::size_t i = 0; i < sums.size(); ++i) {
    Reals term = reals(*terms.at(i));
    const Reals sum = reals(*sums[i]);
    const std::int64_t n = sums[i]->elements();
    if (term.type != sum.type) {
      const Reals widened{c.launch->scratch(static_cast<std::size_t>(n) * size_of(sum.type)), sum.type};
      cast(stream(c), term, widened, n);
      term = widened;
    }
    add(stream(c), sum, term, sum, n);
  }
}
/// Pairs of what is read and what is written, in either order.
void run_cast(const OperatorCall& c) {
  std::vector<CastOf> casts;
  for (std::size_t i = 0; i + 1 < c.operands.size(); i += 2) {
    const bool writes_first = c.operand(i).writes();
    const TensorView &from = c.operand(writes_first ? i + 1 : i), &to = c.operand(writes_first ? i : i + 1);
    casts.push_back({reals(from), reals(to), from.elements()});
  }
  cast_all(stream(c), casts.data(), static_cast<int>(casts.size()));
}
/// whole, slice: the elements that the slice holds
void run_copy(const OperatorCall& c) {
  const TensorView &from = c.operand(0), &to = c.operand(1);
  const std::size_t size = size_of(from.type);
  std::byte* at = to.data;
  for (const Block& b : common(*from.held, *to.held)) {
    REHEARSE_CUDA(cudaMemcpyAsync(at, from.data + static_cast<std::size_t>(b.first) * size,
                                  static_cast<std::size_t>(b.length) * size, cudaMemcpyDeviceToDevice, stream(c)));
    at += static_cast<std::size_t>(b.length) * size;
  }
}
void run_zeros(const OperatorCall& c) {
  std::vector<Counted> tensors;
  for (const TensorView& x : c.operands)
    if (x.type == ElementType::int64 || x.type == ElementType::byte)
      REHEARSE_CUDA(cudaMemsetAsync(x.data, 0, static_cast<std::size_t>(x.elements()) * size_of(x.type), stream(c)));
    else
      tensors.push_back({reals(x), x.elements()});
  zero_all(stream(c), tensors.data(), static_cast<int>(tensors.size()));
}

struct LayersNamed {
  const char *name, *summary;
  void (*run)(const OperatorCall&);
  void (*prepare)(const OperatorCall&) = nullptr;
  bool (*takes_apart)(const OperatorCall&, std::size_t operand) = nullptr;
};
constexpr LayersNamed kLayersOperators[] = {
    {"activation.gelu", "GELU", run_curve<Curve::gelu>},
    {"activation.gelu_tanh", "GELU by tanh", run_curve<Curve::gelu_by_tanh>},
    {"activation.squared_relu", "square of the larger of x and 0", run_curve<Curve::squared_relu>},
    {"activation.silu_mul", "SiLU of the gate times up", run_silu_mul, nullptr, apart_in_silu_mul},
    {"activation_grad.gelu", "gradient of GELU", run_curve_grad<Curve::gelu>},
    {"activation_grad.gelu_tanh", "gradient of GELU by tanh", run_curve_grad<Curve::gelu_by_tanh>},
    {"activation_grad.squared_relu", "its gradient", run_curve_grad<Curve::squared_relu>},
    {"activation_grad.silu_mul", "gradients of gate and up", run_silu_mul_grad, nullptr, apart_in_silu_mul_grad},
    {"norm.layer_norm", "layer norm", run_norm<NormKind::layer>},
    {"norm.rms_norm", "RMS norm", run_norm<NormKind::rms>},
    {"norm.grouped_rms_norm", "RMS norm of runs of features", run_norm<NormKind::grouped>},
    {"norm_grad.layer_norm", "its gradients: of the input, or of the weights", run_norm_grad<NormKind::layer>},
    {"norm_grad.rms_norm", "its gradients: of the input, or of the weight", run_norm_grad<NormKind::rms>},
    {"norm_grad.grouped_rms_norm", "its gradients: of the input, or of the weight", run_norm_grad<NormKind::grouped>},
    {"attention.flash", "attention without stored scores", run_attention, prepare_attention<false>,
     apart_in_attention<false>},
    {"attention_grad.flash", "its gradients", run_attention_grad, prepare_attention<true>, apart_in_attention<true>},
    {"attention.flash_window", "the same to keys in a window", run_attention, prepare_attention<false>,
     apart_in_attention<false>},
    {"attention_grad.flash_window", "its gradients", run_attention_grad, prepare_attention<true>,
     apart_in_attention<true>},
    {"softmax", "scaled, masked softmax over keys", run_softmax},
    {"softmax_grad", "gradient of the scores", run_softmax_grad},
    {"scale.scale", "scores times 1 / sqrt(d)", run_scale},
    {"scale.unscale", "gradients over the loss scale", run_scale},
    {"scale.mask", "scores of later keys become -infinity", run_mask},
    {"dropout", "zeroes a fraction, scales the rest", run_dropout},
    {"dropout_add", "dropout and residual addition", run_dropout},
    {"dropout_grad", "gradient by the mask", run_dropout_grad},
    {"dropout_add_grad", "gradient by the mask", run_dropout_grad},
    {"embedding", "rows of the word table", run_embedding},
    {"embedding_grad", "adds to the rows looked up", run_embedding_grad},
    {"add.position", "adds rows of the position table", run_add_position},
    {"embedding_grad.position", "adds to the positions' rows", run_position_grad},
    {"rope", "rotary embedding", run_rope<1>, nullptr, apart_in_rope},
    {"rope_grad", "turns back", run_rope<-1>, nullptr, apart_in_rope},
    {"add", "sum of two", run_add},
    {"cast", "to another type", run_cast},
    {"cast.from_master", "master weights to the model's", run_cast},
    {"copy", "a slice of a whole", run_copy},
    {"fill.zeros", "zeros", run_zeros},
};

[[maybe_unused]] const bool registered_layers = [] {
  for (const LayersNamed& o : kLayersOperators)
    cuda_operators().add({o.name, o.summary, {}, apart(any(o.run, o.prepare), o.takes_apart)});
  return true;
}();

}  // namespace

}  // namespace rehearse::cuda
