#include "core/estimate/walk/rank_leaders.hpp"

#include <algorithm>
#include <cstdlib>

#include "core/base/index.hpp"
#include "core/program/body.hpp"

namespace rehearse {

namespace {

/// Whether tasks ask for the coordinate along `axis` for their sizes alone.
bool only_sizes_ask(const Program& p, Axis axis) {
  const auto depends = [&](ExprId id) { return p.exprs.depends_on(id, Var::coord, static_cast<int>(axis)); };
  for (const Body& body : p.bodies) {
    for (const Formal& f : body.formals)
      if (std::holds_alternative<Halo>(layout_on(nth(p.tensors, f.like).layout, axis))) return false;
    for (const auto v : body.graph.vertices()) {
      const auto* m = std::get_if<P2pTask>(&body.graph[v].kind);
      if (depends(body.graph[v].predicate) || (m != nullptr && depends(m->peer))) return false;
    }
  }
  for (const Role& role : p.roles)
    if (std::any_of(role.step.begin(), role.step.end(), [&](const Entry& e) { return depends(e.predicate); }))
      return false;
  return true;
}

/// What the kernels of all bodies multiply, on a rank at this place.
double products(const Program& p, const ExprContext& at) {
  double sum = 0;
  for (const Body& body : p.bodies) {
    for (const auto v : body.graph.vertices()) {
      const auto* c = std::get_if<ComputeTask>(&body.graph[v].kind);
      if (c == nullptr || c->dims.empty()) continue;
      double product = 1;
      for (const ExprId dim : c->dims) product *= static_cast<double>(p.exprs.evaluate(dim, at));
      sum += product;
    }
  }
  return sum;
}

/// The coordinate along `axis` of those who multiply most; of equals the last.
int busiest(const Program& p, Axis axis) {
  ExprContext at = p.mesh.context(0);
  at.tables = &p.tables;
  int best = 0;
  double most = -1;
  for (std::int32_t& i = nth(at.coord, axis) = 0; i < nth(at.extent, axis); ++i) {
    const double here = products(p, at);
    if (here < most * (1 - 1e-9)) continue;
    most = here;
    best = i;
  }
  return best;
}

}  // namespace

RankLeaders::RankLeaders(const Program& program, const AxisSet& matters) : p_(program) {
  for (int a = 0; a < kAxisCount; ++a) {
    const auto axis = static_cast<Axis>(a);
    if (matters.contains(axis) && axis != Axis::pp && p_.mesh.islands().size() == 1 && only_sizes_ask(p_, axis))
      led_.emplace_back(axis, busiest(p_, axis));
  }
}

bool RankLeaders::leads_along(Axis axis) const {
  return std::any_of(led_.begin(), led_.end(), [axis](const auto& l) { return l.first == axis; });
}

RankLeaders::Standing RankLeaders::standing(int rank) {
  if (led_.empty()) return {};
  Standing out;
  const ExprContext there = p_.mesh.context(rank);
  std::vector<int> place;
  for (const auto& [axis, leader] : led_) {
    place.push_back(nth(there.coord, axis));
    out.distance += std::abs(place.back() - leader);
  }
  if (led_.size() < 2) return out;
  const auto [work, fresh] = works_.try_emplace(place, 0.0);
  if (fresh) {
    ExprContext at = p_.mesh.context(0);
    at.tables = &p_.tables;
    for (std::size_t i = 0; i < place.size(); ++i) nth(at.coord, led_[i].first) = place[i];
    work->second = products(p_, at);
  }
  out.work = work->second;
  return out;
}

}  // namespace rehearse
