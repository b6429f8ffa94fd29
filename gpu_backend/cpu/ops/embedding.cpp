// Word and position embeddings, and rotary embedding. A rank that holds a slice of the vocabulary writes zeros for
// other tokens.

#include <algorithm>
#include <cmath>

#include "gpu_backend/cpu/cpu_device.hpp"

namespace rehearse {

namespace {

/// Row of the table that a token is at, or -1.
std::int64_t row_of(const OperatorCall& c, const TensorView& table, std::int64_t token) {
  const std::int64_t row = token - c.offsets.at(0);
  return row >= 0 && row < table.extent(0) ? row : -1;
}

/// tokens, table, out; offsets: the table's first row
template <class T>
struct Embedding {
  static void run(const OperatorCall& c) {
    const TensorView &tokens = c.operand(0), &table = c.operand(1), &out = c.operand(2);
    const std::int64_t h = table.extent(1);
    for (std::int64_t t = 0; t < tokens.elements(); ++t) {
      const std::int64_t row = row_of(c, table, tokens.as<std::int64_t>()[t]);
      T* to = out.as<T>() + t * h;
      if (row < 0)
        std::fill_n(to, h, T{0});
      else
        std::copy_n(table.as<T>() + row * h, h, to);
    }
  }
};
/// tokens, dy, table gradient (added to)
template <class T>
struct EmbeddingGrad {
  static void run(const OperatorCall& c) {
    const TensorView &tokens = c.operand(0), &table = c.operand(2);
    const std::int64_t h = table.extent(1);
    for (std::int64_t t = 0; t < tokens.elements(); ++t)
      if (const std::int64_t row = row_of(c, table, tokens.as<std::int64_t>()[t]); row >= 0)
        for (std::int64_t i = 0; i < h; ++i) table.as<T>()[row * h + i] += c.operand(1).as<T>()[t * h + i];
  }
};

/// x [b, s, h], table [positions, h], y
template <class T>
struct AddPosition {
  static void run(const OperatorCall& c) {
    const TensorView &x = c.operand(0), &y = c.operand(2);
    const std::int64_t h = x.extent(2);
    for (std::int64_t t = 0; t < x.extent(0) * x.extent(1); ++t) {
      const T* row = c.operand(1).as<T>() + x.held->global_index(1, t % x.extent(1)) * h;
      for (std::int64_t i = 0; i < h; ++i) y.as<T>()[t * h + i] = x.as<T>()[t * h + i] + row[i];
    }
  }
};
/// dy, table gradient (added to)
template <class T>
struct PositionGrad {
  static void run(const OperatorCall& c) {
    const TensorView& dy = c.operand(0);
    const std::int64_t h = dy.extent(2);
    for (std::int64_t t = 0; t < dy.extent(0) * dy.extent(1); ++t) {
      T* row = c.operand(1).as<T>() + dy.held->global_index(1, t % dy.extent(1)) * h;
      for (std::int64_t i = 0; i < h; ++i) row[i] += dy.as<T>()[t * h + i];
    }
  }
};

/// x [b, s, heads, d] or [b, s, d], y; scalars: leading elements that turn, base of the angles. Element i turns with
/// element i + half (Su et al. 2021, in the order of GPT-NeoX).
template <class T, int kDirection>
struct Rope {
  static void run(const OperatorCall& c) {
    const TensorView &x = c.operand(0), &y = c.operand(1);
    const std::int64_t heads = x.rank() > 3 ? x.extent(2) : 1, d = x.extent(x.rank() - 1),
                       turning = static_cast<std::int64_t>(c.task->scalars.at(0)), half = turning / 2;
    for (std::int64_t t = 0; t < x.extent(0) * x.extent(1); ++t) {
      const auto position = static_cast<double>(x.held->global_index(1, t % x.extent(1)));
      for (std::int64_t i = 0; i < half; ++i) {
        const double angle =
            kDirection * position *
            std::pow(c.task->scalars.at(1), -2.0 * static_cast<double>(i) / static_cast<double>(turning));
        const T cosine = static_cast<T>(std::cos(angle)), sine = static_cast<T>(std::sin(angle));
        for (std::int64_t h = 0; h < heads; ++h) {
          const T* from = x.as<T>() + (t * heads + h) * d;
          T* to = y.as<T>() + (t * heads + h) * d;
          const T a = from[i], b = from[i + half];
          to[i] = a * cosine - b * sine;
          to[i + half] = a * sine + b * cosine;
        }
      }
      for (std::int64_t h = 0; h < heads; ++h)
        std::copy(x.as<T>() + (t * heads + h) * d + turning, x.as<T>() + (t * heads + h + 1) * d,
                  y.as<T>() + (t * heads + h) * d + turning);
    }
  }
};
template <class T>
using Turn = Rope<T, 1>;
template <class T>
using TurnBack = Rope<T, -1>;

[[maybe_unused]] const bool registered_embedding =
    cpu_operators().add({"embedding", "rows of the word table", {}, both<Embedding>()}) &&
    cpu_operators().add({"embedding_grad", "adds to the rows looked up", {}, both<EmbeddingGrad>()}) &&
    cpu_operators().add({"add.position", "adds rows of the position table", {}, both<AddPosition>()}) &&
    cpu_operators().add({"embedding_grad.position", "adds to the positions' rows", {}, both<PositionGrad>()}) &&
    cpu_operators().add({"rope", "rotary embedding", {}, both<Turn>()}) &&
    cpu_operators().add({"rope_grad", "turns back", {}, both<TurnBack>()});

}  // namespace

}  // namespace rehearse
