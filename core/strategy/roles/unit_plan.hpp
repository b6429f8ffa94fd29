#pragma once
// Which parameters stored as slices are gathered before which block of a pass, and dropped after which. A unit is what
// is gathered in one call: under FSDP a layer, or (the root) all that stands outside the layers of a chunk; under
// ZeRO-3 any block.

#include <map>
#include <vector>

#include "core/base/index.hpp"
#include "core/strategy/roles/roles.hpp"

namespace rehearse {

/// Block positions of one pass of one chunk, in the order of that pass.
struct UnitPass {
  bool forward = true;
  bool last = false;  ///< The chunk's last pass of the step.
  int chunk = 0;
  std::vector<int> positions;
};

class UnitPlan {
 public:
  struct Gather {
    int unit = 0;
    std::vector<ParamRef> params;
    /// Of them: dropped after the layer has run again, and gathered anew for its backward.
    std::vector<ParamRef> again;
    int after = -1;  ///< Starts after this position of the pass (an index) is done; -1: as soon as the pass may.
  };

  /// Units of the chunks of `stage`; none where parameters are not stored as slices.
  UnitPlan(const StepBodies& step, const RolePlan& plan, int stage);

  [[nodiscard]] bool any() const { return !units_.empty(); }
  /// Index of a position's unit, or -1.
  [[nodiscard]] int unit_at(int position) const;

  [[nodiscard]] const std::vector<ParamRef>& params_of(int unit) const { return nth(units_, unit).params; }

  void begin(UnitPass pass);
  /// What is to be issued before the k-th position of the pass: its own unit and those ahead of it.
  [[nodiscard]] std::vector<Gather> before(int k);
  /// Parameters that nobody needs whole once the k-th position is done.
  [[nodiscard]] std::vector<ParamRef> dropped_after(int k);

 private:
  struct Unit {
    std::vector<ParamRef> params;
    double elements = 0;
    bool root = false;
    bool held = false;
  };

  void add(int chunk, int position, const std::vector<ParamRef>& params, bool root);
  [[nodiscard]] int reach(int k) const;
  [[nodiscard]] std::vector<ParamRef> used_far_apart(const Unit& unit) const;
  [[nodiscard]] bool drops(const Unit& unit) const;

  const StrategySettings& settings_;
  const StepBodies& step_;
  const RolePlan& plan_;
  std::vector<Unit> units_;
  std::map<int, std::size_t> unit_at_;  ///< By position.
  std::map<int, std::size_t> root_of_chunk_;
  std::map<ParamRef, int> holders_;  ///< Units gathered that share a parameter.
  UnitPass pass_;
  bool drop_after_forward_ = true, drop_after_backward_ = true;
};

/// Whether gathered parameters are dropped after a pass, automatic resolved.
[[nodiscard]] bool reshards(Reshard choice, const StrategySettings& settings);

}  // namespace rehearse
