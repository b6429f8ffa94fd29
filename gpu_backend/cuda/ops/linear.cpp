// Products of tokens and weights by cuBLASLt, and products of attention in pieces. Operands as in cpu/ops/linear.cpp
// and attention.cpp.

#include <numeric>
#include <vector>

#include "gpu_backend/cuda/ops/products.hpp"

namespace rehearse::cuda {

namespace {

void linear(const OperatorCall& c) {
  std::int64_t row = 0;
  for (const Together& outputs : linear_outputs(c)) {
    c.launch->gemm->run(stream(c), linear_product(c, outputs, row));
    row += outputs.features;
  }
}
/// Outputs, or their gradients, of one product: neither the two operands before them nor a bias behind.
std::vector<std::size_t> beside_in_linear(const OperatorCall& c) {
  std::vector<std::size_t> out(c.operands.size() - 2 - (c.offsets.empty() ? 0 : 1));
  std::iota(out.begin(), out.end(), std::size_t{2});
  return out;
}
bool apart_in_linear(const OperatorCall& c, std::size_t operand) {
  return operand >= 2 && operand < c.operands.size() - (c.offsets.empty() ? 0 : 1);
}

/// As linear, where x or the outputs have a piece of the sequence only: those rows of the other, all samples at once.
void linear_piece(const OperatorCall& c) {
  const TensorView &x = c.operand(0), &w = c.operand(1);
  const bool biased = !c.offsets.empty();
  const std::int64_t in = w.extent(1);
  std::int64_t row = 0;
  for (std::size_t i = 0; i < outputs_of(c); ++i) {
    const TensorView& y = c.operand(2 + i);
    const std::int64_t out = y.from(2), n = std::min(x.extent(1), y.extent(1)), from = place_of(y, x, n),
                       to = place_of(x, y, n);
    GemmCall g{.m = n,
               .n = out,
               .k = in,
               .batch = x.extent(0),
               .a = {element_at(x, from * in), x.type, in, false, x.extent(1) * in},
               .b = {element_at(w, row * in), w.type, in, true},
               .c = {element_at(y, to * out), y.type, out, false, y.extent(1) * out},
               .tf32 = in_tf32(c)};
    if (biased && c.offsets[0] != 0) g.bias = bias_from(c, row, out);
    c.launch->gemm->run(stream(c), g);
    row += out;
  }
}
/// weight, input gradient, a piece of the output's gradient
void input_grad_piece(const OperatorCall& c) {
  const TensorView &w = c.operand(0), &dx = c.operand(1), &dy = c.operand(2);
  const std::int64_t in = w.extent(1), out = dy.from(2), n = dy.extent(1), to = place_of(dy, dx, n);
  c.launch->gemm->run(stream(c), {.m = n,
                                  .n = in,
                                  .k = out,
                                  .batch = dy.extent(0),
                                  .a = {dy.data, dy.type, out, false, n * out},
                                  .b = {w.data, w.type, in},
                                  .c = {element_at(dx, to * in), dx.type, in, false, dx.extent(1) * in},
                                  .tf32 = in_tf32(c)});
}

/// weight, input gradient, output gradients...
void input_grad(const OperatorCall& c) {
  std::int64_t row = 0;
  for (const Together& outputs : input_grad_terms(c)) {
    c.launch->gemm->run(stream(c), input_grad_product(c, outputs, row));
    row += outputs.features;
  }
}

/// x, weight gradient (added to), output gradients...
void weight_grad(const OperatorCall& c) {
  std::int64_t row = 0;
  for (const Together& outputs : weight_grad_terms(c)) {
    c.launch->gemm->run(stream(c), weight_grad_product(c, outputs, row));
    row += outputs.features;
  }
}

/// Output gradients..., bias gradient (added to).
void bias_grad(const OperatorCall& c) {
  const TensorView& sum = c.operands.back();
  std::int64_t elements = 0, done = 0;
  for (std::size_t i = 0; i + 1 < c.operands.size(); ++i) elements += c.operand(i).elements();
  const std::int64_t n = elements / std::max<std::int64_t>(1, sum.elements());
  std::vector<ColumnTerm> terms;
  std::int64_t columns = 0;  // Of those terms.
  const auto flush = [&] {
    if (terms.empty()) return;
    column_sum(stream(c), terms.data(), static_cast<int>(terms.size()),
               {sum.data + static_cast<std::size_t>(done) * size_of(sum.type), sum.type}, n,
               c.launch->scratch(column_scratch_bytes(n, columns, terms.front().dy.type)));
    done += columns;
    terms.clear(), columns = 0;
  };
  for (std::size_t i = 0; i + 1 < c.operands.size(); ++i) {
    const TensorView& dy = c.operand(i);
    if (!terms.empty() && (terms.front().dy.type != dy.type || terms.size() == kMostColumnSums)) flush();
    terms.push_back({reals(dy), feature_count(dy, n), dy.row_stride(feature_count(dy, n))});
    columns += terms.back().columns;
  }
  flush();
}
bool apart_in_column_sum(const OperatorCall& c, std::size_t operand) { return operand + 1 < c.operands.size(); }

// ---- attention in pieces

/// Head h of a tensor [b, s, heads, d] as a matrix [s, d], for all b one call: matrices lie s * heads * d apart.
GemmOperand head(const TensorView& x, std::int64_t h, bool transposed = false) {
  const std::int64_t d = x.extent(3), stride = x.extent(2) * d;
  return {element_at(x, h * d), x.type, stride, transposed, x.extent(1) * stride};
}
/// Head h of scores [b, heads, s, s].
GemmOperand square(const TensorView& p, std::int64_t h, bool transposed = false) {
  const std::int64_t one = p.extent(2) * p.extent(3);
  return {element_at(p, h * one), p.type, p.extent(3), transposed, p.extent(1) * one};
}

struct Product {
  std::int64_t m, n, k;
};
/// A batched product per head. Heads of C that are shared by a group are added to after the first.
template <class A, class B, class C>
void every_head(const OperatorCall& c, const TensorView& scores, std::int64_t kv_heads, const Product& z, A a, B b,
                C out, bool shared) {
  const std::int64_t heads = scores.extent(1), group = heads / kv_heads;
  for (std::int64_t h = 0; h < heads; ++h) {
    c.launch->gemm->run(stream(c), {.m = z.m,
                                    .n = z.n,
                                    .k = z.k,
                                    .batch = scores.extent(0),
                                    .a = a(h, h / group),
                                    .b = b(h, h / group),
                                    .c = out(h, h / group),
                                    .beta = shared && h % group != 0 ? 1.0 : 0.0,
                                    .tf32 = in_tf32(c)});
  }
}

/// q, k, scores; or output gradient, v, gradient of the probabilities
void scores(const OperatorCall& c) {
  const TensorView &q = c.operand(0), &k = c.operand(1), &s = c.operand(2);
  every_head(
      c, s, k.extent(2), {s.extent(2), s.extent(3), q.extent(3)}, [&](auto h, auto) { return head(q, h); },
      [&](auto, auto g) { return head(k, g, true); }, [&](auto h, auto) { return square(s, h); }, false);
}
/// probabilities, v, out; or scores gradient, k, gradient of q
void context(const OperatorCall& c) {
  const TensorView &p = c.operand(0), &v = c.operand(1), &to = c.operand(2);
  every_head(
      c, p, v.extent(2), {p.extent(2), to.extent(3), p.extent(3)}, [&](auto h, auto) { return square(p, h); },
      [&](auto, auto g) { return head(v, g); }, [&](auto h, auto) { return head(to, h); }, false);
}
/// probabilities, output gradient, gradient of v; or scores gradient, q, gradient of k
void key_value_grad(const OperatorCall& c) {
  const TensorView &p = c.operand(0), &x = c.operand(1), &to = c.operand(2);
  every_head(
      c, p, to.extent(2), {p.extent(3), to.extent(3), p.extent(2)}, [&](auto h, auto) { return square(p, h, true); },
      [&](auto h, auto) { return head(x, h); }, [&](auto, auto g) { return head(to, g); }, true);
}

[[maybe_unused]] const bool registered_linear =
    cuda_operators().add({"matmul.linear",
                          "tokens times a weight, plus bias",
                          {},
                          apart(any(linear), apart_in_linear, beside_in_linear)}) &&
    cuda_operators().add({"matmul.linear_input_grad",
                          "gradient of the tokens",
                          {},
                          apart(any(input_grad), apart_in_linear, beside_in_linear)}) &&
    cuda_operators().add({"matmul.linear_weight_grad",
                          "gradient of the weight",
                          {},
                          apart(any(weight_grad), apart_in_linear, beside_in_linear)}) &&
    cuda_operators().add({"matmul.linear_piece", "a piece of the tokens times a weight", {}, any(linear_piece)}) &&
    cuda_operators().add(
        {"matmul.linear_input_grad_piece", "gradient of a piece of the tokens", {}, any(input_grad_piece)}) &&
    cuda_operators().add({"add.column_sum", "gradient of the bias", {}, apart(any(bias_grad), apart_in_column_sum)}) &&
    cuda_operators().add({"matmul.scores", "queries times keys", {}, any(scores)}) &&
    cuda_operators().add({"matmul.context", "probabilities times values", {}, any(context)}) &&
    cuda_operators().add({"matmul.v_grad", "gradient of the values", {}, any(key_value_grad)}) &&
    cuda_operators().add({"matmul.k_grad", "gradient of the keys", {}, any(key_value_grad)}) &&
    cuda_operators().add({"matmul.q_grad", "gradient of the queries", {}, any(context)}) &&
    cuda_operators().add({"matmul.probabilities_grad", "gradient of the probabilities", {}, any(scores)});

}  // namespace

}  // namespace rehearse::cuda
