#include "core/program/rank_kinds.hpp"

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include "core/base/index.hpp"
#include "core/program/body.hpp"

namespace rehearse {

namespace {

/// Whether all ranks along its axis get as much of `n` elements; `n` becomes what one gets.
bool divides_evenly(const Shard& shard, int ranks, std::int64_t& n) {
  if (!shard.parts.empty()) {
    n = *std::max_element(shard.parts.begin(), shard.parts.end());
    return shard.padded ||
           std::all_of(shard.parts.begin(), shard.parts.end(), [&](std::int64_t part) { return part == n; });
  }
  const std::int64_t pieces = shard.zigzag ? 2LL * ranks : ranks;
  const bool even = shard.padded || n % pieces == 0;
  n = (n + pieces - 1) / pieces * (shard.zigzag ? 2 : 1);
  return even;
}

bool asks_for_place(const Program& p, ExprId id) {
  return p.exprs.coordinates(id) != 0 || p.exprs.depends_on(id, Var::island);
}

/// Whether ranks of the island of `at` can hold unequal amounts of the tensor.
bool uneven(const Program& p, const Tensor& t, const ExprContext& at) {
  if (std::any_of(t.shape.begin(), t.shape.end(), [&](ExprId id) { return asks_for_place(p, id); })) return true;
  std::vector<std::int64_t> n;
  for (const ExprId id : t.shape) n.push_back(p.exprs.evaluate(id, at));
  bool even = true;
  for (const auto& [axis, l] : t.layout) {
    const int ranks = nth(at.extent, axis);
    if (std::holds_alternative<Halo>(l) && ranks > 1) return true;
    const auto* s = std::get_if<Shard>(&l);
    if (s != nullptr && !s->flat) even = divides_evenly(*s, ranks, n.at(static_cast<std::size_t>(s->dim))) && even;
  }
  std::int64_t flat = 1;
  for (const std::int64_t length : n) flat *= length;
  for (const auto& [axis, l] : t.layout)
    if (const auto* s = std::get_if<Shard>(&l); s != nullptr && s->flat)
      even = divides_evenly(*s, nth(at.extent, axis), flat) && even;
  return !even;
}

/// One of each kind of tensor that ranks of an island hold unequal amounts of.
std::vector<const Tensor*> uneven_tensors(const Program& p, const ExprContext& at) {
  std::vector<const Tensor*> out;
  for (const Tensor& t : p.tensors) {
    const bool known = std::any_of(out.begin(), out.end(),
                                   [&](const Tensor* o) { return o->shape == t.shape && o->layout == t.layout; });
    if (!known && t.alias_of < 0 && uneven(p, t, at)) out.push_back(&t);
  }
  return out;
}

/// Axes whose coordinate decides whether something runs.
AxisSet deciding_axes(const Program& p) {
  AxisSet out;
  for (const Body& b : p.bodies)
    for (const auto v : b.graph.vertices()) out.insert_all(p.exprs.coordinates(b.graph[v].predicate));
  for (const Role& r : p.roles)
    for (const Entry& e : r.step) out.insert_all(p.exprs.coordinates(e.predicate));
  return out;
}

/// The places at which ranks of an island lie along some axes, with their roles.
class Places {
 public:
  Places(const Island& island, const AxisSet& axes, std::size_t roles) {
    std::size_t count = roles;
    for (int a = 0; a < kAxisCount && count <= kMost; ++a) {
      const Island::Wheel wheel = island.wheel(static_cast<Axis>(a));
      if (!axes.contains(static_cast<Axis>(a)) || wheel.extent == 1) continue;
      wheels_.push_back(wheel);
      count *= static_cast<std::size_t>(wheel.extent);
    }
    met_.assign(count <= kMost ? count : 0, 0);
  }
  /// Whether none was met before; true of all where they are too many to be kept.
  bool is_new(int local, int role) {
    if (met_.empty()) return true;
    auto at = static_cast<std::size_t>(role);
    for (const Island::Wheel& w : wheels_)
      at = at * static_cast<std::size_t>(w.extent) + static_cast<std::size_t>(w.at(local));
    return std::exchange(met_[at], 1) == 0;
  }

 private:
  static constexpr std::size_t kMost = 1 << 20;
  std::vector<Island::Wheel> wheels_;
  std::vector<char> met_;
};

}  // namespace

RankKinds::RankKinds(const Program& p) : first_(p.roles.size()) {
  const AxisSet deciding = deciding_axes(p);
  std::set<std::vector<std::int64_t>> known;
  for (const Island& island : p.mesh.islands()) {
    ExprContext at = p.mesh.context(island.first_rank);
    at.tables = &p.tables;
    const std::vector<const Tensor*> tensors = uneven_tensors(p, at);
    AxisSet asked = deciding;
    for (const Tensor* t : tensors) {
      for (const ExprId length : t->shape) asked.insert_all(p.exprs.coordinates(length));
      for (const auto& [axis, layout] : t->layout) asked.insert(axis);
    }
    Places places(island, asked, p.roles.size());
    for (int local = 0; local < island.ranks(); ++local) {
      const int rank = island.first_rank + local;
      const auto role = nth(p.role_of_rank, rank);
      if (!places.is_new(local, role)) continue;
      at = p.mesh.context(rank);
      at.tables = &p.tables;
      std::vector<std::int64_t> kind{role, at.island};
      for (int a = 0; a < kAxisCount; ++a)
        if (deciding.contains(static_cast<Axis>(a))) kind.push_back(nth(at.coord, a));
      for (const Tensor* t : tensors) kind.push_back(p.local_elements(*t, at));
      if (known.insert(std::move(kind)).second) nth(first_, role).push_back(rank);
    }
  }
}

bool memory_varies_by_place(const Program& p, const Body& body, const BindingSet& bindings, const ExprContext& at) {
  const auto asks = [&](ExprId id) { return asks_for_place(p, id) || p.exprs.depends_on(id, Var::microbatches); };
  const auto differs = [&](int tensor) {
    const Tensor& t = nth(p.tensors, tensor);
    return t.alias_of < 0 && (uneven(p, t, at) || std::any_of(t.shape.begin(), t.shape.end(), asks));
  };
  const auto tasks = body.graph.vertices();
  return std::any_of(tasks.begin(), tasks.end(), [&](auto v) { return asks(body.graph[v].predicate); }) ||
         std::any_of(body.formals.begin(), body.formals.end(), [&](const Formal& f) { return differs(f.like); }) ||
         std::any_of(bindings.begin(), bindings.end(), [&](const Binding& b) { return differs(b.tensor); });
}

bool memory_varies_by_call(const Program& p, const Body& body, const BindingSet& bindings) {
  constexpr std::array kOfCall{Var::layer, Var::chunk, Var::microbatch, Var::pass, Var::copy};
  const auto varies = [&](ExprId id) {
    return !p.exprs.is_constant(id) &&
           std::any_of(kOfCall.begin(), kOfCall.end(), [&](Var v) { return p.exprs.depends_on(id, v); });
  };
  const auto tensor_varies = [&](int id) {
    const auto& shape = nth(p.tensors, id).shape;
    return std::any_of(shape.begin(), shape.end(), varies);
  };
  for (const auto v : body.graph.vertices())
    if (varies(body.graph[v].predicate)) return true;
  return std::any_of(body.formals.begin(), body.formals.end(),
                     [&](const Formal& f) { return tensor_varies(f.like); }) ||
         std::any_of(bindings.begin(), bindings.end(), [&](const Binding& b) { return tensor_varies(b.tensor); });
}

}  // namespace rehearse
