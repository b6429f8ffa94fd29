#pragma once
// Collectives follow from layout changes: the one table that says which.

#include <optional>

#include "core/collective/collective_op.hpp"
#include "core/program/tensor.hpp"

namespace rehearse {

/// One step of a change of layout: what happens on one axis. Without `op` the change is local (a rank keeps its slice).
struct LayoutStep {
  Axis axis;
  std::optional<CollectiveOp> op;
  ReduceOp reduce = ReduceOp::sum;
};

/// Steps that take a value from one layout to another, axis by axis:
///   Partial -> Replicate  all-reduce         Partial -> Shard  reduce-scatter
///   Shard -> Replicate    all-gather         Shard -> Shard    all-to-all, or one hop on the ring where only `turned`
///   differs, by one Replicate -> Shard    keep a slice
/// Throws std::logic_error for changes that mean nothing (a whole value cannot become a partial sum).
[[nodiscard]] std::vector<LayoutStep> redistribution(const Layout& from, const Layout& to);

/// Layout of the gradient of a value with layout `value`: sharded where the value is, whole where it is whole or was a
/// partial sum.
[[nodiscard]] Layout gradient_layout(const Layout& value);

/// Slices alone: what a rank's part of the value is, whatever it holds of its neighbours'.
[[nodiscard]] Layout without_halos(Layout layout);

/// `layout` with axis `axis` set to `l`; Replicate removes it. The order of the other axes stays.
[[nodiscard]] Layout with_axis(Layout layout, Axis axis, const AxisLayout& l);

}  // namespace rehearse
