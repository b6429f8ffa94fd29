#include "core/cluster/fabrics/clos.hpp"

#include <fmt/format.h>

namespace rehearse {

ClosFabric::ClosFabric(FabricSite site, const ClosShape& shape)
    : SwitchedFabric(std::move(site)),
      shape_(shape),
      pods_(shape.has_core ? (shape.leaves + shape.leaves_per_pod - 1) / shape.leaves_per_pod : 1) {
  if (!shape_.has_core) shape_.leaves_per_pod = shape_.leaves;
}

int ClosFabric::switch_count() const {
  if (shape_.leaves == 1) return 1;
  return shape_.leaves + pods_ + (pods_ > 1 ? 1 : 0);
}

std::string ClosFabric::leaf_name(int leaf) const { return fmt::format("leaf{}", leaf); }

std::string ClosFabric::switch_name(int index) const {
  if (index < shape_.leaves) return leaf_name(index);
  int pod = index - shape_.leaves;
  return pod < pods_ ? fmt::format("spine{}", pod) : "core";
}

int ClosFabric::trunk_count() const {
  if (shape_.leaves == 1) return 0;
  return 2 * shape_.leaves + (pods_ > 1 ? 2 * pods_ : 0);
}

SwitchedFabric::Trunk ClosFabric::trunk(int index) const {
  int owner = index / 2;
  int parent = shape_.leaves + pods_;
  BytesPerSecond rate = shape_.leaf_down / shape_.oversubscription;
  if (owner < shape_.leaves)
    parent = shape_.leaves + owner / shape_.leaves_per_pod;
  else
    rate *= shape_.leaves_per_pod / shape_.core_oversubscription;
  if (index % 2 == 0) return {owner, parent, rate};
  return {parent, owner, rate};
}

void ClosFabric::climb(int from_leaf, int to_leaf, std::vector<int>& trunks) const {
  if (from_leaf == to_leaf) return;
  int from_pod = from_leaf / shape_.leaves_per_pod;
  int to_pod = to_leaf / shape_.leaves_per_pod;
  trunks.push_back(2 * from_leaf);
  if (from_pod != to_pod) {
    trunks.push_back(2 * (shape_.leaves + from_pod));
    trunks.push_back(2 * (shape_.leaves + to_pod) + 1);
  }
  trunks.push_back(2 * to_leaf + 1);
}

std::string ClosFabric::shape_text() const {
  if (shape_.leaves == 1) return "1 leaf";
  std::string text = fmt::format("{} leaves, {} levels", shape_.leaves, pods_ > 1 ? 3 : 2);
  if (shape_.oversubscription == 1 && (pods_ == 1 || shape_.core_oversubscription == 1)) return text + ", full bisection";
  text += fmt::format(", {:g}:1 at the leaves", shape_.oversubscription);
  if (pods_ > 1) text += fmt::format(", {:g}:1 between {} pods", shape_.core_oversubscription, pods_);
  return text;
}

void read_clos_parameters(const FabricSite& site, ClosShape& shape) {
  int levels = integer_parameter(site, "levels", 2, 2);
  if (levels > 3)
    throw Error(ErrorKind::usage, fmt::format("network parameter 'levels' is {}; 2 and 3 are known", levels),
                "network.parameters.levels");
  shape.has_core = levels == 3;
  shape.oversubscription = ratio_parameter(site, "oversubscription", 1);
  shape.core_oversubscription = ratio_parameter(site, "core_oversubscription", 1);
}

std::vector<ParameterHelp> clos_parameter_help() {
  return {{"levels", "2: leaves and spines; 3: pods of leaves and spines under a core", "2"},
          {"oversubscription", "bandwidth down over bandwidth up at a leaf", "1"},
          {"core_oversubscription", "bandwidth down over bandwidth up at a pod (3 levels)", "1"}};
}

}  // namespace rehearse
