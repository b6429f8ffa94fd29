#pragma once
// Which settings NCCL tries, in which order, until it has channels: graph/search.cc of NCCL 2.28.9, ncclTopoCompute.
//
//   first pass   start from the fastest per-channel speed of a table that the wires can carry. Without channels, allow
//   more, one
//                at a time: unlike channels, a simpler tree, worse paths inside the node, worse paths to NICs, channels
//                that cross NICs; then the next lower speed.
//   between      channels of 25 GB/s and more are doubled at half the speed (Hopper and later keep more than four below
//   50 GB/s) second pass  the same channels at higher speeds: rings both ways, trees and NVLS inside the node up to
//   twice the NIC's share

#include <map>
#include <set>
#include <span>
#include <tuple>

#include "core/collective/nccl/channel_search.hpp"

namespace rehearse::nccl {

class GraphPasses {
 public:
  GraphPasses(const System& system, const Paths& paths, bool leaves_node);

  /// Searches share what is left on the links, so that the order of calls is NCCL's: ring, tree with the ring's
  /// channels, NVLS.
  [[nodiscard]] Graph ring();
  [[nodiscard]] Graph tree(int channels);
  /// No channels where the system has no NVSwitch or the GPUs are older than Hopper.
  [[nodiscard]] Graph nvls();

 private:
  using Setting = std::tuple<Pattern, CrossNic, bool, int, float, float, PathClass, PathClass>;
  [[nodiscard]] Setting setting_of(const Graph& g) const;
  [[nodiscard]] Graph compute(Graph start);
  void set_limits(Graph& g);
  [[nodiscard]] int fastest(float limit) const;
  [[nodiscard]] float speed(int i) const { return speeds_[std::size_t(i)]; }
  bool attempt();
  [[nodiscard]] bool relax();
  [[nodiscard]] bool relax_paths();
  [[nodiscard]] bool raise();
  void double_channels();
  void begin_second_pass();
  [[nodiscard]] bool split_nvlink() const;

  const System& system_;
  const Paths& paths_;
  bool leaves_node_;
  int gpus_;
  bool cross_nics_ = false;  ///< There are several, and the pattern may use them.
  ChannelSearch search_;
  std::span<const float> speeds_;
  float max_rate_ = 0, total_rate_ = 0;  ///< GB/s: of the best path, and of one GPU's links together.
  PathClass best_inside_ = PathClass::local, worst_inside_ = PathClass::sys;
  PathClass best_outside_ = PathClass::pix, worst_outside_ = PathClass::sys;

  std::set<PathClass> classes_inside_, classes_outside_;  ///< Of any path.

  std::map<Setting, int> tried_;  ///< Steps left after it.
  Graph best_, wanted_;
  int speed_ = 0;         ///< Index into `speeds_`.
  int steps_left_ = 0;    ///< Of the last search.
  long long budget_ = 0;  ///< Steps for the whole first pass.
};

}  // namespace rehearse::nccl
