#pragma once
// Which global elements a rank holds of a tensor, in the order of its storage: initial values, data, random numbers,
// checkpoints and redistribution are functions of global elements, so that a layout never changes a result.

#include <cstdint>
#include <vector>

#include "core/program/program.hpp"

namespace rehearse {

/// Consecutive indices [first, first + length).
struct Run {
  std::int64_t first = 0, length = 0;
  bool operator==(const Run&) const = default;
};
using Runs = std::vector<Run>;

/// Positions, among `n` elements that the axes before it leave, of the slice of rank `i` of `k`. `segments` are the
/// pieces whose slices are taken one by one, empty for one piece. Positions of n and beyond are padding.
[[nodiscard]] Runs slice_of(const Shard& shard, std::int64_t n, int i, int k,
                            const std::vector<std::int64_t>& segments = {});

/// One tensor on one rank. Element e of the local storage is at local coordinates (row-major over `extents`), each of
/// which stands for the global index that `global[d]` lists; where the storage is a slice of that (`flat`), element e
/// is element flat.first + e.
struct Held {
  std::vector<std::int64_t> shape;    ///< Global.
  std::vector<std::int64_t> extents;  ///< Local, before flat sharding.
  std::vector<Runs> global;           ///< Per dimension; an index of shape[d] or more is padding.
  Run flat;                           ///< Which of the local elements are stored.
  /// Per dimension: local coordinates that are its own; those around them are a halo of neighbours' elements.
  std::vector<Run> inner;

  /// Elements stored.
  [[nodiscard]] std::int64_t elements() const { return flat.length; }
  /// Whether flat sharding leaves a part only.
  [[nodiscard]] bool sliced() const;
  /// Whether it holds elements of its neighbours beside its own.
  [[nodiscard]] bool haloed() const;
  /// Global index along dimension `d` of local coordinate `x`; -1 for padding.
  [[nodiscard]] std::int64_t global_index(std::size_t d, std::int64_t x) const;
  /// Row-major global element of every stored element, in order; -1 for padding.
  [[nodiscard]] std::vector<std::int64_t> global_elements() const;
  bool operator==(const Held&) const = default;
};

/// Stored elements [local, local + length) that are the global elements [global, global + length).
struct Stretch {
  std::int64_t local = 0, global = 0, length = 0;
  bool operator==(const Stretch&) const = default;
};
/// What `held` stores, in its order, as stretches that are as long as can be; padding is left out. A shard of rows is
/// one stretch, a shard of columns one for each row.
[[nodiscard]] std::vector<Stretch> stretches_of(const Held& held);

/// Halos are elements that neighbours hold too; at the edge of the tensor there are none. Ragged dimensions are local:
/// every rank numbers its own elements from 0.
[[nodiscard]] Held held(const Program& program, const Tensor& tensor, const ExprContext& at);

}  // namespace rehearse
