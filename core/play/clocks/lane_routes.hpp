#pragma once
// Which wires the lanes of a flow occupy, and when k lanes may be played as one.
//
// Lane j of a flow runs from device src + j * stride to dst + j * stride. Played separately, k lanes are k flows. They
// may be played as lane 0 alone, with weight w on each of its links, where the lanes look alike, position by position:
//   - all routes are equally long;
//   - at position p all links have the same rate, every link appears the same number of times w(p), and at no other
//   position.
// Then max-min fairness gives every lane the same rate x, link p carries w(p) flows of rate x, and one flow that
// consumes w(p) * x of it is the exact quotient of the k (an equitable partition). The condition covers the lanes
// themselves; that the lanes' private wires carry equal other traffic is the caller's business: it holds when all flows
// of a group use the same lanes.

#include <cstdint>
#include <deque>
#include <span>
#include <unordered_map>
#include <vector>

#include "core/cluster/cluster.hpp"
#include "core/play/clocks/play_clock.hpp"

namespace rehearse {

struct LaneRoute {
  DeviceId src = -1;  ///< Lane 0's sender; -1 of what stands for several flows.
  /// Links of all lanes, lane by lane; a link is repeated for each lane that crosses it.
  std::vector<LinkId> links;
  /// Lane 0's links, each repeated w(p) times, where the lanes may be played as one; else empty.
  std::vector<LinkId> folded;
  /// What every lane reaches, or the slowest of them, with no other flow around: min over links of rate / lanes on it.
  BytesPerSecond solo_rate;
  /// Bytes that a clock has sent over each lane so far.
  mutable double carried = 0;
};

/// Routes by (src, dst, lanes, stride), each worked out once. References stay valid for the life of the object.
class LaneRoutes {
 public:
  explicit LaneRoutes(const Cluster& cluster) : cluster_(cluster) {}
  /// Throws std::logic_error for a lane outside the cluster, between equal devices, or over no wire.
  const LaneRoute& find(DeviceId src, DeviceId dst, int lanes, int stride);
  /// Of a flow that stands for several, over links with weights. Its bytes are not in link_bytes().
  const LaneRoute& stand_in(std::span<const PlayClock::Crossing> over);
  /// `carried` of all routes, link by link, as PlayClock::link_bytes().
  [[nodiscard]] std::vector<double> link_bytes(const std::vector<bool>& from) const;

 private:
  struct Key {
    DeviceId src, dst;
    int lanes, stride;
    bool operator==(const Key&) const = default;
  };
  struct KeyHash {
    std::size_t operator()(const Key& key) const noexcept;
  };
  [[nodiscard]] LaneRoute build(const Key& key) const;
  [[nodiscard]] std::vector<LinkId> lane_links(DeviceId src, DeviceId dst) const;

  const Cluster& cluster_;
  std::unordered_map<Key, const LaneRoute*, KeyHash> cache_;
  std::deque<LaneRoute> routes_;  // In the order of finding; they don't move.
};

}  // namespace rehearse
