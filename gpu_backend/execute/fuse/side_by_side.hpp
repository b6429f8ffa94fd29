#pragma once
// Tensors of a step whose rows lie side by side in one piece of storage, so that a device does at once what it would do
// once for each: queries, keys and values are one product of their weights' common width then, and so are both of its
// gradients. A row of each stands behind that of the one before:
//
//   q of token 0, k of token 0, v of token 0, q of token 1, ...
//
// Operators and fusions say what they would have so (beside), and operators which operands they can read and write so
// (Operator::takes_apart). It costs no memory: tensors are put together only where the same call is the first to use
// all of them, and the same call the last.

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "gpu_backend/execute/device.hpp"
#include "gpu_backend/execute/fuse/fusion.hpp"
#include "gpu_backend/execute/plan.hpp"

namespace rehearse {

struct SlotsSideBySide {
  std::vector<int> slots;             ///< In the order in which they lie.
  std::vector<std::int64_t> offsets;  ///< Of each: elements from where a row of all begins.
  std::int64_t rows = 0;
  std::int64_t apart = 0;  ///< Elements of a row of all.
};

/// Every slot is in one of them at most: what a group would have comes first, then what operators would, in the step's
/// order.
[[nodiscard]] std::vector<SlotsSideBySide> side_by_side(const RankPlan& plan, std::span<const Prepared> prepared,
                                                        std::span<const FusedGroup> groups);

/// Storage of slots that lie side by side.
class SideBySideStorage {
 public:
  SideBySideStorage() = default;
  explicit SideBySideStorage(std::vector<SlotsSideBySide> all);

  [[nodiscard]] const std::vector<SlotsSideBySide>& all() const { return all_; }
  /// Elements from row to row of a slot; 0: it lies by itself.
  [[nodiscard]] std::int64_t apart(int slot) const;
  /// The part of one that does not, of elements of `each` bytes. The first that is taken brings the storage of all,
  /// which goes with the last.
  [[nodiscard]] std::shared_ptr<Storage> take(int slot, std::size_t each, ComputeDevice& device);

 private:
  struct Place {
    std::size_t number = 0;   ///< Of `all_`.
    std::int64_t offset = 0;  ///< Elements.
  };
  std::vector<SlotsSideBySide> all_;
  std::vector<std::weak_ptr<Storage>> wholes_;
  std::map<int, Place> places_;
};

}  // namespace rehearse
