#include "core/fleet/engine/machines.hpp"

#include <algorithm>
#include <map>
#include <span>
#include <stdexcept>

namespace rehearse::fleet {

namespace {

int index_of(std::vector<std::string>& names, const std::string& name) {
  const auto at = std::find(names.begin(), names.end(), name);
  if (at != names.end()) return static_cast<int>(at - names.begin());
  names.push_back(name);
  return static_cast<int>(names.size()) - 1;
}

/// Slot of Machines::State::kinds for a pod.
std::size_t kind_of(int gpus, int milli) { return milli < kWholeGpu ? 0 : at(gpus); }

}  // namespace

Machines::Machines(const std::vector<Node>& nodes) {
  std::map<std::string, int> racks;
  for (const Node& n : nodes) {
    State s;
    s.pool = index_of(pools_, n.pool);
    s.model = index_of(models_, n.model);
    s.rack = racks.try_emplace(n.rack.empty() ? "\n" + n.pool : n.rack, static_cast<int>(racks.size())).first->second;
    s.gpus = n.gpus;
    s.first_gpu = static_cast<int>(gpu_free_.size());
    s.free_whole = n.gpus;
    s.free_milli = static_cast<std::int64_t>(n.gpus) * kWholeGpu;
    s.cpu_milli = s.cpu_capacity = n.cpu_milli;
    s.memory_mib = s.memory_capacity = n.memory_mib;
    s.kinds.assign(at(n.gpus) + 1, 0);
    gpu_free_.resize(gpu_free_.size() + at(n.gpus), kWholeGpu);
    if (pools_.size() > in_pool_.size()) {
      in_pool_.emplace_back();
      node_size_.push_back(0);
      with_whole_.emplace_back();
      free_milli_.push_back(0);
    }
    const std::size_t p = at(s.pool);
    in_pool_[p].push_back(static_cast<int>(nodes_.size()));
    node_size_[p] = std::max(node_size_[p], n.gpus);
    with_whole_[p].resize(at(node_size_[p]) + 1);
    free_milli_[p] += s.free_milli;
    capacity_milli_ += s.free_milli;
    nodes_.push_back(std::move(s));
    count_whole(nodes_.back(), 1);
  }
  racks_ = static_cast<int>(racks.size());
}

void Machines::count_whole(const State& node, int by) { nth(nth(with_whole_, node.pool), node.free_whole) += by; }

int Machines::pods_of_whole(int pool, int gpus) const {
  const std::vector<int>& with = nth(with_whole_, pool);
  int out = 0;
  for (int k = gpus; k < static_cast<int>(with.size()); ++k) out += nth(with, k) * (k / gpus);
  return out;
}

int Machines::tightest_gpu(int node, int milli) const {
  const State& s = nth(nodes_, node);
  int best = -1;
  for (int g = 0; g < s.gpus; ++g)
    if (const int free = gpu_free(s, g); free >= milli && (best < 0 || free < gpu_free(s, best))) best = g;
  return best;
}

bool Machines::fits(int node, const Pod& pod) const {
  const State& s = nth(nodes_, node);
  if (!s.up) return false;
  if (s.cpu_capacity > 0 && s.cpu_milli < pod.cpu_milli) return false;
  if (s.memory_capacity > 0 && s.memory_mib < pod.memory_mib) return false;
  if (pod.milli == kWholeGpu || pod.gpus == 0) return s.free_whole >= pod.gpus;
  return s.free_milli >= pod.milli && tightest_gpu(node, pod.milli) >= 0;
}

void Machines::change(State& node, int gpu, int milli) {
  std::int16_t& free = nth(gpu_free_, node.first_gpu + gpu);
  const int next = free + milli;
  if (next < 0 || next > kWholeGpu) throw std::logic_error("a GPU is given twice");
  node.free_whole += (next == kWholeGpu ? 1 : 0) - (free == kWholeGpu ? 1 : 0);
  free = static_cast<std::int16_t>(next);
  node.free_milli += milli;
  nth(free_milli_, node.pool) += milli;
}

void Machines::take(int node, const Pod& pod, int share, Holding& to) {
  State& s = nth(nodes_, node);
  const std::size_t before = to.slices.size();
  if (pod.gpus > 0 && pod.milli < kWholeGpu) {
    to.slices.push_back({node, static_cast<std::int16_t>(share >= 0 ? share : tightest_gpu(node, pod.milli)),
                         static_cast<std::int16_t>(pod.milli)});
  } else {
    int left = pod.gpus;
    for (int g = 0; g < s.gpus && left > 0; ++g)
      if (gpu_free(s, g) == kWholeGpu) {
        to.slices.push_back({node, static_cast<std::int16_t>(g), kWholeGpu});
        --left;
      }
    if (left > 0) throw std::logic_error("a pod was put where it does not fit");
  }
  to.hosts.push_back({node, pod.gpus, pod.cpu_milli, pod.memory_mib});
  Holding part;
  part.slices.assign(to.slices.begin() + static_cast<std::ptrdiff_t>(before), to.slices.end());
  part.hosts.push_back(to.hosts.back());
  take_again(part);
}

namespace {

/// Calls `pod(host, its slices)` for each pod.
template <class F>
void for_pods(const Holding& h, F pod) {
  std::size_t next = 0;
  for (const Holding::Host& host : h.hosts) {
    pod(host, std::span(h.slices).subspan(next, at(host.slices)));
    next += at(host.slices);
  }
}

}  // namespace

void Machines::take_again(const Holding& holding) {
  for_pods(holding, [&](const Holding::Host& host, std::span<const Slice> slices) {
    State& s = nth(nodes_, host.node);
    count_whole(s, -1);
    for (const Slice& slice : slices) change(s, slice.gpu, -slice.milli);
    count_whole(s, 1);
    s.cpu_milli -= host.cpu_milli;
    s.memory_mib -= host.memory_mib;
    if (!slices.empty()) ++s.kinds[kind_of(host.slices, slices.front().milli)];
    ++s.version;
  });
}

void Machines::give(const Holding& holding) {
  for_pods(holding, [&](const Holding::Host& host, std::span<const Slice> slices) {
    State& s = nth(nodes_, host.node);
    count_whole(s, -1);
    for (const Slice& slice : slices) change(s, slice.gpu, slice.milli);
    count_whole(s, 1);
    s.cpu_milli += host.cpu_milli;
    s.memory_mib += host.memory_mib;
    if (!slices.empty()) --s.kinds[kind_of(host.slices, slices.front().milli)];
    ++s.version;
  });
}

bool Machines::still_free(const Holding& holding) const {
  for (const Slice& s : holding.slices) {
    const State& n = nth(nodes_, s.node);
    if (!n.up || gpu_free(n, s.gpu) < s.milli) return false;
  }
  std::map<int, std::pair<std::int64_t, std::int64_t>> wanted;
  for (const Holding::Host& h : holding.hosts) {
    wanted[h.node].first += h.cpu_milli;
    wanted[h.node].second += h.memory_mib;
  }
  return std::all_of(wanted.begin(), wanted.end(), [this](const auto& w) {
    const State& n = nth(nodes_, w.first);
    return n.up && (n.cpu_capacity == 0 || n.cpu_milli >= w.second.first) &&
           (n.memory_capacity == 0 || n.memory_mib >= w.second.second);
  });
}

void Machines::set_up(int node, bool up) {
  State& s = nth(nodes_, node);
  if (s.up == up) return;
  if (s.free_milli != static_cast<std::int64_t>(s.gpus) * kWholeGpu)
    throw std::logic_error("a node changes while a job holds it");
  const std::int64_t all = s.free_milli;
  if (up)
    count_whole(s, 1);
  else
    count_whole(s, -1);
  s.up = up;
  nth(free_milli_, s.pool) += up ? all : -all;
  down_milli_ += up ? -all : all;
  ++s.version;
}

}  // namespace rehearse::fleet
