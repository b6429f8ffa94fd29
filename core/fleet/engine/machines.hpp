#pragma once
// The nodes' state: which thousandths of which GPUs are free. Whoever takes what is not free gets std::logic_error.

#include <cstdint>
#include <string>
#include <vector>

#include "core/fleet/fleet.hpp"

namespace rehearse::fleet {

/// An index of a container.
[[nodiscard]] inline std::size_t at(int i) { return static_cast<std::size_t>(i); }

/// A part of one GPU, or all of it.
struct Slice {
  int node;
  std::int16_t gpu;    ///< Within the node; -1: none, for a pod of CPU cores alone.
  std::int16_t milli;  ///< 1..1000.
};

/// What a job holds: its slices, and for each pod its node with the cores and memory taken there.
struct Holding {
  std::vector<Slice> slices;
  struct Host {
    int node;
    int slices;  ///< How many of `slices`, which stand in the order of hosts.
    std::int64_t cpu_milli, memory_mib;
  };
  std::vector<Host> hosts;
  [[nodiscard]] bool empty() const { return hosts.empty(); }
};

/// A part of a job that stands in one node.
struct Pod {
  int gpus = 0;
  int milli = kWholeGpu;
  std::int64_t cpu_milli = 0;
  std::int64_t memory_mib = 0;
  [[nodiscard]] std::int64_t gpu_milli() const { return static_cast<std::int64_t>(gpus) * milli; }
  auto operator<=>(const Pod&) const = default;
};

class Machines {
 public:
  explicit Machines(const std::vector<Node>& nodes);

  struct State {
    int pool = 0, rack = 0, model = 0;
    int gpus = 0;
    int first_gpu = 0;   ///< In gpu_free().
    int free_whole = 0;  ///< GPUs of which nothing is taken.
    std::int64_t free_milli = 0;
    std::int64_t cpu_milli = 0, memory_mib = 0;          ///< Free.
    std::int64_t cpu_capacity = 0, memory_capacity = 0;  ///< 0: not counted.
    bool up = true;
    std::uint32_t version = 1;  ///< Changes with every change of the node.
    std::vector<int> kinds{};   ///< Pods by how many GPUs they hold, 0 for a fraction (GpuClustering looks at it).
  };

  [[nodiscard]] int count() const { return static_cast<int>(nodes_.size()); }
  [[nodiscard]] const State& operator[](int node) const { return nth(nodes_, node); }
  /// Free thousandths of GPU `gpu` of the node.
  [[nodiscard]] int gpu_free(const State& node, int gpu) const { return nth(gpu_free_, node.first_gpu + gpu); }
  [[nodiscard]] const std::vector<std::string>& pools() const { return pools_; }
  [[nodiscard]] const std::vector<std::string>& models() const { return models_; }
  [[nodiscard]] int rack_count() const { return racks_; }
  /// Nodes of a pool, in the order of the file.
  [[nodiscard]] const std::vector<int>& in_pool(int pool) const { return nth(in_pool_, pool); }
  /// GPUs of the pool's largest node.
  [[nodiscard]] int node_size(int pool) const { return nth(node_size_, pool); }
  [[nodiscard]] std::int64_t free_milli(int pool) const { return nth(free_milli_, pool); }
  [[nodiscard]] std::int64_t capacity_milli() const { return capacity_milli_; }
  [[nodiscard]] std::int64_t down_milli() const { return down_milli_; }
  /// Most pods of `gpus` whole GPUs that could stand in the pool now, if nothing else limited them.
  [[nodiscard]] int pods_of_whole(int pool, int gpus) const;

  [[nodiscard]] bool fits(int node, const Pod& pod) const;
  /// Takes the pod; `share` is the GPU for a fraction, -1: the one with the least free that suffices. Appends to `to`.
  void take(int node, const Pod& pod, int share, Holding& to);
  /// Takes exactly what `holding` says, which must be free.
  void take_again(const Holding& holding);
  void give(const Holding& holding);
  [[nodiscard]] bool still_free(const Holding& holding) const;
  /// The GPU with the least free thousandths that suffice; -1: none.
  [[nodiscard]] int tightest_gpu(int node, int milli) const;

  /// A node goes away, or comes back. Nothing may be held there.
  void set_up(int node, bool up);

 private:
  void change(State& node, int gpu, int milli);
  void count_whole(const State& node, int by);

  std::vector<State> nodes_;
  std::vector<std::int16_t> gpu_free_;
  std::vector<std::string> pools_, models_;
  std::vector<std::vector<int>> in_pool_;
  std::vector<int> node_size_;
  std::vector<std::vector<int>> with_whole_;  ///< For each pool: nodes that are up, by free whole GPUs.
  std::vector<std::int64_t> free_milli_;
  std::int64_t capacity_milli_ = 0, down_milli_ = 0;
  int racks_ = 0;
};

}  // namespace rehearse::fleet
