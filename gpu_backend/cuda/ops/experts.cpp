// Choosing experts, rows in expert order and their products. Operands as in cpu/ops/routing.cpp and experts.cpp. Where
// counts decide sizes, the host reads them: products of cuBLASLt's and exchanges between ranks need them there.

#include <map>
#include <numeric>
#include <vector>

#include <fmt/format.h>

#include "core/base/index.hpp"
#include "gpu_backend/cuda/check.hpp"
#include "gpu_backend/cuda/kernels/experts.hpp"
#include "gpu_backend/cuda/ops/operands.hpp"

namespace rehearse::cuda {

namespace {

std::int64_t* numbers(const OperatorCall& c, std::int64_t n) {
  return static_cast<std::int64_t*>(c.launch->scratch(static_cast<std::size_t>(n) * sizeof(std::int64_t)));
}

// ---- routing

Routing routing(const OperatorCall& c, bool by_sigmoid) {
  const auto& s = c.task->scalars;
  const auto tokens = static_cast<double>(c.dims.at(5));
  return {.tokens = c.dims.at(0),
          .experts = c.dims.at(1),
          .k = c.dims.at(2),
          .groups = c.dims.at(3),
          .limit = c.dims.at(4),
          .scale = s.at(0),
          .aux = s.at(1),
          .z = s.at(2),
          .choices_in_scope = tokens * static_cast<double>(c.dims.at(7)) * static_cast<double>(c.dims.at(2)),
          .tokens_in_loss = tokens * static_cast<double>(c.dims.at(6)),
          .normalises = s.at(3) != 0,
          .by_sigmoid = by_sigmoid};
}
/// scores, weights, choice, [load]
template <bool kSigmoid>
void run_route(const OperatorCall& c) {
  const Routing r = routing(c, kSigmoid);
  route(stream(c), reals(c.operand(0)), reals(c.operand(1)), c.operand(2).as<std::int64_t>(), r);
  if (c.operands.size() > 3)
    route_load(stream(c), integers(c.operand(2)), reals(c.operand(3)), r,
               c.launch->scratch(count_scratch_bytes(r.tokens * r.k, r.experts)));
}
/// weight gradients, scores, choice, scores' gradient, [load]
template <bool kSigmoid>
void run_route_grad(const OperatorCall& c) {
  const bool balances = c.operands.size() > 4;
  route_grad(stream(c), reals(c.operand(0)), reals(c.operand(1)), integers(c.operand(2)), reals(c.operand(3)),
             balances ? c.operand(4).data : nullptr, balances ? c.operand(4).type : ElementType::real32,
             routing(c, kSigmoid));
}
/// choice, counts
void run_per_expert(const OperatorCall& c) {
  const std::int64_t n = c.operand(0).elements(), experts = c.operand(1).elements();
  count_choices(stream(c), integers(c.operand(0)), n, c.operand(1).as<std::int64_t>(), experts,
                static_cast<std::int64_t>(c.task->scalars.at(0)), c.launch->scratch(count_scratch_bytes(n, experts)));
}
void run_sum_experts(const OperatorCall& c) {
  sum_counts(stream(c), integers(c.operand(0)), c.operand(0).elements(), c.operand(1).as<std::int64_t>());
}

// ---- permutation. scalars: experts, capacity (0: none), whether buffers are filled up to it

const std::int64_t* rows_of(const OperatorCall& c, const TensorView& choice) {
  const Dealing z{choice.elements(), static_cast<std::int64_t>(c.task->scalars.at(0)),
                  static_cast<std::int64_t>(c.task->scalars.at(1)), c.task->scalars.at(2) != 0};
  std::int64_t* rows = numbers(c, z.n);
  rows_of_choices(stream(c), integers(choice), rows, c.launch->scratch(rows_of_choices_scratch_bytes(z)), z);
  return rows;
}
TokenRows token_rows(const TensorView& rows, const TensorView& choice) {
  return {choice.elements() / choice.extent(2), choice.extent(2), row_width(rows)};
}
/// Buffers that are filled up to a capacity have zeros behind.
void clear_padded(const OperatorCall& c, const TensorView& x) {
  if (c.task->scalars.at(2) != 0)
    REHEARSE_CUDA(cudaMemsetAsync(x.data, 0, static_cast<std::size_t>(x.elements()) * size_of(x.type), stream(c)));
}

/// x, weights, rows, their weights, choice, [counts]
void run_permute(const OperatorCall& c) {
  const TensorView &rows = c.operand(2), &choice = c.operand(4);
  clear_padded(c, rows);
  clear_padded(c, c.operand(3));
  tokens_to_rows(stream(c), reals(c.operand(0)), reals(rows), rows_of(c, choice), token_rows(rows, choice),
                 reals(c.operand(1)), reals(c.operand(3)));
}
/// gradients of rows and of their weights, dx, weights' gradient, choice, [counts]
void run_permute_grad(const OperatorCall& c) {
  const TensorView &rows = c.operand(0), &choice = c.operand(4);
  rows_to_tokens(stream(c), reals(rows), reals(c.operand(2)), rows_of(c, choice), token_rows(rows, choice),
                 reals(c.operand(1)), reals(c.operand(3)));
}
/// rows, out, choice, [counts]
void run_unpermute(const OperatorCall& c) {
  rows_to_tokens(stream(c), reals(c.operand(0)), reals(c.operand(1)), rows_of(c, c.operand(2)),
                 token_rows(c.operand(0), c.operand(2)));
}
/// dy, gradients of rows, choice, [counts]
void run_unpermute_grad(const OperatorCall& c) {
  const TensorView &rows = c.operand(1), &choice = c.operand(2);
  clear_padded(c, rows);
  tokens_to_rows(stream(c), reals(c.operand(0)), reals(rows), rows_of(c, choice), token_rows(rows, choice));
}

// ---- rows by peer and by expert

/// Waits for the stream where no task of the step has read them before.
std::vector<std::int64_t> on_host(const OperatorCall& c, const TensorView& counts) {
  const bool kept = c.read != nullptr && counts.value >= 0;
  if (kept)
    if (const auto known = c.read->find(counts.value); known != c.read->end()) return known->second;
  std::vector<std::int64_t> out(static_cast<std::size_t>(counts.elements()));
  REHEARSE_CUDA(
      cudaMemcpyAsync(out.data(), counts.data, out.size() * sizeof(std::int64_t), cudaMemcpyDeviceToHost, stream(c)));
  REHEARSE_CUDA(cudaStreamSynchronize(stream(c)));
  if (kept) (*c.read)[counts.value] = out;
  return out;
}

/// A list of this step's own. The driver keeps what it copies from pageable memory before it returns.
const Piece* sent(const OperatorCall& c, const std::vector<Piece>& pieces) {
  auto* list = static_cast<Piece*>(c.launch->scratch(pieces.size() * sizeof(Piece)));
  REHEARSE_CUDA(cudaMemcpyAsync(list, pieces.data(), pieces.size() * sizeof(Piece), cudaMemcpyHostToDevice, stream(c)));
  return list;
}

/// from, to, [weights from, to], [counts]: from the order (peer, expert) to (expert, peer), or back. scalars: experts
/// here, peers, capacity
template <bool kBack>
void run_sort(const OperatorCall& c) {
  const bool counted = c.task->group_sizes >= 0;
  const std::size_t pairs = (c.operands.size() - (counted ? 1 : 0)) / 2;
  const auto here = static_cast<std::int64_t>(c.task->scalars.at(0)),
             peers = static_cast<std::int64_t>(c.task->scalars.at(1));
  std::vector<std::int64_t> n(static_cast<std::size_t>(here * peers), static_cast<std::int64_t>(c.task->scalars.at(2)));
  if (counted) n = on_host(c, c.operands.back());
  std::vector<std::int64_t> first(static_cast<std::size_t>(here * peers) + 1, 0);
  for (std::size_t i = 0; i + 1 < first.size(); ++i) {
    first[i + 1] = first[i] + n[i];
    if (counted) check_room(c, first[i + 1], n[i], c.operand(0).extent(0));
  }
  for (std::size_t pair = 0; pair < pairs; ++pair) {
    const TensorView &from = c.operand(2 * pair), &to = c.operand(2 * pair + 1);
    const std::int64_t bytes = row_width(from) * static_cast<std::int64_t>(size_of(from.type));
    std::vector<Piece> pieces;
    std::int64_t sorted = 0, largest = 0;
    for (std::int64_t e = 0; e < here; ++e) {
      for (std::int64_t p = 0; p < peers; ++p) {
        const auto piece = static_cast<std::size_t>(p * here + e);
        if (n[piece] > 0)
          pieces.push_back(
              {(kBack ? sorted : first[piece]) * bytes, (kBack ? first[piece] : sorted) * bytes, n[piece] * bytes});
        largest = std::max(largest, n[piece] * bytes);
        sorted += n[piece];
      }
    }
    if (pieces.empty()) continue;
    copy_pieces(stream(c), from.data, to.data, counted ? sent(c, pieces) : c.launch->listed(pieces),
                static_cast<int>(pieces.size()), largest);
  }
}

// ---- grouped products. scalars: ranks whose slices of the rows lie one after the other

/// `experts` of as many `rows` each, from `expert` on, whose rows lie one after the other: one product of all.
struct Group {
  std::int64_t slice, expert, first, rows, experts = 1;
};
/// Rows of the experts here: what their peers sent, or equal parts; slice by slice.
std::vector<Group> groups_of(const OperatorCall& c, std::int64_t experts, std::int64_t rows) {
  const auto slices = static_cast<std::int64_t>(c.task->scalars.at(0));
  std::vector<std::int64_t> per_slice_counts;
  if (c.task->group_sizes >= 0)
    for (const TensorView& x : c.operands)
      if (x.type == ElementType::int64 && per_slice_counts.empty()) per_slice_counts = on_host(c, x);
  const std::int64_t per_slice = static_cast<std::int64_t>(per_slice_counts.size()) / slices,
                     peers = per_slice / experts;
  std::vector<Group> out;
  for (std::int64_t s = 0; s < slices; ++s) {
    std::int64_t first = s * (rows / slices);
    for (std::int64_t e = 0; e < experts; ++e) {
      std::int64_t n = per_slice_counts.empty() ? rows / slices / experts : 0;
      for (std::int64_t p = 0; p < peers; ++p) n += nth(per_slice_counts, s * per_slice + p * experts + e);
      check_room(c, first + n, n, rows);
      Group* last = out.empty() ? nullptr : &out.back();
      if (last != nullptr && s == last->slice && n == last->rows && e == last->expert + last->experts &&
          first == last->first + last->rows * last->experts)
        ++last->experts;
      else if (n > 0)
        out.push_back({s, e, first, n});
      first += n;
    }
  }
  return out;
}
/// Rows from one on, to read as a matrix; those of the next expert begin `next` rows on.
GemmOperand from_row(const TensorView& x, std::int64_t row, std::int64_t width, std::int64_t next,
                     bool transposed = false) {
  return {x.data + static_cast<std::size_t>(row * width) * size_of(x.type), x.type, width, transposed, next * width};
}

/// Products that read and write nothing in common but what they only read: one launch where there is a way.
void run_all(const OperatorCall& c, const std::vector<GemmCall>& products) {
  if (products.size() > 1 && c.launch->grouped_gemm->run(stream(c), products, c.launch->scratch)) return;
  for (const GemmCall& g : products) c.launch->gemm->run(stream(c), g);
}

/// rows, weight [E, out, in], outputs..., [counts], [rows here]
void run_grouped(const OperatorCall& c) {
  const TensorView &x = c.operand(0), &w = c.operand(1);
  const std::int64_t in = w.extent(2);
  std::vector<GemmCall> products;
  for (const Group& g : groups_of(c, w.extent(0), x.extent(0))) {
    std::int64_t row = g.expert * w.extent(1);
    for (const TensorView* y : rows_from(c, 2)) {
      const std::int64_t out = row_width(*y);
      products.push_back({.m = g.rows,
                          .n = out,
                          .k = in,
                          .batch = g.experts,
                          .a = from_row(x, g.first, in, g.rows),
                          .b = from_row(w, row, in, w.extent(1), true),
                          .c = from_row(*y, g.first, out, g.rows),
                          .tf32 = in_tf32(c)});
      row += out;
    }
  }
  run_all(c, products);
}
/// weight, dx, output gradients..., [counts], [rows here]
void run_grouped_input(const OperatorCall& c) {
  const TensorView &w = c.operand(0), &dx = c.operand(1);
  const std::int64_t in = w.extent(2);
  const std::vector<Group> groups = groups_of(c, w.extent(0), dx.extent(0));
  std::int64_t before = 0;  // Rows of the weight.
  for (const TensorView* dy : rows_from(c, 2)) {
    const std::int64_t out = row_width(*dy);
    std::vector<GemmCall> products;
    for (const Group& g : groups) {
      products.push_back({.m = g.rows,
                          .n = in,
                          .k = out,
                          .batch = g.experts,
                          .a = from_row(*dy, g.first, out, g.rows),
                          .b = from_row(w, g.expert * w.extent(1) + before, in, w.extent(1)),
                          .c = from_row(dx, g.first, in, g.rows),
                          .beta = before > 0 ? 1.0 : 0.0,
                          .tf32 = in_tf32(c)});
    }
    run_all(c, products);
    before += out;
  }
}
/// rows, weight gradient (added to), output gradients..., [counts], [rows here]
void run_grouped_weight(const OperatorCall& c) {
  const TensorView &x = c.operand(0), &dw = c.operand(1);
  const std::int64_t in = dw.extent(2);
  // Slices add to the same gradients, one after the other.
  std::map<std::int64_t, std::vector<GemmCall>> products;
  for (const Group& g : groups_of(c, dw.extent(0), x.extent(0))) {
    std::int64_t row = g.expert * dw.extent(1);
    for (const TensorView* dy : rows_from(c, 2)) {
      const std::int64_t out = row_width(*dy);
      products[g.slice].push_back({.m = out,
                                   .n = in,
                                   .k = g.rows,
                                   .batch = g.experts,
                                   .a = from_row(*dy, g.first, out, g.rows, true),
                                   .b = from_row(x, g.first, in, g.rows),
                                   .c = from_row(dw, row, in, dw.extent(1)),
                                   .beta = 1,
                                   .tf32 = in_tf32(c)});
      row += out;
    }
  }
  for (const auto& [slice, all] : products) run_all(c, all);
}

/// gate, up, weights, y
void run_weighted(const OperatorCall& c) {
  const std::int64_t width = row_width(c.operand(0));
  weighted_silu_mul(stream(c), reals(c.operand(0)), reals(c.operand(1)), reals(c.operand(2)), reals(c.operand(3)),
                    c.operand(0).elements() / width, width);
}
/// dy, gate, up, weights, their gradients
void run_weighted_grad(const OperatorCall& c) {
  const std::int64_t width = row_width(c.operand(1));
  weighted_silu_mul_grad(stream(c), reals(c.operand(0)), reals(c.operand(1)), reals(c.operand(2)), reals(c.operand(3)),
                         reals(c.operand(4)), reals(c.operand(5)), reals(c.operand(6)), c.operand(1).elements() / width,
                         width);
}
/// x, weights, y
void run_weighted_squared_relu(const OperatorCall& c) {
  const std::int64_t width = row_width(c.operand(0));
  weighted_squared_relu(stream(c), reals(c.operand(0)), reals(c.operand(1)), reals(c.operand(2)),
                        c.operand(0).elements() / width, width);
}
/// dy, x, weights, their gradients
void run_weighted_squared_relu_grad(const OperatorCall& c) {
  const std::int64_t width = row_width(c.operand(1));
  weighted_squared_relu_grad(stream(c), reals(c.operand(0)), reals(c.operand(1)), reals(c.operand(2)),
                             reals(c.operand(3)), reals(c.operand(4)), c.operand(1).elements() / width, width);
}

Appended appended(const TensorView& x, const TensorView& vector) {
  return {x.extent(0) * x.extent(1), x.extent(2), x.extent(3), vector.from(2)};
}
void run_append(const OperatorCall& c) {
  append(stream(c), reals(c.operand(0)), reals(c.operand(1)), reals(c.operand(2)),
         appended(c.operand(0), c.operand(1)));
}
void run_append_grad(const OperatorCall& c) {
  append_grad(stream(c), reals(c.operand(0)), reals(c.operand(1)), reals(c.operand(2)),
              appended(c.operand(1), c.operand(2)));
}

struct ExpertsNamed {
  const char *name, *summary;
  void (*run)(const OperatorCall&);
};
constexpr ExpertsNamed kExpertsOperators[] = {
    {"route.softmax", "the best experts of each token by softmax", run_route<false>},
    {"route.sigmoid", "the best experts of each token by sigmoid", run_route<true>},
    {"route_grad.softmax", "gradient of the scores", run_route_grad<false>},
    {"route_grad.sigmoid", "gradient of the scores", run_route_grad<true>},
    {"histogram.per_expert", "rows for each expert", run_per_expert},
    {"histogram.sum", "rows here", run_sum_experts},
    {"permute.permute", "tokens to rows in expert order", run_permute},
    {"permute_grad.permute_grad", "gradients of rows to tokens", run_permute_grad},
    {"unpermute.unpermute", "sum of each token's rows", run_unpermute},
    {"permute_grad.unpermute_grad", "gradients of tokens to rows", run_unpermute_grad},
    {"permute.sort", "rows by expert", run_sort<false>},
    {"permute.unsort", "rows by peer again", run_sort<true>},
    {"permute_grad.sort", "rows by expert", run_sort<false>},
    {"permute_grad.unsort", "rows by peer again", run_sort<true>},
    {"grouped_matmul.linear", "every row by its expert's weight", run_grouped},
    {"grouped_matmul.linear_input_grad", "gradient of the rows", run_grouped_input},
    {"grouped_matmul.linear_weight_grad", "gradient of the experts' weights", run_grouped_weight},
    {"activation.weighted_silu_mul", "SiLU of the gate times up, by the row's weight", run_weighted},
    {"activation_grad.weighted_silu_mul", "gradients of gate, up and weight", run_weighted_grad},
    {"activation.weighted_squared_relu", "square of the larger of x and 0, by the row's weight",
     run_weighted_squared_relu},
    {"activation_grad.weighted_squared_relu", "gradients of x and weight", run_weighted_squared_relu_grad},
    {"copy.append", "a vector after every head", run_append},
    {"add.append_grad", "gradients of heads and vector", run_append_grad},
};

[[maybe_unused]] const bool registered_experts = [] {
  for (const ExpertsNamed& o : kExpertsOperators) cuda_operators().add({o.name, o.summary, {}, any(o.run)});
  return true;
}();

}  // namespace

}  // namespace rehearse::cuda
