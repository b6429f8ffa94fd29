#include "core/collective/nccl/nccl_paths.hpp"

#include <algorithm>

namespace rehearse::nccl {
namespace {

constexpr int kNcclPathsMostChannels = 64;

bool power_of_two(int n) { return n > 0 && (n & (n - 1)) == 0; }

int mirrored(int value, int range) {
  int out = 0;
  for (int bit = 1, mirror = range / 2; bit < range; bit *= 2, mirror /= 2)
    if (value & bit) out |= mirror;
  return out;
}

PathClass joined(PathClass a, PathClass b) {
  const auto [nearer, farther] = std::minmax(a, b);
  return nearer == PathClass::c2c && farther == PathClass::phb ? PathClass::p2c : farther;
}

}  // namespace

Paths::Paths(const System& system) : system_(system), table_(system.nodes.size()) {
  for (const NodeKind k : {NodeKind::cpu, NodeKind::gpu, NodeKind::net, NodeKind::nvs})
    for (const int v : system_.all(k)) reach(v);
  divert_distant_gpus();
  shorten_c2c();
  relay_to_nets();
}

/// Widest of the shortest paths to `base`, found outward from it; a GPU relays NVLink for one hop only.
void Paths::reach(int base) {
  table_[std::size_t(base)].resize(system_.nodes.size());
  edit(base, base) = {{}, kLocalRate, PathClass::local};
  std::vector<int> now{base}, next;
  for (; !now.empty(); now.swap(next)) {
    next.clear();
    for (const int v : now)
      for (const int l : system_.node(v).links) extend(base, v, l, next);
  }
}

void Paths::extend(int base, int from, int l, std::vector<int>& next) {
  const SystemLink& link = system_.link(l);
  const Path& path = edit(from, base);
  Path& further = edit(link.to, base);
  const auto kind = [&](int v) { return system_.node(v).kind; };
  const int hops = int(path.links.size());
  if (from != base && kind(from) == NodeKind::gpu &&
      (link.kind != PathClass::nvlink || kind(link.to) != NodeKind::gpu || hops > 1))
    return;
  const float rate = std::min(path.rate, link.rate);
  if ((further.rate != 0 && int(further.links.size()) <= hops) || further.rate >= rate) return;

  PathClass step = link.kind == PathClass::net ? PathClass::local : link.kind;
  if (kind(from) == NodeKind::pci && kind(link.to) == NodeKind::pci) step = PathClass::pxb;
  if (link.kind == PathClass::pix && (kind(from) == NodeKind::cpu || kind(link.to) == NodeKind::cpu))
    step = PathClass::phb;
  if (kind(from) == NodeKind::gpu && path.kind == PathClass::nvlink && step == PathClass::nvlink && hops > 0)
    step = PathClass::nvlink_relay;
  Path found{{link.reverse}, rate, std::max(path.kind, step)};
  found.links.insert(found.links.end(), path.links.begin(), path.links.end());
  further = std::move(found);
  if (std::find(next.begin(), next.end(), link.to) == next.end()) next.push_back(link.to);
}

void Paths::route_over(int relay, int from, int to) {
  const Path &first = between(from, relay), &second = between(relay, to);
  Path out{first.links, std::min(first.rate, second.rate), joined(first.kind, second.kind)};
  out.links.insert(out.links.end(), second.links.begin(), second.links.end());
  if (system_.node(relay).kind == NodeKind::gpu) out.kind = PathClass::pxn;
  edit(from, to) = std::move(out);
}

int Paths::local_cpu(int g) const {
  int found = -1;
  std::size_t least = 0;
  for (const int c : system_.all(NodeKind::cpu)) {
    const std::size_t hops = between(gpu(g), c).links.size();
    if (hops > 0 && (found < 0 || hops < least)) {
      found = c;
      least = hops;
    }
  }
  return found;
}

bool Paths::peer_to_peer(int a, int b) const {
  const auto furthest = system_.amd && system_.count(NodeKind::gpu) <= 2 ? PathClass::sys : PathClass::pxb;
  const PathClass kind = gpu_to_gpu(a, b).kind;
  return kind <= furthest && (system_.peer_to_peer || kind <= PathClass::nvlink_relay);
}

void Paths::divert_distant_gpus() {
  for (int g = 0; g < system_.count(NodeKind::gpu); ++g) {
    const int cpu = local_cpu(g);
    for (int p = 0; p < system_.count(NodeKind::gpu); ++p)
      if (cpu >= 0 && !peer_to_peer(p, g)) route_over(cpu, gpu(p), gpu(g));
    cut_pairs_nearer_to_nics(g);
  }
}

void Paths::cut_pairs_nearer_to_nics(int g) {
  const auto fastest_net = [&](int a) {
    float best = 0;
    for (int n = 0; n < system_.count(NodeKind::net); ++n)
      if (gpu_to_net(a, n).kind <= PathClass::pxb) best = std::max(best, gpu_to_net(a, n).rate);
    return best;
  };
  for (int p = 0; p < system_.count(NodeKind::gpu); ++p) {
    if (p == g) continue;
    const Path& path = gpu_to_gpu(p, g);
    const bool relayed = path.links.size() == 2 && system_.node(system_.link(path.links[0]).to).kind == NodeKind::gpu;
    if (relayed && peer_to_peer(p, g)) continue;
    if (fastest_net(p) > path.rate && fastest_net(g) > path.rate) edit(gpu(p), gpu(g)).kind = PathClass::net;
  }
}

void Paths::shorten_c2c() {
  for (int n = 0; n < system_.count(NodeKind::net); ++n)
    for (int g = 0; g < system_.count(NodeKind::gpu); ++g) {
      const int cpu = local_cpu(g);
      if (cpu < 0 || joined(between(gpu(g), cpu).kind, between(net(n), cpu).kind) != PathClass::p2c) continue;
      for (Path* p : {&edit(gpu(g), net(n)), &edit(net(n), gpu(g))}) p->kind = std::min(PathClass::p2c, p->kind);
    }
}

bool Paths::gpudirect(int g, int n) const {
  if (!system_.gpudirect) return false;
  const Path* path = &gpu_to_net(g, n);
  if (path->kind == PathClass::pxn) {
    for (const int l : path->links) {
      const int v = system_.link(l).to;
      if (system_.node(v).kind == NodeKind::nvs) continue;
      path = &between(v, net(n));
      break;
    }
  }
  return path->kind <= PathClass::pxb || path->kind == PathClass::p2c;
}

void Paths::relay_to_nets() {
  for (int n = 0; n < system_.count(NodeKind::net); ++n) {
    for (int g = 0; g < system_.count(NodeKind::gpu); ++g) {
      const int peer = local_gpu(n);
      if (peer >= 0 && peer != g) {
        const Path &own = gpu_to_net(g, n), &theirs = gpu_to_net(peer, n);
        if (theirs.kind <= PathClass::p2c && gpu_to_gpu(peer, g).kind <= PathClass::nvlink &&
            system_.node(gpu(peer)).host == system_.node(gpu(g)).host &&
            (theirs.rate > own.rate || own.kind > PathClass::pxn))
          route_over(gpu(peer), gpu(g), net(n));
      }
      const int cpu = local_cpu(g);
      if (gpu_to_net(g, n).kind >= PathClass::phb || gpudirect(g, n) || cpu < 0) continue;
      route_over(cpu, net(n), gpu(g));
      route_over(cpu, gpu(g), net(n));
    }
  }
}

std::vector<int> Paths::best(int from, NodeKind kind) const {
  std::vector<int> out;
  float rate = 0;
  PathClass nearest = PathClass::disconnected;
  for (int i = 0; i < system_.count(kind); ++i) {
    const Path& p = between(from, system_.at(kind, i));
    if (p.rate > rate || (p.rate == rate && p.kind < nearest)) {
      rate = p.rate;
      nearest = p.kind;
      out.clear();
    }
    if (p.rate == rate && p.kind == nearest) out.push_back(i);
  }
  return out;
}

LocalNets Paths::local_nets(int g) const {
  LocalNets out{best(gpu(g), NodeKind::net), 0};
  if (out.nets.empty()) return out;
  const int sharing = std::max(int(local_gpus(out.nets.front()).size()), 1);
  out.per_gpu = (int(out.nets.size()) + sharing - 1) / sharing;
  return out;
}

int Paths::net_for_channel(const LocalNets& local, int g, int c) const {
  const int count = int(local.nets.size());
  if (count == 0) return -1;
  int first = system_.node(gpu(g)).number;
  if (power_of_two(count)) first = mirrored(first, count);
  return local.nets[std::size_t((first + c % local.per_gpu) % count)];
}

std::vector<int> Paths::local_gpus(int n) const { return best(net(n), NodeKind::gpu); }

int Paths::local_gpu(int n) const {
  const auto gpus = local_gpus(n);
  std::vector<LocalNets> nets;
  int turns = 1;
  for (const int g : gpus) {
    nets.push_back(local_nets(g));
    turns = std::max(turns, nets.back().per_gpu);
  }
  for (int c = 0; c < std::min(turns, kNcclPathsMostChannels); ++c)
    for (std::size_t i = 0; i < gpus.size(); ++i)
      if (net_for_channel(nets[i], gpus[i], c) == n) return gpus[i];
  return -1;
}

std::vector<std::vector<int>> Paths::domains() const {
  std::vector<int> domain;
  std::vector<std::vector<int>> out;
  for (int g = 0; g < system_.count(NodeKind::gpu); ++g) {
    domain.push_back(g);
    for (int p = 0; p < g; ++p)
      if (gpu_to_gpu(g, p).kind < PathClass::net) domain.back() = std::min(domain.back(), domain[std::size_t(p)]);
  }
  for (int d = 0; d < int(domain.size()); ++d) {
    std::vector<int> members;
    for (int g = 0; g < int(domain.size()); ++g)
      if (domain[std::size_t(g)] == d) members.push_back(g);
    if (!members.empty()) out.push_back(std::move(members));
  }
  return out;
}

}  // namespace rehearse::nccl
