#pragma once
// Depth-first search for channels that fit into the links of a system together, as NCCL's search does it: the same
// order of trying, the same limits on steps instead of time. Facts: graph/search.cc of NCCL 2.28.9.

#include <cstdint>
#include <map>
#include <vector>

#include "core/base/index.hpp"
#include "core/collective/nccl/nccl_graph.hpp"
#include "core/collective/nccl/nccl_paths.hpp"

namespace rehearse::nccl {

/// Keeps the rate that is left on every link. A search gives back what it took, up to rounding.
class ChannelSearch {
 public:
  /// Steps a search has left: 0 when they ran out, `kSettled` when it found as many channels as it may.
  static constexpr int kSettled = -1;

  ChannelSearch(const System& system, const Paths& paths, bool leaves_node);

  /// Looks for channels at `wanted`'s speeds, classes and pattern, at most `steps` steps. Replaces `best` by what is
  /// better. Returns the steps left.
  int run(Graph& wanted, Graph& best, int steps);

 private:
  enum class Order { sorted, as_numbered, as_before };
  enum class Sort { inside, toward_net, away_from_net };
  /// One search's fixed part.
  struct Walk {
    Graph& graph;
    Graph& best;
    int to_net;    ///< Step after which the channel leaves the node; -1: never.
    int to_first;  ///< Step after which a ring closes inside the node; -1: never.
  };
  struct Score {
    int rate, hops;
  };
  struct Hop {
    int link, reverse;
    float eighth, whole;
    bool pcie;
  };
  struct Trail {
    std::vector<Hop> hops;
    PathClass kind = PathClass::disconnected;
    bool through_intel = false;  ///< From a GPU over an Intel root complex, which cuts PCIe packets short.
  };

  [[nodiscard]] int gpus() const { return gpus_; }
  [[nodiscard]] Trail trail(int from, int to) const;
  [[nodiscard]] const Trail& trail_between(int from, int to) const {
    return trails_[std::size_t(from) * ends_ + std::size_t(to)];
  }
  [[nodiscard]] int end_of_net(int n) const { return gpus_ + n; }
  [[nodiscard]] int end_of_nvs() const { return gpus_ + int(net_rate_.size()); }
  [[nodiscard]] int& order_at(Graph& g, int channel, int step) const { return nth(g.order, channel * gpus_ + step); }
  [[nodiscard]] const std::vector<int>& nets_to_try(PathClass inter_kind, int gpu);
  [[nodiscard]] std::vector<int> preferred_nets(int gpu) const;
  [[nodiscard]] std::pair<int, int> slot_of(int g) const;
  [[nodiscard]] float slot_rate(int g) const;

  bool take(const Trail& t, std::size_t hops, float rate);
  std::size_t follow(const Trail& t, std::size_t hops, float rate);
  bool move(Graph& g, int from, int to, bool inside, float share);

  void search(Walk& w, int& steps);
  void from_net(Walk& w, int& steps);
  void from_one_net(Walk& w, int n, int& steps);
  void head_on_net(Walk& w, int n, bool& found, int& steps);
  void try_gpu(Walk& w, int step, int to_net, int to_first, Order order, int& steps, int from, int g);
  void at_gpu(Walk& w, int g, int step, int to_net, int to_first, Order order, int& steps);
  void finish_channel(Walk& w, int& steps);
  void leave_by_net(Walk& w, int g, int step, int to_first, Order order, int& steps);
  [[nodiscard]] bool may_leave_by(const Graph& g, int net, int step) const;
  void next_gpus(const Graph& g, int gpu, Sort sort, std::vector<int>& next);
  void neighbours(const Graph& g, int gpu, std::vector<int>& next) const;
  void nvls_head(Walk& w, int g, int& steps);

  const System& system_;
  const Paths& paths_;
  bool leaves_node_;
  int gpus_;
  std::size_t ends_;
  std::vector<Trail> trails_;
  std::vector<float> left_;                           ///< GB/s, per link.
  std::vector<float> net_rate_;                       ///< GB/s left, per port.
  std::vector<int> local_gpu_;                        ///< Per port.
  std::vector<std::vector<int>> local_gpus_;          ///< Per port.
  std::vector<std::uint64_t> used_;                   ///< Per GPU: channels it is on.
  std::vector<std::vector<int>> preferred_;           ///< Per GPU, then for all.
  std::vector<std::pair<int, int>> slots_;            ///< Per GPU.
  std::vector<Score> score_inside_, score_from_net_;  ///< [GPU][GPU], [port][GPU]: whole GB/s and hops.
  std::vector<int> slot_now_;           ///< Per GPU: whole GB/s left on its slot, while candidates are sorted.
  std::vector<std::vector<int>> next_;  ///< Candidates per channel and step.
  std::vector<const std::vector<int>*> nets_now_;  ///< Per GPU, then for all: of the search that runs.
  std::map<std::pair<PathClass, int>, std::vector<int>> nets_to_try_;
};

}  // namespace rehearse::nccl
