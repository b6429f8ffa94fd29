// Rows of experts: tokens copied into expert order and back, rows sorted by expert, and products of unlike numbers of rows. An expert's
// rows stand in the order of their tokens; buffers that are filled up to a capacity have zeros behind.

#include <algorithm>
#include <cmath>
#include <numeric>

#include <fmt/format.h>

#include "core/units/error.hpp"
#include "gpu_backend/cpu/blas.hpp"
#include "gpu_backend/cpu/cpu_device.hpp"

namespace rehearse {

namespace {

std::int64_t width(const TensorView& rows) { return rows.rank() > 1 ? rows.from(1) : 1; }

/// Row of each choice of each token, or -1 where it is dropped. scalars: experts, capacity (0: none), whether buffers are filled up to it.
std::vector<std::int64_t> rows_of(const OperatorCall& c, const TensorView& choice) {
  const auto experts = static_cast<std::size_t>(c.task->scalars.at(0));
  const auto capacity = static_cast<std::int64_t>(c.task->scalars.at(1));
  const bool padded = c.task->scalars.at(2) != 0;
  const auto* chosen = choice.as<std::int64_t>();
  const auto n = static_cast<std::size_t>(choice.elements());
  std::vector<std::int64_t> count(experts, 0), place(n), first(experts, 0);
  for (std::size_t i = 0; i < n; ++i) {
    std::int64_t& used = count[static_cast<std::size_t>(chosen[i])];
    place[i] = capacity > 0 && used >= capacity ? -1 : used++;
  }
  for (std::size_t e = 1; e < experts; ++e) first[e] = first[e - 1] + (padded ? capacity : count[e - 1]);
  for (std::size_t i = 0; i < n; ++i)
    if (place[i] >= 0) place[i] += first[static_cast<std::size_t>(chosen[i])];
  return place;
}

/// x [b, s, h], weights [b, s, k], rows [n, h], their weights [n], choice [b, s, k], [counts]
template <class T>
struct Permute {
  static void run(const OperatorCall& c) {
    const TensorView &x = c.operand(0), &rows = c.operand(2), &choice = c.operand(4);
    const std::int64_t h = width(rows), k = choice.extent(2);
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
    const std::int64_t h = width(rows), k = choice.extent(2);
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
    const std::int64_t h = width(rows), k = choice.extent(2);
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
    const std::int64_t h = width(rows), k = choice.extent(2);
    const std::vector<std::int64_t> place = rows_of(c, choice);
    if (c.task->scalars.at(2) != 0) std::fill_n(rows.as<T>(), rows.elements(), T{0});
    for (std::size_t i = 0; i < place.size(); ++i)
      if (place[i] >= 0) std::copy_n(dy.as<T>() + static_cast<std::int64_t>(i) / k * h, h, rows.as<T>() + place[i] * h);
  }
};

/// Counts that came from other ranks may not lead beyond a buffer.
void check_room(const OperatorCall& c, std::int64_t end, std::int64_t rows, std::int64_t room) {
  if (rows < 0 || end > room) throw Error(ErrorKind::check_failed, fmt::format("{}: counts of {} rows, with room for {}", operator_name(*c.task), end, room));
}

/// Rows that came from each peer for each expert here, in that order: of the counts where there are any, else all alike.
/// scalars: experts here, peers, capacity.
std::vector<std::int64_t> pieces(const OperatorCall& c) {
  const auto here = static_cast<std::size_t>(c.task->scalars.at(0)), peers = static_cast<std::size_t>(c.task->scalars.at(1));
  if (c.task->group_sizes < 0) return std::vector<std::int64_t>(here * peers, static_cast<std::int64_t>(c.task->scalars.at(2)));
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
    const auto here = static_cast<std::size_t>(c.task->scalars.at(0)), peers = static_cast<std::size_t>(c.task->scalars.at(1));
    const std::vector<std::int64_t> n = pieces(c);
    std::vector<std::int64_t> first(n.size(), 0);
    for (std::size_t i = 1; i < n.size(); ++i) first[i] = first[i - 1] + n[i - 1];
    std::int64_t sorted = 0;
    for (std::size_t e = 0; e < here; ++e)
      for (std::size_t p = 0; p < peers; ++p) {
        const std::size_t piece = p * here + e;
        for (std::size_t pair = 0; pair < pairs; ++pair) {
          const TensorView &from = c.operand(2 * pair), &to = c.operand(2 * pair + 1);
          const std::int64_t w = width(from);
          std::copy_n(from.as<T>() + (kBack ? sorted : first[piece]) * w, n[piece] * w, to.as<T>() + (kBack ? first[piece] : sorted) * w);
        }
        sorted += n[piece];
      }
  }
};
template <class T> using SortRows = Sort<T, false>;
template <class T> using UnsortRows = Sort<T, true>;

/// Rows of each expert here: what its peers sent, or equal parts. scalars: ranks whose slices of the rows lie one after the other.
struct Groups {
  struct Piece { std::int64_t first, rows; };
  std::vector<std::vector<Piece>> of_expert;

