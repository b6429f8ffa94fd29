#pragma once
// What operators on rows of experts share: which rows are whose.

#include <vector>

#include "core/base/index.hpp"
#include "gpu_backend/cpu/cpu_device.hpp"
#include "gpu_backend/execute/operands.hpp"

namespace rehearse {

/// Rows of each expert here: what its peers sent, or equal parts. scalars: ranks whose slices of the rows lie one after
/// the other.
struct ExpertRows {
  struct Piece {
    std::int64_t first, rows;
  };
  std::vector<std::vector<Piece>> of_expert;

  ExpertRows(const OperatorCall& c, std::int64_t experts, std::int64_t rows)
      : of_expert(static_cast<std::size_t>(experts)) {
    const auto slices = static_cast<std::int64_t>(c.task->scalars.at(0));
    if (c.task->group_sizes < 0) {
      const std::int64_t n = rows / slices / experts;
      for (std::int64_t s = 0; s < slices; ++s)
        for (std::int64_t e = 0; e < experts; ++e) nth(of_expert, e).push_back({(s * experts + e) * n, n});
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
        nth(of_expert, e).push_back({first, n});
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

}  // namespace rehearse
