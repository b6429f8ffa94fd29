#include "core/strategy/operators/redistribute.hpp"

#include <algorithm>
#include <cstdlib>
#include <stdexcept>

namespace rehearse {

namespace {

template <class T>
bool is(const AxisLayout& l) {
  return std::holds_alternative<T>(l);
}

/// Whether every rank hands its slice to a neighbour.
bool moves_on_a_ring(Shard from, const Shard& to) {
  if (std::abs(from.turned - to.turned) != 1) return false;
  from.turned = to.turned;
  return from == to;
}

LayoutStep step_on(Axis axis, const AxisLayout& from, const AxisLayout& to) {
  if (const auto* p = std::get_if<Partial>(&from)) {
    if (is<Replicate>(to)) return {axis, CollectiveOp::all_reduce, p->op};
    if (is<Shard>(to)) return {axis, CollectiveOp::reduce_scatter, p->op};
  }
  // A halo lies around a slice, and what is gathered is the slices.
  if (is<Halo>(from) && is<Replicate>(to)) return {axis, CollectiveOp::all_gather};
  if (is<Shard>(from)) {
    if (is<Replicate>(to)) return {axis, CollectiveOp::all_gather};
    if (is<Shard>(to))
      return {axis, moves_on_a_ring(std::get<Shard>(from), std::get<Shard>(to)) ? CollectiveOp::send_recv
                                                                                : CollectiveOp::all_to_all};
  }
  if (is<Replicate>(from) && is<Shard>(to)) return {axis, std::nullopt};
  throw std::logic_error("no redistribution on axis " + std::string(name_of(axis)));
}

}  // namespace

std::vector<LayoutStep> redistribution(const Layout& from, const Layout& to) {
  std::vector<Axis> axes;
  for (const Layout* layout : {&from, &to})
    for (const auto& [axis, l] : *layout)
      if (std::find(axes.begin(), axes.end(), axis) == axes.end()) axes.push_back(axis);
  std::vector<LayoutStep> steps;
  for (const Axis axis : axes) {
    const AxisLayout a = layout_on(from, axis), b = layout_on(to, axis);
    if (a != b) steps.push_back(step_on(axis, a, b));
  }
  return steps;
}

Layout gradient_layout(const Layout& value) {
  Layout out;
  for (const auto& [axis, l] : without_halos(value))
    if (!is<Partial>(l) && !is<Replicate>(l)) out.emplace_back(axis, l);
  return out;
}

Layout without_halos(Layout layout) {
  for (auto& [axis, l] : layout)
    if (const auto* h = std::get_if<Halo>(&l)) {
      Shard own = shard_on(h->dim);
      own.parts = h->parts;
      l = std::move(own);
    }
  return layout;
}

Layout with_axis(Layout layout, Axis axis, const AxisLayout& l) {
  const auto at = std::find_if(layout.begin(), layout.end(), [axis](const auto& e) { return e.first == axis; });
  if (at == layout.end()) {
    if (!is<Replicate>(l)) layout.emplace_back(axis, l);
  } else if (is<Replicate>(l)) {
    layout.erase(at);
  } else {
    at->second = l;
  }
  return layout;
}

}  // namespace rehearse
