// The order in which the search tries GPUs and NICs.

#include <algorithm>

#include "core/base/index.hpp"
#include "core/collective/nccl/channel_search.hpp"

namespace rehearse::nccl {
namespace {

constexpr int kReferenceSteps = 1 << 10;  // for the numbered order, which is always tried first
constexpr int kMostPorts = 64;

void append_new(std::vector<int>& to, int n) {
  if (std::find(to.begin(), to.end(), n) == to.end()) to.push_back(n);
}

}  // namespace

/// A GPU's PCIe link up, and the first link that leads back.
std::pair<int, int> ChannelSearch::slot_of(int g) const {
  const int v = system_.at(NodeKind::gpu, g);
  for (const int l : system_.node(v).links) {
    if (system_.link(l).kind != PathClass::pix) continue;
    for (const int r : system_.node(system_.link(l).to).links)
      if (system_.link(r).to == v) return {l, r};
  }
  return {-1, -1};
}

float ChannelSearch::slot_rate(int g) const {
  const auto& [out, in] = slots_[std::size_t(g)];
  return out < 0 ? -1 : std::min(left_[std::size_t(out)], left_[std::size_t(in)]);
}

void ChannelSearch::neighbours(const Graph& g, int gpu, std::vector<int>& next) const {
  const std::uint64_t flag = std::uint64_t{1} << g.channels;
  const int after = (gpu + 1) % gpus_, before = (gpu - 1 + gpus_) % gpus_;
  const auto free = [&](int i) {
    return i != gpu && !(used_[std::size_t(i)] & flag) && !trail_between(gpu, i).hops.empty();
  };
  const auto add = [&](int i) {
    if (free(i)) append_new(next, i);
  };
  if (g.pattern == Pattern::ring) add(before);
  add(after);
  if (g.pattern == Pattern::balanced_tree) add(before);
}

/// NVSwitches like few peers: there only the two neighbours are tried. Elsewhere by rate and hops to the NIC the
/// channel came in by (where it leaves next), then by rate and hops from here, then round from here.
void ChannelSearch::next_gpus(const Graph& g, int gpu, Sort sort, std::vector<int>& next) {
  if (system_.count(NodeKind::nvs) > 0) return neighbours(g, gpu, next);
  const std::uint64_t flag = std::uint64_t{1} << g.channels;
  const Score* inside = &nth(score_inside_, gpu * gpus_);
  const Score* from_net = sort == Sort::inside ? nullptr : &nth(score_from_net_, nth(g.nets, g.channels)[0] * gpus_);
  for (int i = 1; i < gpus_; ++i) {
    const int other = gpu + i < gpus_ ? gpu + i : gpu + i - gpus_;
    if (inside[other].hops == 0 || (used_[std::size_t(other)] & flag)) continue;
    if (from_net != nullptr) slot_now_[std::size_t(other)] = int(slot_rate(other));
    next.push_back(other);
  }
  const auto before = [&](int a, int b) {
    if (from_net != nullptr) {
      if (from_net[a].rate != from_net[b].rate) return from_net[a].rate > from_net[b].rate;
      const int slot_a = slot_now_[std::size_t(a)], slot_b = slot_now_[std::size_t(b)];
      if (slot_a != slot_b) return slot_a > slot_b;
      if (from_net[a].hops != from_net[b].hops) return from_net[a].hops < from_net[b].hops;
    }
    if (inside[a].rate != inside[b].rate) return inside[a].rate > inside[b].rate;
    return inside[a].hops < inside[b].hops;
  };
  for (std::size_t i = 1; i < next.size(); ++i)  // insertion keeps equals in order; lists are short
    for (std::size_t j = i; j > 0 && before(next[j], next[j - 1]); --j) std::swap(next[j], next[j - 1]);
  if (sort != Sort::away_from_net || next.empty()) return;
  const Score& first = inside[next.front()];
  const bool alike = std::all_of(next.begin(), next.end(),
                                 [&](int i) { return inside[i].rate == first.rate && inside[i].hops == first.hops; });
  if (alike) std::reverse(next.begin(), next.end());
}

/// Of one GPU, or with -1 of all: by channel first, or by GPU first where hosts are joined by NVLink.
std::vector<int> ChannelSearch::preferred_nets(int gpu) const {
  std::vector<int> out;
  std::vector<int> open, first;
  std::vector<LocalNets> local;
  for (int g = 0; g < gpus_; ++g) {
    if (gpu < 0 || gpu == g) {
      local.push_back(paths_.local_nets(g));
      if (local.back().nets.empty()) return {};
      open.push_back(g);
      first.push_back(paths_.net_for_channel(local.back(), g, 0));
    }
  }
  const auto port = [&](std::size_t i, int c) { return paths_.net_for_channel(local[i], open[i], c); };
  if (system_.hosts > 1) {
    std::vector<bool> done(open.size(), false);
    for (int c = 0; c < kMostPorts; ++c) {
      for (std::size_t i = 0; i < open.size(); ++i) {
        if (done[i]) continue;
        if (c > 0 && port(i, c) == first[i])
          done[i] = true;
        else
          append_new(out, port(i, c));
      }
    }
    return out;
  }
  for (std::size_t i = 0; i < open.size(); ++i)
    for (int c = 0; c < kMostPorts && (c == 0 || port(i, c) != first[i]); ++c) append_new(out, port(i, c));
  return out;
}

/// `gpu` == gpus(): for all of them.
const std::vector<int>& ChannelSearch::nets_to_try(PathClass inter_kind, int gpu) {
  const auto [at, fresh] = nets_to_try_.try_emplace({inter_kind, gpu});
  auto& out = at->second;
  if (!fresh) return out;
  out = preferred_[std::size_t(gpu)];
  for (int k = 0; k <= int(inter_kind); ++k)
    for (int g = 0; g < gpus_; ++g) {
      if (gpu < gpus_ && gpu != g) continue;
      for (int n = 0; n < std::min(int(net_rate_.size()), kMostPorts); ++n)
        if (int(paths_.gpu_to_net(g, n).kind) == k) append_new(out, n);
    }
  return out;
}

void ChannelSearch::from_net(Walk& w, int& steps) {
  Graph& g = w.graph;
  const int rate = int(g.inter);
  const int channel = g.channels;
  const auto& nets = *nets_now_[std::size_t(gpus_)];
  bool head_found = false;
  for (std::size_t i = 0; i < nets.size(); ++i) {
    if (head_found) break;
    const int n = nets[(std::size_t(channel) + i) % nets.size()];
    float& left = net_rate_[std::size_t(n)];
    if (left < float(rate)) continue;
    if (g.pattern == Pattern::ring && g.cross_nic == CrossNic::in_pairs && channel % 2 == 1 &&
        n != g.nets[std::size_t(channel - 1)][1])
      continue;
    g.nets[std::size_t(channel)][0] = n;
    left -= float(rate);
    if (g.pattern == Pattern::nvls) {
      if (channel < int(nets.size())) head_on_net(w, n, head_found, steps);
    } else {
      from_one_net(w, n, steps);
      if (local_gpus_[std::size_t(n)].empty()) continue;
    }
    left += float(rate);
  }
}

void ChannelSearch::head_on_net(Walk& w, int n, bool& found, int& steps) {
  const int gpu = local_gpu_[std::size_t(n)];
  if (gpu < 0) return;
  for (int c = 0; c < w.graph.channels; ++c)
    if (order_at(w.graph, c, 0) == gpu) return;
  try_gpu(w, 0, w.to_net, w.to_first, Order::sorted, steps, end_of_net(n), gpu);
  found = true;
}

void ChannelSearch::from_one_net(Walk& w, int n, int& steps) {
  const int channel = w.graph.channels;
  const auto start = [&](Order order, int& budget, int g) {
    try_gpu(w, 0, w.to_net, w.to_first, order, budget, end_of_net(n), g);
  };
  if (channel > 0 && w.graph.same_channels) return start(Order::as_before, steps, order_at(w.graph, channel - 1, 0));
  if (channel == 0 && system_.count(NodeKind::nvs) == 0) {
    int budget = kReferenceSteps;
    start(Order::as_numbered, budget, 0);
    if (budget == kSettled) steps = kSettled;
  }
  const int nearest = local_gpu_[std::size_t(n)];
  if (nearest >= 0) start(Order::sorted, steps, nearest);
  for (const int g : local_gpus_[std::size_t(n)])
    if (g != nearest) start(Order::sorted, steps, g);
}

bool ChannelSearch::may_leave_by(const Graph& g, int net, int step) const {
  const auto& now = g.nets[std::size_t(g.channels)];
  if (g.pattern == Pattern::chain_tree && net != now[0]) return false;
  if (g.pattern == Pattern::ring && g.cross_nic == CrossNic::in_pairs) {
    if (g.channels % 2 == 1 && net != g.nets[std::size_t(g.channels - 1)][0]) return false;
  } else if (g.cross_nic == CrossNic::no && net != now[0]) {
    return false;
  }
  return g.pattern != Pattern::balanced_tree || step == 0 || net == now[1];
}

/// A balanced tree spreads its traffic over the first two GPUs: half a channel each.
void ChannelSearch::leave_by_net(Walk& w, int g, int step, int to_first, Order order, int& steps) {
  Graph& graph = w.graph;
  const bool balanced = graph.pattern == Pattern::balanced_tree;
  const float whole = graph.inter;
  const auto over = [&](int n, float share) {
    if (balanced) graph.inter /= 2;
    const bool moved = move(graph, g, end_of_net(n), false, share);
    graph.inter = whole;
    return moved;
  };
  for (const int n : *nets_now_[std::size_t(g)]) {
    if (!may_leave_by(graph, n, step) || !over(n, 1)) continue;
    graph.nets[std::size_t(graph.channels)][1] = n;
    at_gpu(w, g, step, balanced && step == 0 ? 1 : -1, to_first, order, steps);
    over(n, -1);
  }
}

}  // namespace rehearse::nccl
