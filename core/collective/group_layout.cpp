#include "core/collective/group_layout.hpp"

#include <algorithm>
#include <string>

#include "core/base/error.hpp"

namespace rehearse {
namespace {

/// The group in device order, without a copy where it is so already.
class Ordered {
 public:
  explicit Ordered(std::span<const DeviceId> group) : devices_(group) {
    if (group.empty()) throw Error(ErrorKind::usage, "a collective needs at least one device", "collective group");
    if (!std::is_sorted(group.begin(), group.end())) {
      copy_.assign(group.begin(), group.end());
      std::sort(copy_.begin(), copy_.end());
      devices_ = copy_;
    }
    const auto twice = std::adjacent_find(devices_.begin(), devices_.end());
    if (twice != devices_.end())
      throw Error(ErrorKind::usage, "device " + std::to_string(*twice) + " is twice in one group", "collective group",
                  "each rank of a communicator is another device");
  }
  Ordered(const Ordered&) = delete;
  Ordered& operator=(const Ordered&) = delete;
  [[nodiscard]] std::span<const DeviceId> devices() const { return devices_; }

 private:
  std::span<const DeviceId> devices_;
  std::vector<DeviceId> copy_;
};

}  // namespace

GroupLayout layout_of(const Cluster& cluster, std::span<const DeviceId> group) {
  const Ordered ordered(group);
  GroupLayout out;
  out.ranks = int(group.size());
  for (const DeviceId d : ordered.devices()) {
    const NodeId node = cluster.node_of(d);
    if (out.nodes.empty() || out.nodes.back().node != node) out.nodes.push_back({node, {}});
    out.nodes.back().devices.push_back(d);
  }
  out.least_per_node = out.ranks;
  for (const auto& n : out.nodes) out.least_per_node = std::min(out.least_per_node, int(n.devices.size()));
  return out;
}

LayoutKey key_of(const Cluster& cluster, std::span<const DeviceId> group) {
  const Ordered ordered(group);
  LayoutKey out;
  out.ranks = int(group.size());
  LayoutKey::Kind kind;
  const auto flush = [&] {
    if (out.kinds.empty() || out.kinds.back() != kind) out.kinds.push_back(kind);
  };
  NodeId node = -1;
  DeviceId first = 0;
  for (const DeviceId d : ordered.devices()) {
    if (const NodeId at = cluster.node_of(d); at != node) {
      if (node >= 0) flush();
      node = at;
      first = cluster.first_device(node);
      ++out.nodes;
      kind = {&cluster.machine(node), &cluster.gpu(first),
              std::vector<std::uint64_t>(std::size_t(d - first) / 64 + 1, 0)};
    }
    const auto local = std::size_t(d - first);
    if (kind.local.size() <= local / 64) kind.local.resize(local / 64 + 1, 0);
    kind.local[local / 64] |= std::uint64_t{1} << (local % 64);
  }
  flush();
  std::sort(out.kinds.begin(), out.kinds.end());
  out.kinds.erase(std::unique(out.kinds.begin(), out.kinds.end()), out.kinds.end());
  return out;
}

}  // namespace rehearse
