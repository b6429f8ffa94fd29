#include "core/cluster/fabrics/clos.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "core/base/index.hpp"

namespace rehearse {

ClosFabric::ClosFabric(FabricSite site, const ClosShape& shape)
    : SwitchedFabric(std::move(site)),
      shape_(shape),
      pods_(shape.has_core ? (shape.leaves + shape.leaves_per_pod - 1) / shape.leaves_per_pod : 1) {
  if (!shape_.has_core) shape_.leaves_per_pod = shape_.leaves;
}

int ClosFabric::switch_count() const {
  if (shape_.leaves == 1) return 1;
  return shape_.leaves + pods_ * shape_.paths + (pods_ > 1 ? shape_.paths * shape_.core_paths : 0);
}

std::string ClosFabric::leaf_name(int leaf) const { return fmt::format("leaf{}", leaf); }

std::string ClosFabric::switch_name(int index) const {
  if (index < shape_.leaves) return leaf_name(index);
  int spine = index - shape_.leaves;
  if (spine < pods_ * shape_.paths)
    return shape_.paths == 1 ? fmt::format("spine{}", spine)
                             : fmt::format("spine{}.{}", spine / shape_.paths, spine % shape_.paths);
  int core = spine - pods_ * shape_.paths;
  return shape_.paths * shape_.core_paths == 1
             ? "core"
             : fmt::format("core{}.{}", core / shape_.core_paths, core % shape_.core_paths);
}

int ClosFabric::trunk_count() const {
  if (shape_.leaves == 1) return 0;
  return 2 * shape_.leaves * shape_.paths + (pods_ > 1 ? 2 * pods_ * shape_.paths * shape_.core_paths : 0);
}

BytesPerSecond ClosFabric::leaf_up(int leaf) const {
  std::size_t section = shape_.sections.size() - 1;
  while (shape_.sections[section].first_leaf > leaf) --section;
  return shape_.sections[section].leaf_down / shape_.oversubscription;
}

BytesPerSecond ClosFabric::pod_up(int pod) const {
  BytesPerSecond widest;
  int end = std::min(shape_.leaves, (pod + 1) * shape_.leaves_per_pod);
  for (int leaf = pod * shape_.leaves_per_pod; leaf < end; ++leaf) widest = max(widest, leaf_up(leaf));
  return widest * (shape_.leaves_per_pod / shape_.core_oversubscription);
}

SwitchedFabric::Trunk ClosFabric::trunk(int index) const {
  int pair = index / 2;
  Trunk up{};
  if (pair < shape_.leaves * shape_.paths) {
    int leaf = pair / shape_.paths;
    int spine = leaf / shape_.leaves_per_pod * shape_.paths + pair % shape_.paths;
    up = {leaf, shape_.leaves + spine, leaf_up(leaf) / shape_.paths};
  } else {
    pair -= shape_.leaves * shape_.paths;
    int spine = pair / shape_.core_paths;
    int core = spine % shape_.paths * shape_.core_paths + pair % shape_.core_paths;
    up = {shape_.leaves + spine, shape_.leaves + pods_ * shape_.paths + core,
          pod_up(spine / shape_.paths) / (shape_.paths * shape_.core_paths)};
  }
  if (index % 2 == 0) return up;
  return {up.to, up.from, up.rate};
}

void ClosFabric::climb(int from_leaf, int to_leaf, std::uint64_t flow, std::vector<int>& trunks) const {
  if (from_leaf == to_leaf) return;
  std::uint64_t hash = shape_.hashed ? mixed(flow ^ mixed(shape_.seed)) : 0;
  int path = static_cast<int>(hash % static_cast<std::uint64_t>(shape_.paths));
  int from_pod = from_leaf / shape_.leaves_per_pod;
  int to_pod = to_leaf / shape_.leaves_per_pod;
  trunks.push_back(2 * (from_leaf * shape_.paths + path));
  if (from_pod != to_pod) {
    int core = static_cast<int>(mixed(hash) % static_cast<std::uint64_t>(shape_.core_paths));
    auto to_core = [&](int pod) {
      return 2 * (shape_.leaves * shape_.paths + (pod * shape_.paths + path) * shape_.core_paths + core);
    };
    trunks.push_back(to_core(from_pod));
    trunks.push_back(to_core(to_pod) + 1);
  }
  trunks.push_back(2 * (to_leaf * shape_.paths + path) + 1);
}

BytesPerSecond ClosFabric::bisection() const {
  // Sources are the NICs of the first half, sinks the others; what a switch cannot settle below itself goes up.
  std::vector<double> surplus(static_cast<std::size_t>(shape_.leaves), 0), sources = surplus, sinks = surplus;
  for (NodeId node = 0; node < node_count(); ++node) {
    const FabricPorts& part = site().parts[part_of_node(node)];
    for (int nic = 0; nic < part.nics; ++nic) {
      int leaf = ends(2 * port_index(node, nic)).second.fabric_switch;
      nth((node < node_count() / 2 ? sources : sinks), leaf) += part.rate.value();
    }
  }
  double carried = 0;
  auto settle = [&carried](double source, double sink, double up) {
    carried += std::min(source, sink);
    return std::clamp(source - sink, -up, up);
  };
  double up_from_pods = 0, down_to_pods = 0;
  for (int pod = 0; pod < pods_; ++pod) {
    double pod_sources = 0, pod_sinks = 0;
    int end = std::min(shape_.leaves, (pod + 1) * shape_.leaves_per_pod);
    for (int leaf = pod * shape_.leaves_per_pod; leaf < end; ++leaf) {
      auto at = static_cast<std::size_t>(leaf);
      double rest = settle(sources[at], sinks[at], shape_.leaves > 1 ? leaf_up(leaf).value() : 0);
      (rest > 0 ? pod_sources : pod_sinks) += std::abs(rest);
    }
    double rest = settle(pod_sources, pod_sinks, pods_ > 1 ? pod_up(pod).value() : 0);
    (rest > 0 ? up_from_pods : down_to_pods) += std::abs(rest);
  }
  return BytesPerSecond{carried + std::min(up_from_pods, down_to_pods)};
}

int ClosFabric::first_leaf_of(std::size_t part) const {
  return shape_.sections.size() == 1 ? 0 : shape_.sections[part].first_leaf;
}

NodeId ClosFabric::first_node_of(std::size_t part) const {
  NodeId node = 0;
  for (std::size_t i = 0; i < part && shape_.sections.size() > 1; ++i) node += site().parts[i].nodes;
  return node;
}

std::string ClosFabric::shape_text() const {
  if (shape_.leaves == 1) return "1 leaf";
  std::string text = fmt::format("{} leaves, {} levels", shape_.leaves, pods_ > 1 ? 3 : 2);
  bool full = shape_.oversubscription == 1 && (pods_ == 1 || shape_.core_oversubscription == 1);
  text += full ? ", full bisection" : fmt::format(", {:g}:1 at the leaves", shape_.oversubscription);
  if (!full && pods_ > 1) text += fmt::format(", {:g}:1 between {} pods", shape_.core_oversubscription, pods_);
  if (shape_.hashed) text += fmt::format(", flows hashed over {} spines", shape_.paths);
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
  int paths = integer_parameter(site, "ecmp_paths", 0, 0);
  shape.hashed = paths > 0;
  shape.paths = std::max(1, paths);
  shape.core_paths = integer_parameter(site, "ecmp_core_paths", 1);
  if (!shape.hashed && shape.core_paths > 1)
    throw Error(ErrorKind::usage, "network parameter 'ecmp_core_paths' needs 'ecmp_paths'",
                "network.parameters.ecmp_core_paths");
  shape.seed = static_cast<std::uint64_t>(integer_parameter(site, "ecmp_seed", 0, 0));
}

void lay_out_sections(const FabricSite& site, ClosShape& shape,
                      const std::function<SectionSize(const std::vector<FabricPorts>&)>& size_of) {
  int own = integer_parameter(site, "sections", 0, 0);
  if (own > 1)
    throw Error(ErrorKind::usage, fmt::format("network parameter 'sections' is {}, not 0 or 1", own),
                "network.parameters.sections");
  shape.leaves = 0;
  auto add = [&shape](const SectionSize& size) {
    shape.sections.push_back({shape.leaves, size.leaf_down});
    shape.leaves += size.leaves;
  };
  if (own == 0) add(size_of(site.parts));
  for (std::size_t i = 0; own == 1 && i < site.parts.size(); ++i) add(size_of({site.parts[i]}));
  shape.leaves = std::max(1, shape.leaves);
}

std::vector<ParameterHelp> clos_parameter_help() {
  return {{"levels", "2: leaves and spines; 3: pods of leaves and spines under a core", "2"},
          {"oversubscription", "bandwidth down over bandwidth up at a leaf", "1"},
          {"core_oversubscription", "bandwidth down over bandwidth up at a pod (3 levels)", "1"},
          {"sections", "1: each part of a mixed cluster has leaves of its own, cabled for its NICs", "0"},
          {"ecmp_paths", "spines per pod, one of which a hash gives to each flow; 0 spreads every flow over all", "0"},
          {"ecmp_core_paths", "core switches per spine, hashed likewise (3 levels)", "1"},
          {"ecmp_seed", "other seeds are other hashes", "0"}};
}

}  // namespace rehearse
