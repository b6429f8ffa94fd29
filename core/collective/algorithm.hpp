#pragma once
// Algorithms by name. NCCL's are chosen by its own table (nccl/nccl_tuning.hpp). Any other is one file: what it costs,
// and which bytes it moves; `collectives --algo`, `list algorithms`, every plan and the wires that are played follow.

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/base/registry.hpp"
#include "core/cluster/cluster.hpp"
#include "core/collective/collective.hpp"

namespace rehearse {

/// An algorithm that is not NCCL's.
class CollectiveAlgorithm {
 public:
  virtual ~CollectiveAlgorithm() = default;
  /// Whether it can run these calls. `op` is none of the point-to-point ones, and `group` has two ranks or more.
  [[nodiscard]] virtual bool runs(const Cluster& cluster, CollectiveOp op, std::span<const DeviceId> group) const = 0;
  /// Whether such calls run by it unless told otherwise: hardware that reduces by itself. Else it is used where it is
  /// asked for by name (CollectiveModel::Options::algorithm).
  [[nodiscard]] virtual bool by_default() const { return false; }
  /// Latency, bandwidth and time, with the wires to itself, of a call that it `runs`. The name is filled in elsewhere.
  [[nodiscard]] virtual CollectiveChoice price(const Cluster& cluster, CollectiveOp op, Bytes bytes,
                                               std::span<const DeviceId> group) const = 0;
  /// The same call as bytes for each pair of devices.
  [[nodiscard]] virtual std::vector<FluidEdge> edges(const Cluster& cluster, CollectiveOp op, Bytes bytes,
                                                     std::span<const DeviceId> group) const = 0;
  /// What its times rest on, a sentence each.
  [[nodiscard]] virtual std::vector<std::string> sources(const Cluster& cluster) const = 0;
};

/// All algorithms. NCCL's own have no object: its table prices them.
[[nodiscard]] Registry<std::shared_ptr<const CollectiveAlgorithm>>& collective_algorithms();
/// The one with this name, whatever its case; null where there is none, and for NCCL's.
[[nodiscard]] const CollectiveAlgorithm* find_algorithm(std::string_view name);

}  // namespace rehearse