  Groups(const OperatorCall& c, std::int64_t experts, std::int64_t rows) : of_expert(static_cast<std::size_t>(experts)) {
    const auto slices = static_cast<std::int64_t>(c.task->scalars.at(0));
    if (c.task->group_sizes < 0) {
      const std::int64_t n = rows / slices / experts;
      for (std::int64_t s = 0; s < slices; ++s)
        for (std::int64_t e = 0; e < experts; ++e) of_expert[static_cast<std::size_t>(e)].push_back({(s * experts + e) * n, n});
      return;
    }
    const TensorView& counts = counts_of(c);
    const std::int64_t per_slice = counts.elements() / slices, peers = per_slice / experts;
    for (std::int64_t s = 0; s < slices; ++s) {
      std::int64_t first = s * (rows / slices);
      for (std::int64_t e = 0; e < experts; ++e) {
        std::int64_t n = 0;
        for (std::int64_t p = 0; p < peers; ++p) n += counts.as<std::int64_t>()[s * per_slice + p * experts + e];
        check_room(c, first + n, n, rows);
        of_expert[static_cast<std::size_t>(e)].push_back({first, n});
        first += n;
      }
    }
  }
  static const TensorView& counts_of(const OperatorCall& c) {
    for (const TensorView& x : c.operands)
      if (x.type == ElementType::int64) return x;
    throw std::logic_error("a grouped product without counts");
  }
  template <class F>
  void each(F f) const {
    for (std::size_t e = 0; e < of_expert.size(); ++e)
      for (const Piece& p : of_expert[e])
        if (p.rows > 0) f(static_cast<std::int64_t>(e), p.first, p.rows);
  }
};

/// Operands that hold rows: neither counts nor what stands before `first`.
std::vector<const TensorView*> outputs_from(const OperatorCall& c, std::size_t first) {
  std::vector<const TensorView*> out;
  for (std::size_t i = first; i < c.operands.size(); ++i)
    if (c.operand(i).type != ElementType::int64) out.push_back(&c.operand(i));
  return out;
}

/// rows, weight [E, out, in], outputs..., [counts], [rows here]
template <class T>
struct GroupedLinear {
  static void run(const OperatorCall& c) {
    const TensorView &x = c.operand(0), &w = c.operand(1);
    const std::int64_t in = w.extent(2), all = w.extent(1);
    Groups(c, w.extent(0), x.extent(0)).each([&](std::int64_t e, std::int64_t first, std::int64_t n) {
      std::int64_t row = e * all;
      for (const TensorView* y : outputs_from(c, 2)) {
        const std::int64_t out = width(*y);
        gemm<T>(n, out, in, 1, {x.as<T>() + first * in, in}, {w.as<T>() + row * in, in, true}, 0, y->as<T>() + first * out, out);
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
    Groups(c, w.extent(0), dx.extent(0)).each([&](std::int64_t e, std::int64_t first, std::int64_t n) {
      std::int64_t row = e * all;
      T beta{0};
      for (const TensorView* dy : outputs_from(c, 2)) {
        const std::int64_t out = width(*dy);
        gemm<T>(n, in, out, 1, {dy->as<T>() + first * out, out}, {w.as<T>() + row * in, in}, beta, dx.as<T>() + first * in, in);
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
    Groups(c, dw.extent(0), x.extent(0)).each([&](std::int64_t e, std::int64_t first, std::int64_t n) {
      std::int64_t row = e * all;
      for (const TensorView* dy : outputs_from(c, 2)) {
        const std::int64_t out = width(*dy);
        gemm<T>(out, in, n, 1, {dy->as<T>() + first * out, out, true}, {x.as<T>() + first * in, in}, 1, dw.as<T>() + row * in, in);
        row += out;
      }
    });
  }
};

template <class T>
T sigmoid(T x) { return T{1} / (T{1} + std::exp(-x)); }

/// gate [n, f], up [n, f], weights [n], y
template <class T>
struct WeightedSiluMul {
  static void run(const OperatorCall& c) {
    const TensorView& gate = c.operand(0);
    const std::int64_t f = width(gate);
    for (std::int64_t i = 0; i < gate.elements(); ++i) {
      const T g = gate.as<T>()[i];
      c.operand(3).as<T>()[i] = c.operand(2).as<T>()[i / f] * g * sigmoid(g) * c.operand(1).as<T>()[i];
    }
  }
};
/// dy, gate, up, weights, their gradients
template <class T>
struct WeightedSiluMulGrad {
  static void run(const OperatorCall& c) {
    const TensorView& gate = c.operand(1);
    const std::int64_t f = width(gate);
    std::fill_n(c.operand(6).as<T>(), c.operand(6).elements(), T{0});
    for (std::int64_t i = 0; i < gate.elements(); ++i) {
      const T g = gate.as<T>()[i], s = sigmoid(g), up = c.operand(2).as<T>()[i], w = c.operand(3).as<T>()[i / f], dy = c.operand(0).as<T>()[i];
      c.operand(4).as<T>()[i] = dy * w * up * s * (T{1} + g * (T{1} - s));
      c.operand(5).as<T>()[i] = dy * w * g * s;
      c.operand(6).as<T>()[i / f] += dy * g * s * up;
    }
  }
};

/// GPT-OSS's gated activation: gate at most c, up within c either way (arXiv 2508.10925).
template <class T>
struct ClampedGate {
  static constexpr T kSlope = static_cast<T>(1.702);
  T gate, up, sigma;  ///< `up` with the 1 that is added to it.
  bool gate_moves, up_moves;
  ClampedGate(T g, T u, T limit) : gate(std::min(g, limit)), up(std::clamp(u, -limit, limit) + T{1}), sigma(sigmoid(kSlope * gate)), gate_moves(g <= limit), up_moves(u >= -limit && u <= limit) {}
  [[nodiscard]] T value() const { return gate * sigma * up; }
  [[nodiscard]] T by_gate() const { return gate_moves ? up * sigma * (T{1} + kSlope * gate * (T{1} - sigma)) : T{0}; }
  [[nodiscard]] T by_up() const { return up_moves ? gate * sigma : T{0}; }
};

/// gate [n, f], up [n, f], weights [n], y
template <class T>
struct WeightedClamped {
  static void run(const OperatorCall& c) {
    const TensorView& gate = c.operand(0);
    const std::int64_t f = width(gate);
    for (std::int64_t i = 0; i < gate.elements(); ++i)
      c.operand(3).as<T>()[i] = c.operand(2).as<T>()[i / f] * ClampedGate<T>(gate.as<T>()[i], c.operand(1).as<T>()[i], static_cast<T>(c.task->scalars.at(0))).value();
  }
};
/// dy, gate, up, weights, their gradients
template <class T>
struct WeightedClampedGrad {
  static void run(const OperatorCall& c) {
    const TensorView& gate = c.operand(1);
    const std::int64_t f = width(gate);
    std::fill_n(c.operand(6).as<T>(), c.operand(6).elements(), T{0});
    for (std::int64_t i = 0; i < gate.elements(); ++i) {
      const ClampedGate<T> y(gate.as<T>()[i], c.operand(2).as<T>()[i], static_cast<T>(c.task->scalars.at(0)));
      const T dy = c.operand(0).as<T>()[i], w = c.operand(3).as<T>()[i / f];
      c.operand(4).as<T>()[i] = dy * w * y.by_gate();
      c.operand(5).as<T>()[i] = dy * w * y.by_up();
      c.operand(6).as<T>()[i / f] += dy * y.value();
    }
  }
};

/// bias [E, out], [weights [n]], rows... (added to), [counts], [rows here]: every row gets its expert's bias, times its weight.
template <class T, bool weighted>
struct ExpertBias {
  static void run(const OperatorCall& c) {
    const TensorView& bias = c.operand(0);
    const auto rows = outputs_from(c, weighted ? 2 : 1);
    Groups(c, bias.extent(0), rows.front()->extent(0)).each([&](std::int64_t e, std::int64_t first, std::int64_t n) {
      const T* of_expert = bias.as<T>() + e * bias.extent(1);
      for (const TensorView* y : rows) {
        const std::int64_t out = width(*y);
        for (std::int64_t r = first; r < first + n; ++r)
          for (std::int64_t j = 0; j < out; ++j) y->as<T>()[r * out + j] += (weighted ? c.operand(1).as<T>()[r] : T{1}) * of_expert[j];
        of_expert += out;
      }
    });
  }
};
template <class T> using PlainBias = ExpertBias<T, false>;
template <class T> using WeightedBias = ExpertBias<T, true>;

/// bias gradient (added to), output gradients..., [counts], [rows here]
template <class T>
struct ExpertBiasGrad {
  static void run(const OperatorCall& c) { sum(c, outputs_from(c, 1), [](std::int64_t) { return T{1}; }); }
  template <class Weight>
  static void sum(const OperatorCall& c, const std::vector<const TensorView*>& gradients, Weight weight) {
    const TensorView& dbias = c.operand(0);
    Groups(c, dbias.extent(0), gradients.front()->extent(0)).each([&](std::int64_t e, std::int64_t first, std::int64_t n) {
      T* of_expert = dbias.as<T>() + e * dbias.extent(1);
      for (const TensorView* dy : gradients) {
        const std::int64_t out = width(*dy);
        for (std::int64_t r = first; r < first + n; ++r)
          for (std::int64_t j = 0; j < out; ++j) of_expert[j] += weight(r) * dy->as<T>()[r * out + j];
        of_expert += out;
      }
    });
  }
};
/// bias gradient (added to), bias, weights, their gradient, output gradient, [counts], [rows here]
template <class T>
struct WeightedBiasGrad {
  static void run(const OperatorCall& c) {
    const TensorView &bias = c.operand(1), &weights = c.operand(2), &dweights = c.operand(3), &dy = c.operand(4);
    ExpertBiasGrad<T>::sum(c, {&dy}, [&](std::int64_t r) { return weights.as<T>()[r]; });
    std::fill_n(dweights.as<T>(), dweights.elements(), T{0});
    const std::int64_t out = width(dy);
    Groups(c, bias.extent(0), dy.extent(0)).each([&](std::int64_t e, std::int64_t first, std::int64_t n) {
      for (std::int64_t r = first; r < first + n; ++r)
        for (std::int64_t j = 0; j < out; ++j) dweights.as<T>()[r] += bias.as<T>()[e * out + j] * dy.as<T>()[r * out + j];
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

[[maybe_unused]] const bool registered = cpu_operators().add({"permute.permute", "tokens to rows in expert order", {}, both<Permute>()}) &&
                                         cpu_operators().add({"permute_grad.permute_grad", "gradients of rows to tokens", {}, both<PermuteGrad>()}) &&
                                         cpu_operators().add({"unpermute.unpermute", "sum of each token's rows", {}, both<Unpermute>()}) &&
                                         cpu_operators().add({"permute_grad.unpermute_grad", "gradients of tokens to rows", {}, both<UnpermuteGrad>()}) &&
                                         cpu_operators().add({"permute.sort", "rows by expert", {}, both<SortRows>()}) &&
                                         cpu_operators().add({"permute.unsort", "rows by peer again", {}, both<UnsortRows>()}) &&
                                         cpu_operators().add({"permute_grad.sort", "rows by expert", {}, both<SortRows>()}) &&
                                         cpu_operators().add({"permute_grad.unsort", "rows by peer again", {}, both<UnsortRows>()}) &&
                                         cpu_operators().add({"grouped_matmul.linear", "every row by its expert's weight", {}, both<GroupedLinear>()}) &&
                                         cpu_operators().add({"grouped_matmul.linear_input_grad", "gradient of the rows", {}, both<GroupedInput>()}) &&
                                         cpu_operators().add({"grouped_matmul.linear_weight_grad", "gradient of the experts' weights", {}, both<GroupedWeight>()}) &&
                                         cpu_operators().add({"activation.weighted_silu_mul", "SiLU of the gate times up, by the row's weight", {}, both<WeightedSiluMul>()}) &&
                                         cpu_operators().add({"activation_grad.weighted_silu_mul", "gradients of gate, up and weight", {}, both<WeightedSiluMulGrad>()}) &&
                                         cpu_operators().add({"activation.weighted_clamped_silu_mul", "GPT-OSS's gated activation, by the row's weight", {}, both<WeightedClamped>()}) &&
                                         cpu_operators().add({"activation_grad.weighted_clamped_silu_mul", "gradients of gate, up and weight", {}, both<WeightedClampedGrad>()}) &&
                                         cpu_operators().add({"add.expert_bias", "its expert's bias to every row", {}, both<PlainBias>()}) &&
                                         cpu_operators().add({"add.weighted_expert_bias", "the same times the row's weight", {}, both<WeightedBias>()}) &&
                                         cpu_operators().add({"add.expert_bias_grad", "gradient of the experts' biases", {}, both<ExpertBiasGrad>()}) &&
                                         cpu_operators().add({"add.weighted_expert_bias_grad", "gradients of the experts' biases and the rows' weights", {}, both<WeightedBiasGrad>()}) &&
                                         cpu_operators().add({"copy.append", "a vector after every head", {}, both<Append>()}) &&
                                         cpu_operators().add({"add.append_grad", "gradients of heads and vector", {}, both<AppendGrad>()});

}  // namespace

}  // namespace rehearse
