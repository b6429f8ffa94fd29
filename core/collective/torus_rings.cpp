#include "core/collective/torus_rings.hpp"

#include <algorithm>
#include <functional>
#include <set>

#include <fmt/format.h>

#include "core/collective/algorithm.hpp"
#include "core/collective/traffic.hpp"

namespace rehearse {

namespace {

using Place = std::array<int, 3>;

int size_along(const NetworkSpec& network, const char* name) {
  const auto at = network.parameters.find(name);
  return at == network.parameters.end() ? 1 : static_cast<int>(at->second);
}

Place place_of(NodeId node, const Place& size) {
  return {node % size[0], node / size[0] % size[1], node / (size[0] * size[1])};
}

DeviceId device_at(const Place& at, const Place& size) { return at[0] + size[0] * (at[1] + size[1] * at[2]); }

bool even(const std::vector<int>& at) {
  for (std::size_t i = 2; i < at.size(); ++i)
    if (at[i] - at[i - 1] != at[1] - at[0]) return false;
  return true;
}

int stride(const TorusBox::Side& side) { return side.at[1] - side.at[0]; }

/// Sends of reduce-scatter and gather together, over those of one.
double passes(CollectiveOp op) { return op == CollectiveOp::all_gather || op == CollectiveOp::reduce_scatter ? 1 : 2; }

/// Bytes that one ring of side `d` carries for part `r`, one pass.
Bytes carried(const TorusBox& box, std::size_t r, std::size_t d, Bytes bytes) {
  const std::size_t sides = box.sides.size();
  double before = 1;
  for (std::size_t k = r; k % sides != d; ++k) before *= static_cast<double>(box.sides[k % sides].at.size());
  const double n = static_cast<double>(box.sides[d].at.size());
  return bytes / static_cast<double>(sides) / before * ((n - 1) / n) / box.sides[d].rings;
}

/// The longest that a part's phases take one after the other, or that a side's links are busy.
Bytes busiest(const TorusBox& box, Bytes bytes) {
  Bytes most;
  for (std::size_t i = 0; i < box.sides.size(); ++i) {
    Bytes part, side;
    for (std::size_t k = 0; k < box.sides.size(); ++k) {
      part += carried(box, i, k, bytes);
      side += carried(box, k, i, bytes);
    }
    most = max(most, max(part, side));
  }
  return most;
}

/// Every rank of the box.
void for_each_place(const TorusBox& box, const std::function<void(const Place&)>& visit) {
  Place at = box.origin;
  const auto go = [&](const auto& self, std::size_t side) -> void {
    if (side == box.sides.size()) return visit(at);
    for (const int c : box.sides[side].at) {
      at[box.sides[side].dimension] = c;
      self(self, side + 1);
    }
  };
  go(go, 0);
}

}  // namespace

std::optional<TorusBox> torus_box(const Cluster& cluster, std::span<const DeviceId> group) {
  const NetworkSpec& network = cluster.network();
  if (!network.collectives.torus || network.kind != "torus" || cluster.device_count() != cluster.node_count() ||
      group.size() < 2)
    return std::nullopt;
  TorusBox box;
  box.size = {size_along(network, "x"), size_along(network, "y"), size_along(network, "z")};
  std::array<std::set<int>, 3> used;
  for (const DeviceId d : group) {
    const Place at = place_of(cluster.node_of(d), box.size);
    for (std::size_t k = 0; k < at.size(); ++k) used[k].insert(at[k]);
  }
  std::size_t ranks = 1;
  for (std::size_t k = 0; k < used.size(); ++k) {
    ranks *= used[k].size();
    box.origin[k] = *used[k].begin();
    if (used[k].size() == 1) continue;
    TorusBox::Side side{k, {used[k].begin(), used[k].end()}, 1};
    if (!even(side.at)) return std::nullopt;
    if (side.at.size() > 2 && stride(side) * static_cast<int>(side.at.size()) == box.size[k]) side.rings = 2;
    Place next = box.origin;
    next[k] = side.at[1];
    box.hop = max(box.hop, cluster.route(device_at(box.origin, box.size), device_at(next, box.size)).latency);
    box.sides.push_back(std::move(side));
  }
  if (ranks != group.size()) return std::nullopt;
  const MachineSpec& machine = cluster.machine(0);
  const auto width = network.parameters.find("link_width");
  box.link = machine.nics * machine.nic.rate * (width == network.parameters.end() ? 1.0 : width->second);
  return box;
}

CollectiveChoice torus_choice(const TorusBox& box, CollectiveOp op, Bytes bytes) {
  CollectiveChoice out{"Torus", "Simple", 0, {}, {}, {}};
  double steps = 0;
  for (const TorusBox::Side& s : box.sides) steps += static_cast<double>(s.at.size() - 1);
  out.latency = box.hop * (passes(op) * steps);
  const Seconds streaming = busiest(box, bytes) * passes(op) / box.link;
  out.time = out.latency + streaming;
  if (streaming > Seconds{}) out.bandwidth = bytes / streaming;
  return out;
}

std::vector<FluidEdge> torus_edges(const TorusBox& box, CollectiveOp op, Bytes bytes) {
  std::vector<FluidEdge> out;
  for_each_place(box, [&](const Place& at) {
    for (std::size_t d = 0; d < box.sides.size(); ++d) {
      const TorusBox::Side& side = box.sides[d];
      Bytes load;
      for (std::size_t r = 0; r < box.sides.size(); ++r) load += carried(box, r, d, bytes);
      const auto i =
          static_cast<std::size_t>(std::find(side.at.begin(), side.at.end(), at[side.dimension]) - side.at.begin());
      const std::size_t n = side.at.size();
      for (int way = 0; way < side.rings; ++way) {
        Place next = at;
        next[side.dimension] = side.at[way == 0 ? (i + 1) % n : (i + n - 1) % n];
        out.push_back({device_at(at, box.size), device_at(next, box.size), load * passes(op)});
      }
    }
  });
  return traffic::merged(std::move(out));
}

namespace {

class TorusRings final : public CollectiveAlgorithm {
 public:
  bool runs(const Cluster& cluster, CollectiveOp, std::span<const DeviceId> group) const override {
    return torus_box(cluster, group).has_value();
  }
  bool by_default() const override { return true; }
  CollectiveChoice price(const Cluster& cluster, CollectiveOp op, Bytes bytes,
                         std::span<const DeviceId> group) const override {
    return torus_choice(*torus_box(cluster, group), op, bytes);
  }
  std::vector<FluidEdge> edges(const Cluster& cluster, CollectiveOp op, Bytes bytes,
                               std::span<const DeviceId> group) const override {
    return torus_edges(*torus_box(cluster, group), op, bytes);
  }
  std::vector<std::string> sources(const Cluster& cluster) const override {
    std::vector<std::string> out{
        "No NCCL: chips reduce along the rings of their torus, both ways round (Jain and Sabharwal 2010), at the rate "
        "of its links."};
    for (const Source& s : cluster.network().sources)
      out.push_back(fmt::format("{}, {}: {}.", s.key, name_of(s.evidence), s.text));
    return out;
  }
};

[[maybe_unused]] const bool registered_torus_rings =
    collective_algorithms().add({"Torus",
                                 "no NCCL: chips reduce along the rings of their torus, both ways round",
                                 {},
                                 std::make_shared<TorusRings>()});

}  // namespace

}  // namespace rehearse
