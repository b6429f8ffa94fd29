// Rows of experts: tokens copied into expert order and back, rows sorted by expert, and products of unlike numbers of
// rows. An expert's rows stand in the order of their tokens; buffers that are filled up to a capacity have zeros
// behind.

#include <algorithm>
#include <numeric>

#include "core/base/index.hpp"
#include "gpu_backend/cpu/blas.hpp"
#include "gpu_backend/cpu/ops/expert_rows.hpp"

namespace rehearse {

namespace {

/// Row of each choice of each token, or -1 where it is dropped. scalars: experts, capacity (0: none), whether buffers
/// are filled up to it.
std::vector<std::int64_t> rows_of(const OperatorCall& c, const TensorView& choice) {
  const auto experts = static_cast<std::size_t>(c.task->scalars.at(0));
  const auto capacity = static_cast<std::int64_t>(c.task->scalars.at(1));
  const bool padded = c.task->scalars.at(2) != 0;
  const auto* chosen = choice.as<std::int64_t>();
  const auto n = static_cast<std::size_t>(choice.elements());
  std::vector<std::int64_t> count(experts, 0), place(n), first(experts, 0);
  for (std::size_t i = 0; i < n; ++i) {
    std::int64_t& used = nth(count, chosen[i]);
    place[i] = capacity > 0 && used >= capacity ? -1 : used++;
  }
  for (std::size_t e = 1; e < experts; ++e) first[e] = first[e - 1] + (padded ? capacity : count[e - 1]);
  for (std::size_t i = 0; i < n; ++i)
    if (place[i] >= 0) place[i] += nth(first, chosen[i]);
  return place;
}

/// x [b, s, h], weights [b, s, k], rows [n, h], their weights [n], choice [b, s, k], [counts]
template <class T>
struct Permute {
  static void run(const OperatorCall& c) {
    const TensorView &x = c.operand(0), &rows = c.operand(2), &choice = c.operand(4);
    const std::int64_t h = row_width(rows), k = choice.extent(2);
    const std::vector<std::int64_t> place = rows_of(c, choice);
    if (c.task->scalars.at(2) != 0) {
      std::fill_n(rows.as<T>(), rows.elements(), T{0});
      std::fill_n(c.operand(3).as<T>(), c.operand(3).elements(), T{0});
    }
    for (std::size_t i = 0; i < place.size(); ++i) {
      if (place[i] < 0) continue;
      std::copy_n(x.as<T>() + static_cast<std::int64_t>(i) / k * h, h, rows.as<T>() + place[i] * h);
      c.operand(3).as<T>()[place[i]] = c.operand(1).as<T>()[i];
    }
  }
};
/// gradients of rows and of their weights, dx, weights' gradient, choice, [counts]
template <class T>
struct PermuteGrad {
  static void run(const OperatorCall& c) {
    const TensorView &rows = c.operand(0), &dx = c.operand(2), &choice = c.operand(4);
    const std::int64_t h = row_width(rows), k = choice.extent(2);
    const std::vector<std::int64_t> place = rows_of(c, choice);
    std::fill_n(dx.as<T>(), dx.elements(), T{0});
    for (std::size_t i = 0; i < place.size(); ++i) {
      c.operand(3).as<T>()[i] = place[i] < 0 ? T{0} : c.operand(1).as<T>()[place[i]];
      if (place[i] < 0) continue;
      T* to = dx.as<T>() + static_cast<std::int64_t>(i) / k * h;
      for (std::int64_t j = 0; j < h; ++j) to[j] += rows.as<T>()[place[i] * h + j];
    }
  }
};

/// rows, out [b, s, h], choice, [counts]: the sum of a token's rows
template <class T>
struct Unpermute {
  static void run(const OperatorCall& c) {
    const TensorView &rows = c.operand(0), &y = c.operand(1), &choice = c.operand(2);
    const std::int64_t h = row_width(rows), k = choice.extent(2);
    const std::vector<std::int64_t> place = rows_of(c, choice);
    std::fill_n(y.as<T>(), y.elements(), T{0});
    for (std::size_t i = 0; i < place.size(); ++i) {
      if (place[i] < 0) continue;
      T* to = y.as<T>() + static_cast<std::int64_t>(i) / k * h;
      for (std::int64_t j = 0; j < h; ++j) to[j] += rows.as<T>()[place[i] * h + j];
    }
  }
};
/// dy [b, s, h], gradients of rows, choice, [counts]
template <class T>
struct UnpermuteGrad {
  static void run(const OperatorCall& c) {
    const TensorView &dy = c.operand(0), &rows = c.operand(1), &choice = c.operand(2);
    const std::int64_t h = row_width(rows), k = choice.extent(2);
    const std::vector<std::int64_t> place = rows_of(c, choice);
    if (c.task->scalars.at(2) != 0) std::fill_n(rows.as<T>(), rows.elements(), T{0});
    for (std::size_t i = 0; i < place.size(); ++i)
      if (place[i] >= 0) std::copy_n(dy.as<T>() + static_cast<std::int64_t>(i) / k * h, h, rows.as<T>() + place[i] * h);
  }
};

/// Rows that came from each peer for each expert here, in that order: of the counts where there are any, else all
/// alike. scalars: experts here, peers, capacity.
std::vector<std::int64_t> pieces(const OperatorCall& c) {
  const auto here = static_cast<std::size_t>(c.task->scalars.at(0)),
             peers = static_cast<std::size_t>(c.task->scalars.at(1));
  if (c.task->group_sizes < 0)
    return std::vector<std::int64_t>(here * peers, static_cast<std::int64_t>(c.task->scalars.at(2)));
  const auto* counts = c.operands.back().as<std::int64_t>();
  std::vector<std::int64_t> out{counts, counts + here * peers};
  std::int64_t rows = 0;
  for (const std::int64_t n : out) check_room(c, rows += n, n, c.operand(0).extent(0));
  return out;
}

/// from, to, [weights from, to], [counts]: from the order (peer, expert) to (expert, peer), or back.
template <class T, bool kBack>
struct Sort {
  static void run(const OperatorCall& c) {
    const std::size_t pairs = (c.operands.size() - (c.task->group_sizes < 0 ? 0 : 1)) / 2;
    const auto here = static_cast<std::size_t>(c.task->scalars.at(0)),
               peers = static_cast<std::size_t>(c.task->scalars.at(1));
    const std::vector<std::int64_t> n = pieces(c);
    std::vector<std::int64_t> first(n.size(), 0);
    for (std::size_t i = 1; i < n.size(); ++i) first[i] = first[i - 1] + n[i - 1];
    std::int64_t sorted = 0;
    for (std::size_t e = 0; e < here; ++e) {
      for (std::size_t p = 0; p < peers; ++p) {
        const std::size_t piece = p * here + e;
        for (std::size_t pair = 0; pair < pairs; ++pair) {
          const TensorView &from = c.operand(2 * pair), &to = c.operand(2 * pair + 1);
          const std::int64_t w = row_width(from);
          std::copy_n(from.as<T>() + (kBack ? sorted : first[piece]) * w, n[piece] * w,
                      to.as<T>() + (kBack ? first[piece] : sorted) * w);
        }
        sorted += n[piece];
      }
    }
  }
};
template <class T>
using SortRows = Sort<T, false>;
template <class T>
using UnsortRows = Sort<T, true>;

/// rows, weight [E, out, in], outputs..., [counts], [rows here]
template <class T>
struct GroupedLinear {
  static void run(const OperatorCall& c) {
    const TensorView &x = c.operand(0), &w = c.operand(1);
    const std::int64_t in = w.extent(2), all = w.extent(1);
    ExpertRows(c, w.extent(0), x.extent(0)).each([&](std::int64_t e, std::int64_t first, std::int64_t n) {
      std::int64_t row = e * all;
      for (const TensorView* y : rows_from(c, 2)) {
        const std::int64_t out = row_width(*y);
        gemm<T>(n, out, in, 1, {x.as<T>() + first * in, in}, {w.as<T>() + row * in, in, true}, 0,
                y->as<T>() + first * out, out);
        row += out;
      }
    });
  }
};
/// weight, dx, output gradients..., [counts], [rows here]
template <class T>
struct GroupedInput {
  static void run(const OperatorCall& c) {
    const TensorView &w = c.operand(0), &dx = c.operand(1);
    const std::int64_t in = w.extent(2), all = w.extent(1);
    ExpertRows(c, w.extent(0), dx.extent(0)).each([&](std::int64_t e, std::int64_t first, std::int64_t n) {
      std::int64_t row = e * all;
      T beta{0};
      for (const TensorView* dy : rows_from(c, 2)) {
        const std::int64_t out = row_width(*dy);
        gemm<T>(n, in, out, 1, {dy->as<T>() + first * out, out}, {w.as<T>() + row * in, in}, beta,
                dx.as<T>() + first * in, in);
        row += out;
        beta = T{1};
      }
    });
  }
};
/// rows, weight gradient (added to), output gradients..., [counts], [rows here]
template <class T>
struct GroupedWeight {
  static void run(const OperatorCall& c) {
    const TensorView &x = c.operand(0), &dw = c.operand(1);
    const std::int64_t in = dw.extent(2), all = dw.extent(1);
    ExpertRows(c, dw.extent(0), x.extent(0)).each([&](std::int64_t e, std::int64_t first, std::int64_t n) {
      std::int64_t row = e * all;
      for (const TensorView* dy : rows_from(c, 2)) {
        const std::int64_t out = row_width(*dy);
        gemm<T>(out, in, n, 1, {dy->as<T>() + first * out, out, true}, {x.as<T>() + first * in, in}, 1,
                dw.as<T>() + row * in, in);
        row += out;
      }
    });
  }
};

/// x [b, s, a, d], vector [b, s, e], y [b, s, a, d + e]: the vector after every head
template <class T>
struct Append {
  static void run(const OperatorCall& c) {
    const TensorView &x = c.operand(0), &v = c.operand(1), &y = c.operand(2);
    const std::int64_t d = x.extent(3), e = v.from(2), heads = x.extent(2);
    for (std::int64_t i = 0; i < x.elements() / d; ++i) {
      std::copy_n(x.as<T>() + i * d, d, y.as<T>() + i * (d + e));
      std::copy_n(v.as<T>() + i / heads * e, e, y.as<T>() + i * (d + e) + d);
    }
  }
};
/// dy, dx, the vector's gradient: the sum over heads
template <class T>
struct AppendGrad {
  static void run(const OperatorCall& c) {
    const TensorView &dy = c.operand(0), &dx = c.operand(1), &dv = c.operand(2);
    const std::int64_t d = dx.extent(3), e = dv.from(2), heads = dx.extent(2);
    std::fill_n(dv.as<T>(), dv.elements(), T{0});
    for (std::int64_t i = 0; i < dx.elements() / d; ++i) {
      const T* from = dy.as<T>() + i * (d + e);
      std::copy_n(from, d, dx.as<T>() + i * d);
      for (std::int64_t j = 0; j < e; ++j) dv.as<T>()[i / heads * e + j] += from[d + j];
    }
  }
};

[[maybe_unused]] const bool registered_experts =
    cpu_operators().add({"permute.permute", "tokens to rows in expert order", {}, both<Permute>()}) &&
    cpu_operators().add({"permute_grad.permute_grad", "gradients of rows to tokens", {}, both<PermuteGrad>()}) &&
    cpu_operators().add({"unpermute.unpermute", "sum of each token's rows", {}, both<Unpermute>()}) &&
    cpu_operators().add({"permute_grad.unpermute_grad", "gradients of tokens to rows", {}, both<UnpermuteGrad>()}) &&
    cpu_operators().add({"permute.sort", "rows by expert", {}, both<SortRows>()}) &&
    cpu_operators().add({"permute.unsort", "rows by peer again", {}, both<UnsortRows>()}) &&
    cpu_operators().add({"permute_grad.sort", "rows by expert", {}, both<SortRows>()}) &&
    cpu_operators().add({"permute_grad.unsort", "rows by peer again", {}, both<UnsortRows>()}) &&
    cpu_operators().add({"grouped_matmul.linear", "every row by its expert's weight", {}, both<GroupedLinear>()}) &&
    cpu_operators().add({"grouped_matmul.linear_input_grad", "gradient of the rows", {}, both<GroupedInput>()}) &&
    cpu_operators().add(
        {"grouped_matmul.linear_weight_grad", "gradient of the experts' weights", {}, both<GroupedWeight>()}) &&
    cpu_operators().add({"copy.append", "a vector after every head", {}, both<Append>()}) &&
    cpu_operators().add({"add.append_grad", "gradients of heads and vector", {}, both<AppendGrad>()});

}  // namespace

}  // namespace rehearse
