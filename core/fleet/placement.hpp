#pragma once
// Where a pod stands: the placement seam. One file each in placements/.

#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "core/base/registry.hpp"
#include "core/fleet/engine/machines.hpp"

namespace rehearse::fleet {

/// A kind of pod among the jobs of a fleet, with the share of all pods that are of it.
struct PodKind {
  Pod pod;
  std::vector<int> models{};  ///< Indices of Machines::models(); empty: any.
  double share = 0;           ///< 0..1
};

/// Chooses nodes by a score. An instance belongs to one run.
class Placement {
 public:
  virtual ~Placement() = default;
  /// Called once, with all kinds of pods that jobs ask for.
  virtual void begin(const Machines&, const std::vector<PodKind>&, std::uint64_t /*seed*/) {}
  /// Called before each job: all its pods, in the pool where they are tried.
  virtual void job(const Machines&, int /*pool*/, const std::vector<Pod>&) {}
  /// Of a node on which the pod fits: the highest is taken, of equals the first node of the file.
  virtual double score(const Machines&, int node, const Pod&) = 0;
  /// Whether `score` depends on the node's state and the pod alone, so that it may be kept until the node changes.
  [[nodiscard]] virtual bool keeps() const { return true; }
  /// GPU of the node for a pod that asks for a fraction, on which it fits.
  virtual int share(const Machines& m, int node, const Pod& pod) { return m.tightest_gpu(node, pod.milli); }
  /// True where a pod's GPUs may stand in any nodes: GPUs are counted, not placed.
  [[nodiscard]] virtual bool scatters() const { return false; }
};

using PlacementFactory = std::function<std::unique_ptr<Placement>()>;
/// Ways to choose nodes: "best_fit", "fgd", ...
[[nodiscard]] Registry<PlacementFactory>& placements();

}  // namespace rehearse::fleet
