#pragma once
// Places whole jobs by a Placement: all pods or none.

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "core/fleet/placement.hpp"

namespace rehearse::fleet {

/// Jobs that ask for the same have one shape.
struct Shape {
  Request request;
  std::vector<int> pools;               ///< Where it may stand, in order of preference.
  std::vector<std::vector<int>> kinds;  ///< For each of `pools`: index of the kind of each of its pods at most GPUs.
  std::int64_t milli = 0;               ///< GPU thousandths of the whole, at most.
  std::int64_t least_milli = 0;         ///< The same at least; below `milli` for an elastic one.
};

enum class Room { yes, fragments, busy };

class Placer {
 public:
  Placer(const Machines& machines, const std::vector<Job>& jobs, std::unique_ptr<Placement> placement,
         std::uint64_t seed);

  [[nodiscard]] const std::vector<Shape>& shapes() const { return shapes_; }
  [[nodiscard]] int shape_of(std::size_t job) const { return shape_of_[job]; }
  /// Places `gpus` GPUs of a job of `shape` (its request's, or fewer of an elastic one) in the first of `pools`, which
  /// are its own or some of them, that has room. Takes what it needs from `machines`, or nothing.
  [[nodiscard]] std::optional<Holding> place(Machines& machines, int shape, int gpus, std::span<const int> pools);
  /// Why the last place() failed.
  [[nodiscard]] Room room() const { return room_; }
  [[nodiscard]] int pool_of(const Holding& h, const Machines& m) const { return m[h.hosts.front().node].pool; }
  /// Whether a job of `shape` fits one of `pools` while the cluster is `empty` and all nodes are up.
  [[nodiscard]] bool could_ever(Machines& empty, int shape, std::span<const int> pools);

 private:
  std::vector<int> pods_in(const Machines& m, const Shape& shape, int pool, int gpus);
  int kind_of(const Pod& pod, const std::vector<int>& models);
  bool place_in(Machines& m, int pool, const std::vector<int>& pods, Holding& out);
  bool place_alike(Machines& m, int pool, int kind, std::ptrdiff_t count, Holding& out);
  void take(Machines& m, int node, int kind, Holding& out);
  struct Kept;
  /// Whether a pod of `kind` fits the node, and its score there.
  const Kept& seen(const Machines& m, int node, int kind);
  int best_node(const Machines& m, int pool, int kind);
  bool scatter(Machines& m, int pool, const Shape& shape, int gpus, Holding& out);
  [[nodiscard]] bool model_suits(const PodKind& kind, int model) const;

  std::unique_ptr<Placement> placement_;
  bool keeps_;
  std::vector<Shape> shapes_;
  std::vector<int> shape_of_;
  std::vector<PodKind> kinds_;
  struct Kept {
    double score;
    std::uint32_t version = 0;  ///< Of the node; 0: none yet.
    bool fits;
  };
  std::vector<std::vector<Kept>> kept_;  ///< By kind, then node.
  Room room_ = Room::yes;
};

}  // namespace rehearse::fleet
