#include "core/program/expr.hpp"

#include <algorithm>
#include <stdexcept>

#include <fmt/format.h>

#include "core/base/index.hpp"

namespace rehearse {

namespace {

constexpr std::array<std::string_view, kAxisCount> kAxisNames{"dp_replicate", "dp_shard", "cp",  "tp", "pp",
                                                              "tile_h",       "tile_w",   "etp", "ep", "edp"};

std::int64_t floor_div(std::int64_t a, std::int64_t b) {
  if (b == 0) throw std::logic_error("expression divides by zero");
  const std::int64_t q = a / b;
  return (a % b != 0 && ((a < 0) != (b < 0))) ? q - 1 : q;
}

std::int64_t compute(ExprOp op, std::int64_t a, std::int64_t b, std::int64_t c) {
  switch (op) {
    case ExprOp::add: return a + b;
    case ExprOp::sub: return a - b;
    case ExprOp::mul: return a * b;
    case ExprOp::div: return floor_div(a, b);
    case ExprOp::mod: return a - b * floor_div(a, b);
    case ExprOp::min: return std::min(a, b);
    case ExprOp::max: return std::max(a, b);
    case ExprOp::eq: return a == b;
    case ExprOp::ne: return a != b;
    case ExprOp::lt: return a < b;
    case ExprOp::le: return a <= b;
    case ExprOp::logical_and: return a != 0 && b != 0;
    case ExprOp::logical_or: return a != 0 || b != 0;
    case ExprOp::logical_not: return a == 0;
    case ExprOp::select: return a != 0 ? b : c;
    case ExprOp::constant:
    case ExprOp::variable:
    case ExprOp::element:
    case ExprOp::lookup: break;
  }
  throw std::logic_error("not an operation");
}

/// A dynamic variable that has an expectation.
bool expects(const ExprPool::Node& n) {
  return n.op == ExprOp::variable && n.var == Var::dynamic && n.args[1] == ExprPool::kOne;
}

std::int64_t item(const std::vector<std::vector<std::int64_t>>* values, std::int64_t row, std::int64_t column,
                  const char* what) {
  if (values == nullptr) throw std::logic_error(std::string("a ") + what + " has no value here");
  return values->at(static_cast<std::size_t>(row)).at(static_cast<std::size_t>(column));
}

int arity(ExprOp op) {
  switch (op) {
    case ExprOp::constant:
    case ExprOp::variable: return 0;
    case ExprOp::logical_not: return 1;
    case ExprOp::select: return 3;
    default: return 2;
  }
}

/// Of what a node asks for; those of one Var share a bit, coordinates apart.
std::uint32_t bit_of(Var var, std::int64_t index) {
  return 1U << (var == Var::coord ? static_cast<unsigned>(index) : kAxisCount + static_cast<unsigned>(var));
}

std::size_t hash_of(const ExprPool::Node& n) {
  std::size_t h = static_cast<std::size_t>(n.op) * 1000003u + static_cast<std::size_t>(n.var);
  h = h * 1000003u + static_cast<std::size_t>(n.value);
  for (const ExprId a : n.args) h = h * 1000003u + a.index;
  return h;
}

}  // namespace

std::string_view name_of(Axis axis) { return nth(kAxisNames, axis); }

ExprPool::ExprPool() {
  buckets_.resize(64);
  constant(0);
  constant(1);
}

ExprId ExprPool::intern(const Node& node) {
  auto& bucket = buckets_[hash_of(node) % buckets_.size()];
  for (const std::uint32_t i : bucket)
    if (nodes_[i] == node) return ExprId{i};
  const auto index = static_cast<std::uint32_t>(nodes_.size());
  nodes_.push_back(node);
  asks_.push_back(asked_by(node));
  bucket.push_back(index);
  if (nodes_.size() > 4 * buckets_.size()) {
    std::vector<std::vector<std::uint32_t>> wider(buckets_.size() * 4);
    for (std::uint32_t i = 0; i < nodes_.size(); ++i) wider[hash_of(nodes_[i]) % wider.size()].push_back(i);
    buckets_ = std::move(wider);
  }
  return ExprId{index};
}

ExprId ExprPool::constant(std::int64_t value) {
  Node n;
  n.op = ExprOp::constant;
  n.value = value;
  return intern(n);
}

ExprId ExprPool::variable(Var var, int index) {
  Node n;
  n.op = ExprOp::variable;
  n.var = var;
  n.value = index;
  return intern(n);
}

ExprId ExprPool::dynamic(int index, ExprId expectation) {
  Node n;
  n.op = ExprOp::variable;
  n.var = Var::dynamic;
  n.value = index;
  n.args = {expectation, kOne, kZero};
  return intern(n);
}

ExprId ExprPool::apply(ExprOp op, ExprId a, ExprId b, ExprId c) {
  const int n = arity(op);
  if (n == 0) throw std::logic_error("apply takes an operation");
  const bool folds = op != ExprOp::element && op != ExprOp::lookup && is_constant(a) && (n < 2 || is_constant(b)) &&
                     (n < 3 || is_constant(c));
  if (folds) {
    const auto value = [&](ExprId id) { return nodes_[id.index].value; };
    return constant(compute(op, value(a), n > 1 ? value(b) : 0, n > 2 ? value(c) : 0));
  }
  Node node;
  node.op = op;
  node.args = {a, n > 1 ? b : kZero, n > 2 ? c : kZero};
  return intern(node);
}

std::int64_t ExprPool::evaluate(ExprId id, const ExprContext& at) const {
  const Node& n = nodes_[id.index];
  if (n.op == ExprOp::constant) return n.value;
  if (n.op == ExprOp::variable) {
    const auto i = static_cast<std::size_t>(n.value);
    switch (n.var) {
      case Var::coord: return at.coord[i];
      case Var::extent: return at.extent[i];
      case Var::island: return at.island;
      case Var::layer: return at.layer;
      case Var::chunk: return at.chunk;
      case Var::microbatch: return at.microbatch;
      case Var::pass: return at.pass;
      case Var::copy: return at.copy;
      case Var::step: return at.step;
      case Var::microbatches: return at.microbatches;
      case Var::peer: return at.peer;
      case Var::dynamic:
        return at.dynamic == nullptr && expects(n) ? evaluate(n.args[0], at)
                                                   : item(at.dynamic, n.value, 0, "dynamic dimension");
    }
  }
  if (n.op == ExprOp::element && at.dynamic == nullptr && expects(nodes_[n.args[0].index]))
    return evaluate(n.args[0], at);
  if (n.op == ExprOp::element)
    return item(at.dynamic, nodes_[n.args[0].index].value, evaluate(n.args[1], at), "dynamic dimension");
  if (n.op == ExprOp::lookup) return item(at.tables, nodes_[n.args[0].index].value, evaluate(n.args[1], at), "table");
  if (n.op == ExprOp::select) return evaluate(n.args[evaluate(n.args[0], at) != 0 ? 1 : 2], at);
  const std::int64_t a = evaluate(n.args[0], at);
  const std::int64_t b = arity(n.op) > 1 ? evaluate(n.args[1], at) : 0;
  return compute(n.op, a, b, 0);
}

std::uint32_t ExprPool::asked_by(const Node& n) const {
  if (n.op == ExprOp::constant) return 0;
  if (n.op == ExprOp::variable) return bit_of(n.var, n.value) | (expects(n) ? asks_[n.args[0].index] : 0);
  std::uint32_t out = 0;
  for (int i = 0; i < arity(n.op); ++i) out |= asks_[nth(n.args, i).index];
  return out;
}

bool ExprPool::depends_on(ExprId id, Var var, int index) const {
  if ((asks_[id.index] & bit_of(var, index)) == 0) return false;
  if (var != Var::extent && var != Var::dynamic) return true;
  const Node& n = nodes_[id.index];
  if (n.op == ExprOp::constant) return false;
  if (n.op == ExprOp::variable)
    return (n.var == var && n.value == index) || (expects(n) && depends_on(n.args[0], var, index));
  for (int i = 0; i < arity(n.op); ++i)
    if (depends_on(nth(n.args, i), var, index)) return true;
  return false;
}

std::string ExprPool::to_string(ExprId id) const {
  static constexpr std::array<std::string_view, 19> kSymbols{
      "", "", "+", "-", "*", "/", "%", "min", "max", "==", "!=", "<", "<=", "&&", "||", "!", "?", "element", "lookup"};
  const Node& n = nodes_[id.index];
  if (n.op == ExprOp::constant) return std::to_string(n.value);
  if (n.op == ExprOp::variable) {
    switch (n.var) {
      case Var::coord: return std::string(name_of(static_cast<Axis>(n.value)));
      case Var::extent: return fmt::format("|{}|", name_of(static_cast<Axis>(n.value)));
      case Var::island: return "island";
      case Var::layer: return "layer";
      case Var::chunk: return "chunk";
      case Var::microbatch: return "microbatch";
      case Var::pass: return "pass";
      case Var::copy: return "copy";
      case Var::step: return "step";
      case Var::microbatches: return "microbatches";
      case Var::peer: return "peer";
      case Var::dynamic: return fmt::format("dynamic[{}]", n.value);
    }
  }
  const std::string_view symbol = nth(kSymbols, n.op);
  const std::string a = to_string(n.args[0]);
  if (n.op == ExprOp::logical_not) return "!" + a;
  if (n.op == ExprOp::select) return fmt::format("({} ? {} : {})", a, to_string(n.args[1]), to_string(n.args[2]));
  if (n.op == ExprOp::min || n.op == ExprOp::max || n.op == ExprOp::element || n.op == ExprOp::lookup)
    return fmt::format("{}({}, {})", symbol, a, to_string(n.args[1]));
  return fmt::format("({} {} {})", a, symbol, to_string(n.args[1]));
}

ExprPool ExprPool::from_nodes(std::vector<Node> nodes) {
  ExprPool pool;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    for (const ExprId a : nodes[i].args)
      if ((arity(nodes[i].op) > 0 || expects(nodes[i])) && a.index >= i)
        throw std::invalid_argument("expression refers forward");
    if (pool.intern(nodes[i]).index != i) throw std::invalid_argument("expression pool holds a node twice");
  }
  return pool;
}

}  // namespace rehearse
