#include "core/fleet/engine/placer.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <tuple>

namespace rehearse::fleet {

namespace {

/// Order of requests, to find equal ones.
auto key_of(const Request& r) {
  return std::tie(r.gpus, r.min_gpus, r.milli, r.pod_gpus, r.cpu_milli, r.memory_mib, r.models, r.pools);
}

std::vector<int> indices_of(const std::vector<std::string>& names, const std::vector<std::string>& all) {
  std::vector<int> out;
  for (const std::string& name : names)
    if (const auto found = std::find(all.begin(), all.end(), name); found != all.end())
      out.push_back(static_cast<int>(found - all.begin()));
  return out;
}

}  // namespace

Placer::Placer(const Machines& machines, const std::vector<Job>& jobs, std::unique_ptr<Placement> placement,
               std::uint64_t seed)
    : placement_(std::move(placement)), keeps_(placement_->keeps()) {
  const auto less = [](const Request* a, const Request* b) { return key_of(*a) < key_of(*b); };
  std::map<const Request*, int, decltype(less)> known(less);
  for (const Job& job : jobs) {
    const auto [found, fresh] = known.try_emplace(&job.request, static_cast<int>(shapes_.size()));
    shape_of_.push_back(found->second);
    if (fresh) {
      Shape s;
      s.request = job.request;
      const Request& r = job.request;
      s.milli = static_cast<std::int64_t>(r.gpus) * r.milli;
      s.least_milli = r.elastic() ? static_cast<std::int64_t>(r.min_gpus) * r.milli : s.milli;
      s.pools = indices_of(r.pools, machines.pools());
      if (r.pools.empty())
        for (std::size_t p = 0; p < machines.pools().size(); ++p) s.pools.push_back(static_cast<int>(p));
      shapes_.push_back(std::move(s));
      for (const int pool : shapes_.back().pools)
        shapes_.back().kinds.push_back(pods_in(machines, shapes_.back(), pool, r.gpus));
    }
    const Shape& s = nth(shapes_, found->second);
    if (!s.kinds.empty())
      for (const int kind : s.kinds.front()) nth(kinds_, kind).share += 1;
  }
  double pods = 0;
  for (const PodKind& k : kinds_) pods += k.share;
  for (PodKind& k : kinds_) k.share /= std::max(pods, 1.0);
  placement_->begin(machines, kinds_, seed);
}

int Placer::kind_of(const Pod& pod, const std::vector<int>& models) {
  for (std::size_t i = 0; i < kinds_.size(); ++i)
    if (kinds_[i].pod == pod && kinds_[i].models == models) return static_cast<int>(i);
  kinds_.push_back({pod, models});
  kept_.resize(kinds_.size());
  return static_cast<int>(kinds_.size()) - 1;
}

std::vector<int> Placer::pods_in(const Machines& m, const Shape& shape, int pool, int gpus) {
  const Request& r = shape.request;
  std::vector<int> models = indices_of(r.models, m.models());
  if (!r.models.empty() && models.empty()) models.push_back(-1);  // A model that nobody has suits no node.
  const int most = r.pod_gpus > 0 ? r.pod_gpus : m.node_size(pool);
  std::vector<int> out;
  int left = gpus;
  do {
    const int n = std::min(left, most);
    out.push_back(kind_of({n, r.milli, r.cpu_milli, r.memory_mib}, models));
    left -= n;
  } while (left > 0);
  return out;
}

bool Placer::model_suits(const PodKind& kind, int model) const {
  return kind.models.empty() || std::find(kind.models.begin(), kind.models.end(), model) != kind.models.end();
}

const Placer::Kept& Placer::seen(const Machines& m, int node, int kind) {
  std::vector<Kept>& kept = nth(kept_, kind);
  if (kept.empty()) kept.resize(at(m.count()));
  Kept& out = nth(kept, node);
  const Machines::State& s = m[node];
  if (keeps_ && out.version == s.version) return out;
  const PodKind& k = nth(kinds_, kind);
  out.version = s.version;
  out.fits = model_suits(k, s.model) && m.fits(node, k.pod);
  if (out.fits) out.score = placement_->score(m, node, k.pod);
  return out;
}

int Placer::best_node(const Machines& m, int pool, int kind) {
  int best = -1;
  double high = -std::numeric_limits<double>::infinity();
  for (const int node : m.in_pool(pool))
    if (const Kept& k = seen(m, node, kind); k.fits && (best < 0 || k.score > high)) best = node, high = k.score;
  return best;
}

void Placer::take(Machines& m, int node, int kind, Holding& out) {
  const Pod& pod = nth(kinds_, kind).pod;
  const bool fraction = pod.gpus > 0 && pod.milli < kWholeGpu;
  m.take(node, pod, fraction ? placement_->share(m, node, pod) : -1, out);
}

/// As best_node for each of `count` pods in turn, where nothing changes between them but the node that one takes.
bool Placer::place_alike(Machines& m, int pool, int kind, std::ptrdiff_t count, Holding& out) {
  using Candidate = std::pair<double, int>;  // Score, and the node below zero: of equal ones the first comes first.
  std::vector<Candidate> nodes;
  for (const int node : m.in_pool(pool))
    if (const Kept& k = seen(m, node, kind); k.fits) nodes.emplace_back(k.score, -node);
  std::make_heap(nodes.begin(), nodes.end());
  for (; count > 0; --count) {
    if (nodes.empty()) return false;
    std::pop_heap(nodes.begin(), nodes.end());
    const int node = -nodes.back().second;
    nodes.pop_back();
    take(m, node, kind, out);
    if (const Kept& k = seen(m, node, kind); k.fits) {
      nodes.emplace_back(k.score, -node);
      std::push_heap(nodes.begin(), nodes.end());
    }
  }
  return true;
}

bool Placer::place_in(Machines& m, int pool, const std::vector<int>& pods, Holding& out) {
  std::vector<Pod> all;
  for (const int kind : pods) all.push_back(nth(kinds_, kind).pod);
  placement_->job(m, pool, all);
  const auto fail = [&] {
    m.give(out);
    out = {};
    return false;
  };
  for (auto pod = pods.begin(); pod != pods.end();) {
    const auto behind = std::find_if(pod, pods.end(), [pod](int kind) { return kind != *pod; });
    if (behind - pod > 1 && keeps_) {
      if (!place_alike(m, pool, *pod, behind - pod, out)) return fail();
      pod = behind;
      continue;
    }
    const int node = best_node(m, pool, *pod);
    if (node < 0) return fail();
    take(m, node, *pod++, out);
  }
  return true;
}

bool Placer::scatter(Machines& m, int pool, const Shape& shape, int gpus, Holding& out) {
  int left = gpus;
  const int kind = kind_of({1, kWholeGpu, 0, 0}, nth(kinds_, shape.kinds.front().front()).models);
  for (const int node : m.in_pool(pool)) {
    const Machines::State& s = m[node];
    const int n = std::min(left, s.up && model_suits(nth(kinds_, kind), s.model) ? s.free_whole : 0);
    if (n <= 0) continue;
    m.take(node, {n, kWholeGpu, 0, 0}, -1, out);
    left -= n;
    if (left == 0) return true;
  }
  m.give(out);
  out = {};
  return false;
}

std::optional<Holding> Placer::place(Machines& machines, int shape, int gpus, std::span<const int> pools) {
  const Shape& s = nth(shapes_, shape);
  room_ = Room::busy;
  for (const int pool : pools) {
    const auto p = static_cast<std::size_t>(std::find(s.pools.begin(), s.pools.end(), pool) - s.pools.begin());
    if (machines.free_milli(pool) < static_cast<std::int64_t>(gpus) * s.request.milli) continue;
    room_ = Room::fragments;
    Holding out;
    if (placement_->scatters() && s.request.milli == kWholeGpu && gpus > 0) {
      if (scatter(machines, pool, s, gpus, out)) return out;
      continue;
    }
    const std::vector<int> fewer = gpus == s.request.gpus ? std::vector<int>{} : pods_in(machines, s, pool, gpus);
    const std::vector<int>& pods = gpus == s.request.gpus ? s.kinds[p] : fewer;
    const Pod& first = nth(kinds_, pods.front()).pod;
    if (first.milli == kWholeGpu && first.gpus > 0) {
      const auto same = std::count(pods.begin(), pods.end(), pods.front());
      if (machines.pods_of_whole(pool, first.gpus) < same) continue;
    }
    if (place_in(machines, pool, pods, out)) return out;
  }
  return std::nullopt;
}

bool Placer::could_ever(Machines& empty, int shape, std::span<const int> pools) {
  const Shape& s = nth(shapes_, shape);
  const Request& r = s.request;
  const int gpus = r.elastic() ? r.min_gpus : r.gpus;
  for (const int pool : pools) {
    Holding out;
    if (placement_->scatters() && r.milli == kWholeGpu && gpus > 0) {
      if (!scatter(empty, pool, s, gpus, out)) continue;
      empty.give(out);
      return true;
    }
    bool all = true;
    for (const int kind : pods_in(empty, s, pool, gpus)) {
      const PodKind& k = nth(kinds_, kind);
      const std::vector<int>& nodes = empty.in_pool(pool);
      const auto node = std::find_if(nodes.begin(), nodes.end(),
                                     [&](int n) { return model_suits(k, empty[n].model) && empty.fits(n, k.pod); });
      if (node == nodes.end()) {
        all = false;
        break;
      }
      empty.take(*node, k.pod, -1, out);
    }
    empty.give(out);
    if (all) return true;
  }
  return false;
}

}  // namespace rehearse::fleet
