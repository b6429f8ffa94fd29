#include "core/fleet/engine/planes.hpp"

#include <algorithm>

namespace rehearse::fleet {

Amounts capacity_of(const Fleet& fleet, const std::string* pool) {
  Amounts out;
  for (const Node& n : fleet.nodes)
    if (!pool || n.pool == *pool) out += {std::int64_t{n.gpus} * kWholeGpu, n.cpu_milli, n.memory_mib};
  return out;
}

bool quotas_by_pool(const Fleet& fleet) {
  return std::any_of(fleet.queues.begin(), fleet.queues.end(), [](const Queue& q) { return !q.pools.empty(); });
}

std::vector<Queue> queues_in(const Fleet& fleet, const std::string& pool) {
  std::vector<Queue> out = fleet.queues;
  for (Queue& q : out) {
    if (q.pools.empty()) continue;
    const auto own =
        std::find_if(q.pools.begin(), q.pools.end(), [&pool](const PoolQuota& p) { return p.pool == pool; });
    const PoolQuota none{.pool = pool, .guaranteed = 0, .limit = 0};
    const PoolQuota& p = own == q.pools.end() ? none : *own;
    q.guaranteed = p.guaranteed, q.limit = p.limit, q.borrow = p.borrow, q.lend = p.lend;
  }
  return out;
}

Planes::Planes(const Fleet& fleet, const std::vector<std::string>& pools) : prefers_(fleet.queues.size() + 1) {
  const bool apart = quotas_by_pool(fleet);
  for (std::size_t p = 0; p < (apart ? pools.size() : 1); ++p)
    planes_.push_back({apart ? make_quota_tree(queues_in(fleet, pools[p]), capacity_of(fleet, &pools[p]))
                             : make_quota_tree(fleet.queues, capacity_of(fleet)),
                       quotas().at(fleet.policy.quota).value(Parameters(fleet.policy.parameters))});
  for (Plane& p : planes_) p.quota->begin(p.tree);
  for (std::size_t p = 0; p < pools.size(); ++p) plane_of_.push_back(apart ? static_cast<int>(p) : 0);
  for (std::size_t q = 0; q < fleet.queues.size(); ++q)
    for (const PoolQuota& p : fleet.queues[q].pools)
      if (const auto at = std::find(pools.begin(), pools.end(), p.pool); at != pools.end())
        prefers_[q + 1].push_back(static_cast<int>(at - pools.begin()));
}

double Planes::rank(int queue, std::int64_t milli, const std::vector<int>& pools) const {
  double out = of(pools.front()).rank(queue, milli);
  if (by_pool())
    for (const int pool : pools) out = std::min(out, of(pool).rank(queue, milli));
  return out;
}

void Planes::look(double now) {
  for (Plane& p : planes_) p.quota->look(now);
}
void Planes::remember(double seconds) {
  for (Plane& p : planes_) p.quota->remember(p.tree, seconds);
}

std::vector<int> Planes::usable(int queue, const std::vector<int>& pools) const {
  const std::vector<int>& own = nth(prefers_, queue);
  if (own.empty()) return pools;
  std::vector<int> out;
  for (const int p : own)
    if (std::find(pools.begin(), pools.end(), p) != pools.end()) out.push_back(p);
  return out;
}

std::int64_t Planes::used(int queue) const {
  std::int64_t out = 0;
  for (const Plane& p : planes_) out += p.tree[queue].used;
  return out;
}
std::int64_t Planes::asked(int queue) const {
  std::int64_t out = 0;
  for (const Plane& p : planes_) out += p.tree[queue].asked;
  return out;
}

}  // namespace rehearse::fleet
