#include "core/collective/nccl/graph_passes.hpp"
#include "core/base/index.hpp"

#include <algorithm>
#include <tuple>
#include <utility>

namespace rehearse::nccl {
namespace {

constexpr float kIntra[]{40, 30, 20, 18, 15, 12, 10, 9, 7, 6, 5, 4, 3};
constexpr float kIntra90[]{60, 50, 40, 30, 24, 20, 15, 12, 11, 6, 3};
constexpr float kIntra100[]{90, 80, 70, 60, 50, 40, 30, 24, 20, 19, 18};
constexpr float kInter[]{48, 30, 28, 24, 20, 18, 15, 12, 10, 9, 7, 6, 5, 4, 3, 2.4F, 1.2F, .24F, .12F};
constexpr float kInter90[]{48, 45, 42, 40, 30, 24, 22, 20, 17.5F, 15, 12, 6, 3, 2.4F, 1.2F, .24F, .12F};
constexpr float kInter100[]{96, 48, 45.1F, 42, 40, 30, 24, 22, 20, 17.5F, 15, 12, 6, 3, 2.4F, 1.2F, .24F, .12F};

constexpr long long kBudget = 1 << 19;
constexpr int kSteps = 1 << 14;
constexpr int kStepsOfEqualChannels = 1 << 8;
constexpr int kGraphPassesMostChannels = 32;  // rings, and GPUs that head NVLS
constexpr double kStopBelow = 0.49;           // of the speed found: slower ones are not tried
constexpr float kDoubleFrom = 25, kKeepBelow = 50;
constexpr int kKeepChannels = 4;
constexpr float kFallbackRate = 0.1F;

std::span<const float> speeds_of(int cc, bool leaves_node) {
  if (leaves_node)
    return cc >= 100 ? std::span<const float>(kInter100) : cc >= 90 ? std::span<const float>(kInter90) : kInter;
  return cc >= 100 ? std::span<const float>(kIntra100) : cc >= 90 ? std::span<const float>(kIntra90) : kIntra;
}

PathClass next_worse(PathClass c) { return static_cast<PathClass>(static_cast<int>(c) + 1); }

}  // namespace

GraphPasses::GraphPasses(const System& system, const Paths& paths, bool leaves_node)
    : system_(system),
      paths_(paths),
      leaves_node_(leaves_node),
      gpus_(system.count(NodeKind::gpu)),
      search_(system, paths, leaves_node),
      speeds_(speeds_of(system.compute_capability, leaves_node)) {
  const NodeKind ends = leaves_node ? NodeKind::net : NodeKind::gpu;
  if (!leaves_node && gpus_ == 1) max_rate_ = total_rate_ = kLocalRate;
  PathClass nearest_gpu = PathClass::sys, farthest_gpu = PathClass::local, nearest_net = PathClass::sys,
            farthest_net = PathClass::local;
  for (const int g : system.all(NodeKind::gpu)) {
    float nvlink = 0, pcie = 0;
    for (const int l : system.node(g).links) {
      if (system.link(l).kind == PathClass::nvlink) nvlink += system.link(l).rate;
      if (system.link(l).kind == PathClass::pix) pcie = system.link(l).rate;
    }
    total_rate_ = std::max({total_rate_, nvlink, pcie});
    for (const int e : system.all(ends))
      if (!paths.between(g, e).links.empty()) max_rate_ = std::max(max_rate_, paths.between(g, e).rate);
    for (const int e : system.all(NodeKind::gpu)) {
      if (e == g) continue;
      classes_inside_.insert(paths.between(g, e).kind);
      nearest_gpu = std::min(nearest_gpu, paths.between(g, e).kind);
      farthest_gpu = std::max(farthest_gpu, paths.between(g, e).kind);
    }
    for (const int e : system.all(NodeKind::net)) {
      classes_outside_.insert(paths.between(g, e).kind);
      classes_outside_.insert(paths.between(e, g).kind);
      nearest_net = std::min(nearest_net, paths.between(g, e).kind);
      farthest_net = std::max(farthest_net, paths.between(g, e).kind);
    }
  }
  if (gpus_ > 1) std::tie(best_inside_, worst_inside_) = std::pair(nearest_gpu, farthest_gpu);
  if (!leaves_node) return;
  best_outside_ = nearest_net;
  worst_inside_ = worst_outside_ = farthest_net;
}

Graph GraphPasses::ring() {
  Graph g;
  g.pattern = Pattern::ring;
  g.most_channels = kGraphPassesMostChannels;
  return compute(std::move(g));
}

Graph GraphPasses::tree(int channels) {
  Graph g;
  g.pattern = Pattern::balanced_tree;
  g.least_channels = g.most_channels = channels;
  return compute(std::move(g));
}

Graph GraphPasses::nvls() {
  Graph g;
  g.pattern = Pattern::nvls;
  g.most_channels = std::min(kGraphPassesMostChannels, gpus_);
  if (system_.count(NodeKind::nvs) == 0 || system_.compute_capability < 90) return g;
  return compute(std::move(g));
}

/// Two groups of GPUs, each joined by NVLink, with something slower in between.
bool GraphPasses::split_nvlink() const {
  std::vector<int> domain(std::size_t(gpus_), 0), size(std::size_t(gpus_), 0);
  for (int g = 0; g < gpus_; ++g) domain[std::size_t(g)] = g;
  for (int g = 0; g < gpus_; ++g)
    for (int p = g + 1; p < gpus_; ++p)
      if (paths_.gpu_to_gpu(g, p).kind == PathClass::nvlink) domain[std::size_t(p)] = domain[std::size_t(g)];
  for (const int d : domain) ++size[std::size_t(d)];
  return std::count_if(size.begin(), size.end(), [](int n) { return n > 1; }) == 2;
}

void GraphPasses::set_limits(Graph& g) {
  g.intra_kind = best_inside_;
  g.inter_kind = best_outside_;
  g.same_channels = g.pattern != Pattern::nvls;
  if (gpus_ == 1 && g.pattern != Pattern::ring) g.pattern = Pattern::chain_tree;
  if (g.pattern == Pattern::nvls && !leaves_node_) g.least_channels = g.most_channels;
  // A tree over the slow link in between needs two channels, and takes as many as the ring.
  if (g.pattern == Pattern::ring && split_nvlink()) g.least_channels = 2;
}

int GraphPasses::fastest(float limit) const {
  int i = 0;
  while (speed(i) > limit && i + 1 < int(speeds_.size())) ++i;
  return i;
}

Graph GraphPasses::compute(Graph start) {
  cross_nics_ = system_.count(NodeKind::net) > 1 && start.pattern != Pattern::nvls;
  set_limits(start);
  best_ = start;
  wanted_ = std::move(start);
  float total = total_rate_;
  if (gpus_ > 1 && wanted_.pattern != Pattern::ring) total = static_cast<float>(total * (gpus_ * 1.0 / (gpus_ - 1)));
  for (speed_ = 0; speed_ + 1 < int(speeds_.size()); ++speed_)
    if (speed(speed_) <= max_rate_ && speed(speed_) * float(wanted_.least_channels) <= total) break;
  wanted_.intra = wanted_.inter = speed(speed_);
  budget_ = kBudget;
  tried_.clear();

  while (!attempt() && relax()) {}
  begin_second_pass();
  tried_.clear();
  while (raise()) attempt();

  if (best_.channels == 0 && best_.pattern != Pattern::nvls) {
    best_.channels = 1;
    best_.intra = best_.inter = kFallbackRate;
    best_.intra_kind = best_.inter_kind = PathClass::sys;
    best_.order.resize(std::size_t(gpus_));
    for (int g = 0; g < gpus_; ++g) best_.order[std::size_t(g)] = g;
  }
  return std::move(best_);
}

/// Settings that differ only in classes that no path has lead through the same steps, and find nothing new the second
/// time.
GraphPasses::Setting GraphPasses::setting_of(const Graph& g) const {
  const auto worst_in_use = [](const std::set<PathClass>& classes, PathClass allowed) {
    const auto above = classes.upper_bound(allowed);
    return above == classes.begin() ? PathClass::local : *std::prev(above);
  };
  return {g.pattern,
          g.cross_nic,
          g.same_channels,
          g.least_channels,
          g.intra,
          g.inter,
          worst_in_use(classes_inside_, g.intra_kind),
          worst_in_use(classes_outside_, g.inter_kind)};
}

/// True where nothing better can come.
bool GraphPasses::attempt() {
  const int steps = wanted_.same_channels ? kStepsOfEqualChannels : kSteps;
  budget_ -= steps;
  const Setting setting = setting_of(wanted_);
  const auto before = tried_.find(setting);
  steps_left_ = before != tried_.end() ? before->second : search_.run(wanted_, best_, steps);
  if (before == tried_.end()) tried_.emplace(setting, steps_left_);
  return steps_left_ == ChannelSearch::kSettled || float(best_.channels) * best_.inter >= total_rate_;
}

/// The next setting of the first pass; false when there is none.
bool GraphPasses::relax() {
  if (wanted_.same_channels && !(system_.amd && wanted_.intra_kind == PathClass::sys)) {
    wanted_.same_channels = false;
    return true;
  }
  wanted_.same_channels = wanted_.pattern != Pattern::nvls;
  budget_ = steps_left_ == ChannelSearch::kSettled ? kBudget : budget_ + steps_left_;
  if (budget_ < 0 && best_.channels > 0) return false;
  if (system_.compute_capability >= 90 && wanted_.pattern == Pattern::balanced_tree) {
    wanted_.pattern = Pattern::chain_tree;
    return true;
  }
  wanted_.pattern = best_.pattern;
  if (relax_paths()) return true;
  const bool may_cross = best_.pattern == Pattern::ring || best_.pattern == Pattern::balanced_tree;
  if (cross_nics_ && wanted_.cross_nic == CrossNic::no && may_cross) {
    wanted_.cross_nic = CrossNic::in_pairs;
    return true;
  }
  wanted_.cross_nic = CrossNic::no;
  if (speed_ + 1 < int(speeds_.size()) && (best_.channels == 0 || speed(speed_ + 1) / best_.inter > kStopBelow)) {
    wanted_.intra = wanted_.inter = speed(++speed_);
    return true;
  }
  return false;
}

bool GraphPasses::relax_paths() {
  const bool found = best_.channels > 0;
  const PathClass worst = leaves_node_ ? wanted_.inter_kind : worst_inside_;
  if (wanted_.intra_kind < worst && (!found || wanted_.intra_kind < best_.intra_kind)) {
    wanted_.intra_kind = next_worse(wanted_.intra_kind);
    if (wanted_.intra_kind < PathClass::disconnected) return true;
  }
  wanted_.intra_kind = best_inside_;
  if (leaves_node_ && wanted_.inter_kind < worst_outside_ &&
      (!found || wanted_.inter_kind < best_.inter_kind || wanted_.inter_kind < PathClass::pxn)) {
    wanted_.inter_kind = next_worse(wanted_.inter_kind);
    if (wanted_.inter_kind < PathClass::disconnected) return true;
  }
  wanted_.inter_kind = best_outside_;
  return false;
}

void GraphPasses::double_channels() {
  Graph& g = best_;
  if (g.channels == 0 || g.pattern == Pattern::nvls || g.intra < kDoubleFrom) return;
  if (system_.compute_capability > 80 && g.intra < kKeepBelow && g.channels > kKeepChannels) return;
  const int doubled = std::min(2 * g.channels, g.most_channels);
  const int shared_by = (doubled + g.channels - 1) / g.channels;
  const auto share = float(shared_by);
  for (int c = g.channels; c < doubled; ++c) {
    for (int i = 0; i < gpus_; ++i) nth(g.order, c * gpus_ + i) = nth(g.order, (c - g.channels) * gpus_ + i);
    g.nets[std::size_t(c)] = g.nets[std::size_t(c - g.channels)];
  }
  g.intra /= share;
  g.inter /= share;
  g.channels = doubled;
}

void GraphPasses::begin_second_pass() {
  double_channels();
  wanted_ = best_;
  speed_ = fastest(best_.inter);
  wanted_.intra = wanted_.inter = speed(speed_);
  wanted_.least_channels = best_.channels;
  steps_left_ = ChannelSearch::kSettled;
}

/// The next setting of the second pass; false when there is none.
bool GraphPasses::raise() {
  if (steps_left_ == 0 || speed_ == 0) return false;
  if (best_.pattern == Pattern::ring) {
    wanted_.intra = wanted_.inter = speed(--speed_);
    return true;
  }
  if (best_.pattern == Pattern::nvls && wanted_.inter == best_.inter && wanted_.inter < wanted_.intra * 2) {
    wanted_.least_channels = wanted_.most_channels = best_.channels;
    wanted_.inter = speed(--speed_);
    return true;
  }
  if (wanted_.intra != best_.intra || wanted_.intra >= wanted_.inter * 2) return false;
  wanted_.intra = speed(--speed_);
  return true;
}

}  // namespace rehearse::nccl
