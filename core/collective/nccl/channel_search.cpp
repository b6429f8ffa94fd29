#include "core/collective/nccl/channel_search.hpp"

#include <algorithm>

#include "core/base/stop.hpp"

namespace rehearse::nccl {
namespace {

constexpr int kStepsUntilAsked = 1024;  // Whether the work is to end: under a millisecond of search.

/// To three decimals, halves away from zero, as roundf; inline, because a search does it millions of times.
void subtract(float& from, float amount) {
  const float thousandths = (from - amount) * 1000;
  int whole = static_cast<int>(thousandths);
  const float rest = thousandths - static_cast<float>(whole);
  if (rest >= 0.5F) ++whole;
  if (rest <= -0.5F) --whole;
  // as exact as a division: no multiple of 0.001 lies near a tie of two floats
  from = static_cast<float>(whole * 0.001);
}

bool better(const Graph& a, const Graph& best, int gpus) {
  if (a.channels < a.least_channels) return false;
  const auto total = [](int n, float rate) { return float(n) * rate; };
  if (a.pattern == Pattern::nvls)
    return (a.channels > best.channels && a.channels <= gpus) ||
           total(a.channels, a.inter) > total(best.channels, best.inter);
  if (total(a.channels, a.intra) != total(best.channels, best.intra))
    return total(a.channels, a.intra) > total(best.channels, best.intra);
  return a.pattern == best.pattern && a.cross_nic == best.cross_nic && a.hops < best.hops;
}

}  // namespace

ChannelSearch::ChannelSearch(const System& system, const Paths& paths, bool leaves_node)
    : system_(system),
      paths_(paths),
      leaves_node_(leaves_node),
      gpus_(system.count(NodeKind::gpu)),
      ends_(std::size_t(gpus_ + system.count(NodeKind::net) + system.count(NodeKind::nvs))),
      used_(std::size_t(gpus_), 0) {
  for (const auto& l : system.links) left_.push_back(l.rate);
  for (int n = 0; n < system.count(NodeKind::net); ++n) {
    net_rate_.push_back(system.node(system.at(NodeKind::net, n)).rate);
    local_gpu_.push_back(paths.local_gpu(n));
    local_gpus_.push_back(paths.local_gpus(n));
  }
  std::vector<int> ends = system.all(NodeKind::gpu);
  for (const auto k : {NodeKind::net, NodeKind::nvs})
    ends.insert(ends.end(), system.all(k).begin(), system.all(k).end());
  for (const int a : ends)
    for (const int b : ends) trails_.push_back(trail(a, b));
  for (int g = 0; g <= gpus_; ++g) preferred_.push_back(preferred_nets(g < gpus_ ? g : -1));
  slot_now_.resize(std::size_t(gpus_));
  for (int g = 0; g < gpus_; ++g) slots_.push_back(slot_of(g));
  for (int a = 0; a < gpus_; ++a)
    for (int b = 0; b < gpus_; ++b) {
      const Path& p = paths.gpu_to_gpu(a, b);
      score_inside_.push_back({int(p.rate), int(p.links.size())});
    }
  for (int n = 0; n < int(net_rate_.size()); ++n)
    for (int g = 0; g < gpus_; ++g) {
      const Path& p = paths.net_to_gpu(n, g);
      score_from_net_.push_back({int(p.rate), int(p.links.size())});
    }
}

ChannelSearch::Trail ChannelSearch::trail(int from, int to) const {
  const Path& path = paths_.between(from, to);
  Trail out;
  out.kind = path.kind;
  const bool from_gpu = system_.node(from).kind == NodeKind::gpu;
  for (const int l : path.links) {
    const SystemLink& link = system_.link(l);
    const NodeKind end = system_.node(link.to).kind;
    if (end == NodeKind::cpu && path.kind == PathClass::phb && from_gpu && system_.intel) out.through_intel = true;
    // A GPU before Ampere answers every write that comes from elsewhere; POWER's NVLink carries one direction at a
    // time.
    const bool answers = end == NodeKind::gpu && system_.compute_capability < 80 && !from_gpu;
    const bool half_duplex = end == NodeKind::cpu && system_.power && link.kind == PathClass::nvlink;
    out.hops.push_back(
        {l, link.reverse, answers ? 1.0F : 0.0F, half_duplex ? 1.0F : 0.0F, link.kind == PathClass::pix});
  }
  return out;
}

/// Takes `rate` from the first `hops` links; stops before the first that has not so much left. Negative rates give
/// back.
std::size_t ChannelSearch::follow(const Trail& t, std::size_t hops, float rate) {
  const float pcie = t.through_intel ? rate * 6 / 5 : rate;
  for (std::size_t i = 0; i < hops; ++i) {
    const Hop& hop = t.hops[i];
    const float forward = hop.pcie ? pcie : rate;
    float back = 0;
    if (hop.eighth != 0) back += forward / 8;
    if (hop.whole != 0) back += forward;
    float& ahead = left_[std::size_t(hop.link)];
    float& behind = left_[std::size_t(hop.reverse)];
    if (ahead < forward || (back != 0 && behind < back)) return i;
    subtract(ahead, forward);
    if (back != 0) subtract(behind, back);
  }
  return hops;
}

bool ChannelSearch::take(const Trail& t, std::size_t hops, float rate) {
  const std::size_t done = follow(t, hops, rate);
  if (done == hops) return true;
  follow(t, done, -rate);
  return false;
}

/// Takes `share` channels' rate between two ends, or gives it back where `share` is negative.
bool ChannelSearch::move(Graph& g, int from, int to, bool inside, float share) {
  if (from < 0) return true;
  const Trail& t = trail_between(from, to);
  const PathClass allowed = inside ? g.intra_kind : g.inter_kind;
  if (t.kind >= PathClass::disconnected) return false;
  if (share == 1 && (t.kind > allowed || (is_tree(g.pattern) && trail_between(to, from).kind > allowed))) return false;
  const float rate = (inside ? g.intra : g.inter) * share;
  if (!take(t, t.hops.size(), rate)) return false;
  g.hops = static_cast<int>(float(g.hops) + share * float(t.hops.size()));
  return true;
}

int ChannelSearch::run(Graph& wanted, Graph& best, int steps) {
  wanted.channels = 0;
  wanted.order.resize(std::size_t(wanted.most_channels + 1L) * std::size_t(gpus_), 0);
  wanted.nets.resize(std::size_t(wanted.most_channels + 1L), {-1, -1});
  Walk w{wanted, best, -1, -1};
  if (leaves_node_) w.to_net = wanted.pattern == Pattern::ring ? gpus_ - 1 : 0;
  if (!leaves_node_ && wanted.pattern == Pattern::ring) w.to_first = gpus_ - 1;
  next_.resize(std::max(next_.size(), wanted.order.size()));
  nets_now_.clear();
  for (int g = 0; g <= gpus_; ++g) nets_now_.push_back(leaves_node_ ? &nets_to_try(wanted.inter_kind, g) : nullptr);
  search(w, steps);
  return steps;
}

void ChannelSearch::search(Walk& w, int& steps) {
  const int channel = w.graph.channels;
  if (leaves_node_) return from_net(w, steps);
  if (w.graph.pattern == Pattern::nvls) return try_gpu(w, 0, w.to_net, w.to_first, Order::sorted, steps, -1, channel);
  if (channel == 0)
    try_gpu(w, 0, w.to_net, w.to_first, Order::as_numbered, steps, -1, 0);
  else
    try_gpu(w, 0, w.to_net, w.to_first, Order::as_before, steps, -1, order_at(w.graph, channel - 1, 0));
  if (w.graph.same_channels && channel > 0) return;
  for (int g = 0; g < gpus_; ++g) try_gpu(w, 0, w.to_net, w.to_first, Order::sorted, steps, -1, g);
}

void ChannelSearch::try_gpu(Walk& w, int step, int to_net, int to_first, Order order, int& steps, int from, int g) {
  const bool inside = from < gpus_;
  if (!move(w.graph, from, g, inside, 1)) return;
  const std::uint64_t flag = std::uint64_t{1} << w.graph.channels;
  used_[std::size_t(g)] ^= flag;
  at_gpu(w, g, step, to_net, to_first, order, steps);
  used_[std::size_t(g)] ^= flag;
  move(w.graph, from, g, inside, -1);
}

void ChannelSearch::finish_channel(Walk& w, int& steps) {
  ++w.graph.channels;
  if (better(w.graph, w.best, gpus_)) {
    w.best = w.graph;
    if (w.graph.channels == w.graph.most_channels) steps = kSettled;
  }
  if (w.graph.channels < w.graph.most_channels) search(w, steps);
  --w.graph.channels;
}

void ChannelSearch::at_gpu(Walk& w, int g, int step, int to_net, int to_first, Order order, int& steps) {
  if (steps <= 0) return;
  if (--steps % kStepsUntilAsked == 0) check_stop();
  if (step == gpus_) return finish_channel(w, steps);
  Graph& graph = w.graph;
  const int channel = graph.channels;
  order_at(graph, channel, step) = g;
  if (step == to_net) return leave_by_net(w, g, step, to_first, order, steps);
  if (graph.pattern == Pattern::nvls) return nvls_head(w, g, steps);
  if (step < gpus_ - 1) {
    if (order == Order::as_numbered) return try_gpu(w, step + 1, to_net, to_first, order, steps, g, step + 1);
    if (order == Order::as_before)
      return try_gpu(w, step + 1, to_net, to_first, order, steps, g, order_at(graph, channel - 1, step + 1));
    auto& next = nth(next_, channel * gpus_ + step);
    next.clear();
    next_gpus(graph, g,
              to_net == -1         ? Sort::inside
              : to_net == step + 1 ? Sort::toward_net
                                   : Sort::away_from_net,
              next);
    for (const int n : next) try_gpu(w, step + 1, to_net, to_first, order, steps, g, n);
  } else if (step == to_first) {
    const int first = order_at(graph, channel, 0);
    if (!move(graph, g, first, true, 1)) return;
    at_gpu(w, first, step + 1, to_net, -1, order, steps);
    move(graph, g, first, true, -1);
  } else {
    at_gpu(w, g, gpus_, -1, -1, order, steps);
  }
}

/// The head pulls its own share and pushes it: two shares of its links both ways, one of everybody else's.
void ChannelSearch::nvls_head(Walk& w, int g, int& steps) {
  const auto share = [&](int i) { return i == g ? 2.0F : 1.0F; };
  const int nvs = end_of_nvs();
  int down = 0, up = 0;
  while (down < gpus_ && move(w.graph, nvs, down, true, share(down))) ++down;
  if (down == gpus_) {
    while (up < gpus_ && move(w.graph, up, nvs, true, share(up))) ++up;
    if (up == gpus_) at_gpu(w, -1, gpus_, -1, -1, Order::sorted, steps);
    while (up-- > 0) move(w.graph, up, nvs, true, -share(up));
  }
  while (down-- > 0) move(w.graph, nvs, down, true, -share(down));
}

}  // namespace rehearse::nccl
