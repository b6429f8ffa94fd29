#pragma once
// The tree that fat trees and rail-optimised fabrics share: leaves, one stage of spines per pod, and a core between pods.
// Traffic spreads evenly over the switches of a stage (adaptive routing at its best), so the bundle of cables from a
// leaf to its spines is one trunk per direction, and so is the bundle from a pod to the core.

#include "core/cluster/fabric.hpp"

namespace rehearse {

/// Sizes of the tree. A bundle is cabled for a full leaf or pod, also where the last one is only partly filled.
struct ClosShape {
  int leaves = 1;
  int leaves_per_pod = 1;           ///< All leaves of a pod share its spines.
  bool has_core = false;            ///< Three levels; without it every leaf is in one pod.
  BytesPerSecond leaf_down;         ///< Sum of the NIC ports that a leaf serves.
  double oversubscription = 1;      ///< Leaf: bandwidth down over bandwidth up (2 = half of the traffic can leave).
  double core_oversubscription = 1; ///< Pod: bandwidth down over bandwidth up.
};

/// Trunks: leaf l owns 2l (up) and 2l+1 (down), then pod p owns 2(leaves+p) and 2(leaves+p)+1. A tree of one leaf has none.
class ClosFabric : public SwitchedFabric {
 public:
  ClosFabric(FabricSite site, const ClosShape& shape);

  [[nodiscard]] int switch_count() const override;
  [[nodiscard]] std::string switch_name(int index) const override;

 protected:
  [[nodiscard]] int trunk_count() const override;
  [[nodiscard]] Trunk trunk(int index) const override;
  void climb(int from_leaf, int to_leaf, std::vector<int>& trunks) const override;
  [[nodiscard]] virtual std::string leaf_name(int leaf) const;
  /// "32 leaves, 2 levels, full bisection".
  [[nodiscard]] std::string shape_text() const;

 private:
  ClosShape shape_;
  int pods_;
};

/// Fills in what the two generators read the same way: `levels` (2 or 3), `oversubscription`, `core_oversubscription`.
void read_clos_parameters(const FabricSite& site, ClosShape& shape);

/// Help for those parameters.
[[nodiscard]] std::vector<ParameterHelp> clos_parameter_help();

}  // namespace rehearse
