#pragma once
// Integer expressions of where and when a task runs. Sizes, offsets, peers and predicates are expressions, so that one
// body serves every rank: a causal ring step, a tile at the edge, the vocabulary offset of a tensor-parallel rank.

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace rehearse {

/// Axes of the two views of the ranks (mesh.hpp). The first seven make the dense view, the last three with `pp` the
/// expert view.
enum class Axis : std::uint8_t { dp_replicate, dp_shard, cp, tp, pp, tile_h, tile_w, etp, ep, edp };
inline constexpr int kAxisCount = 10;
[[nodiscard]] std::string_view name_of(Axis axis);

/// What an expression may ask for. `coord` and `extent` take an Axis as index, `dynamic` the number of a dynamic
/// dimension (tensor.hpp); the others take none. `pass` and `copy` are the entry's; `microbatches` is the role's count;
/// `peer` is the position in the group while per-peer counts are evaluated.
enum class Var : std::uint8_t {
  coord,
  extent,
  island,
  layer,
  chunk,
  microbatch,
  pass,
  copy,
  step,
  microbatches,
  peer,
  dynamic
};

enum class ExprOp : std::uint8_t {
  constant,
  variable,
  add,
  sub,
  mul,
  div,
  mod,  ///< div and mod floor; a zero divisor throws std::logic_error.
  min,
  max,
  eq,
  ne,
  lt,
  le,
  logical_and,
  logical_or,
  logical_not,  ///< 0 or 1.
  select,       ///< a ? b : c
  element,      ///< Value number b of the dynamic dimension a (a variable node).
  lookup        ///< Entry b of table a (a constant): Program::tables.
};

/// Handle into an ExprPool. The pool's constants are shared, so equal ids mean equal expressions.
struct ExprId {
  std::uint32_t index = 0;
  auto operator<=>(const ExprId&) const = default;
};

/// Values that variables take at one place and time. A dynamic dimension's value depends on who asks: execution gives
/// the true count; without `dynamic` it is the dimension's expectation.
struct ExprContext {
  std::array<std::int32_t, kAxisCount> coord{};
  std::array<std::int32_t, kAxisCount> extent{1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
  std::int32_t island = 0, layer = 0, chunk = 0, microbatch = 0, pass = 0, copy = 0, step = 0, microbatches = 1,
               peer = 0;
  /// Values per dynamic dimension; null for their expectations.
  const std::vector<std::vector<std::int64_t>>* dynamic = nullptr;
  const std::vector<std::vector<std::int64_t>>* tables = nullptr;  ///< Program::tables, for lookups.
};

class ExprPool {
 public:
  struct Node {
    ExprOp op = ExprOp::constant;
    Var var = Var::layer;
    std::int64_t value = 0;        ///< The constant, or the index of the variable.
    std::array<ExprId, 3> args{};  ///< A dynamic variable's are its expectation and, where it has one, kOne.
    auto operator<=>(const Node&) const = default;
  };

  ExprPool();  ///< Holds the constants 0 and 1 as kZero and kOne.
  static constexpr ExprId kZero{0};
  static constexpr ExprId kOne{1};

  ExprId constant(std::int64_t value);
  ExprId variable(Var var, int index = 0);
  ExprId coord(Axis a) { return variable(Var::coord, static_cast<int>(a)); }
  /// Dynamic dimension number `index`, whose values have this mean wherever a context gives none.
  ExprId dynamic(int index, ExprId expectation);
  ExprId extent(Axis a) { return variable(Var::extent, static_cast<int>(a)); }
  /// Folds constants, so that an expression of constants is one.
  ExprId apply(ExprOp op, ExprId a, ExprId b = kZero, ExprId c = kZero);

  [[nodiscard]] std::int64_t evaluate(ExprId id, const ExprContext& at) const;
  [[nodiscard]] bool is_constant(ExprId id) const { return nodes_[id.index].op == ExprOp::constant; }
  /// Whether the value can differ between two contexts that differ in this variable only.
  [[nodiscard]] bool depends_on(ExprId id, Var var, int index = 0) const;
  /// Axes whose coordinates it asks for: bit 1 << Axis.
  [[nodiscard]] std::uint32_t coordinates(ExprId id) const { return asks_[id.index] & kCoordinates; }
  [[nodiscard]] std::string to_string(ExprId id) const;
  [[nodiscard]] const std::vector<Node>& nodes() const { return nodes_; }
  /// Rebuilds a pool from its nodes. Throws std::invalid_argument when a node refers forward.
  static ExprPool from_nodes(std::vector<Node> nodes);

 private:
  static constexpr std::uint32_t kCoordinates = (1U << kAxisCount) - 1;
  ExprId intern(const Node& node);
  [[nodiscard]] std::uint32_t asked_by(const Node& node) const;
  std::vector<Node> nodes_;
  std::vector<std::uint32_t> asks_;  ///< By node: bit per axis whose coordinate it asks for, then bit per other Var.
  std::vector<std::vector<std::uint32_t>> buckets_;
};

}  // namespace rehearse
