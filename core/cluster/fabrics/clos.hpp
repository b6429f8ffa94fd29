#pragma once
// The tree that fat trees and rail-optimised fabrics share: leaves, one stage of spines per pod, and a core between
// pods.
//
// Traffic spreads evenly over the switches of a stage (adaptive routing at its best), so that the bundle of cables from
// a leaf to its spines is one trunk per direction, and so is the bundle from a pod to the core. With `ecmp_paths` the
// stage is drawn out instead: every flow takes the one spine that a hash gives it (equal-cost multipath, RFC 2992), and
// unlucky flows share a cable while others idle.

#include "core/cluster/fabric.hpp"

namespace rehearse {

/// Sizes of the tree. A bundle is cabled for a full leaf or pod, also where the last one is only partly filled.
struct ClosShape {
  /// Leaves with equal ports. One section unless every part of a mixed cluster has leaves of its own.
  /// leaf_down: sum of the NIC ports that a leaf serves.
  struct Section {
    int first_leaf = 0;
    BytesPerSecond leaf_down;
  };
  std::vector<Section> sections;
  int leaves = 1;
  int leaves_per_pod = 1;            ///< All leaves of a pod share its spines.
  bool has_core = false;             ///< Three levels; without it every leaf is in one pod.
  double oversubscription = 1;       ///< Leaf: bandwidth down over bandwidth up (2 = half of the traffic can leave).
  double core_oversubscription = 1;  ///< Pod: bandwidth down over bandwidth up.
  bool hashed = false;               ///< ECMP: a flow takes one spine; otherwise it spreads over all.
  int paths = 1;                     ///< Spines per pod that are told apart.
  int core_paths = 1;                ///< Core switches per spine that are told apart.
  std::uint64_t seed = 0;
};

/// Trunks: leaf l and spine s own 2(l * paths + s) (up) and the next (down); then pod p, spine s and core switch c,
/// likewise. A tree of one leaf has none. Core switch c of spine s joins the spines s of all pods.
class ClosFabric : public SwitchedFabric {
 public:
  ClosFabric(FabricSite site, const ClosShape& shape);

  [[nodiscard]] int switch_count() const override;
  [[nodiscard]] std::string switch_name(int index) const override;
  /// A tree carries from the first half to the rest what each leaf and pod cannot settle inside and its uplinks allow.
  [[nodiscard]] BytesPerSecond bisection() const override;

 protected:
  [[nodiscard]] int trunk_count() const override;
  [[nodiscard]] Trunk trunk(int index) const override;
  void climb(int from_leaf, int to_leaf, std::uint64_t flow, std::vector<int>& trunks) const override;
  [[nodiscard]] virtual std::string leaf_name(int leaf) const;
  /// First leaf of the section that a part of the cluster is on.
  [[nodiscard]] int first_leaf_of(std::size_t part) const;
  /// Nodes before the section that a part of the cluster is on.
  [[nodiscard]] NodeId first_node_of(std::size_t part) const;
  /// "32 leaves, 2 levels, full bisection".
  [[nodiscard]] std::string shape_text() const;

 private:
  [[nodiscard]] BytesPerSecond leaf_up(int leaf) const;  ///< To all spines together.
  [[nodiscard]] BytesPerSecond pod_up(int pod) const;    ///< To the whole core.
  ClosShape shape_;
  int pods_;
};

/// Fills in what the two generators read the same way: `levels` (2 or 3), `oversubscription`, `core_oversubscription`,
/// `ecmp_*`.
void read_clos_parameters(const FabricSite& site, ClosShape& shape);

/// Lays out the sections: `leaves_for(part or all parts)` says how many leaves nodes need, `down` what a full leaf
/// serves.
struct SectionSize {
  int leaves;
  BytesPerSecond leaf_down;
};
void lay_out_sections(const FabricSite& site, ClosShape& shape,
                      const std::function<SectionSize(const std::vector<FabricPorts>&)>& size_of);

/// Help for those parameters.
[[nodiscard]] std::vector<ParameterHelp> clos_parameter_help();

}  // namespace rehearse
