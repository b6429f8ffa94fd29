#include "core/fleet/advise.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>

#include <fmt/format.h>

#include "core/base/error.hpp"
#include "core/fleet/engine/planes.hpp"
#include "core/fleet/order.hpp"
#include "core/fleet/quantile.hpp"
#include "core/fleet/quota.hpp"
#include "core/fleet/rule.hpp"

namespace rehearse::fleet {

namespace {

using WaitsByQueue = std::map<std::string, Seconds>;

class Adviser {
 public:
  Adviser(const Fleet& fleet, std::string queue, Seconds bound, RunOptions options)
      : fleet_(fleet), queue_(std::move(queue)), bound_(bound), options_(std::move(options)) {
    options_.record = false;
  }

  AdviceAnswer answer() {
    before_ = *waits(fleet_);
    out_.wait = before_[queue_];
    policies();
    guarantee();
    nodes();
    std::stable_sort(out_.changes.begin(), out_.changes.end(), [](const Advice& a, const Advice& b) {
      if (a.enough != b.enough) return a.enough;
      if ((a.gpus > 0) != (b.gpus > 0)) return b.gpus > 0;
      if (a.gpus > 0) return false;
      return a.enough ? std::tie(a.rise, a.wait) < std::tie(b.rise, b.wait) : a.wait < b.wait;
    });
    return std::move(out_);
  }

 private:
  /// 90th percentiles; nothing for a change under which some job could never run.
  std::optional<WaitsByQueue> waits(const Fleet& f) {
    ++out_.plays;
    std::optional<FleetResult> r;
    try {
      r = run_fleet(f, options_);
    } catch (const Error& e) {
      if (e.kind != ErrorKind::infeasible || out_.plays == 1) throw;
      return std::nullopt;
    }
    std::map<std::string, std::vector<Seconds>> all;
    for (std::size_t i = 0; i < f.jobs.size(); ++i)
      if (r->jobs[i].end != JobEnd::not_arrived) all[f.jobs[i].queue].push_back(r->jobs[i].waiting);
    WaitsByQueue out;
    for (auto& [queue, w] : all) out[queue] = quantile(std::move(w), 0.9);
    return out;
  }

  std::optional<Advice> tried(const Fleet& f, std::string what, std::vector<std::string> sets, double gpus) {
    if (options_.stop && options_.stop()) return std::nullopt;
    std::optional<WaitsByQueue> now = waits(f);
    if (!now) return std::nullopt;
    Advice a{std::move(what), std::move(sets), gpus, (*now)[queue_], false, "", {}};
    a.enough = a.wait <= bound_;
    for (const auto& [queue, wait] : *now)
      if (queue != queue_ && wait - before_[queue] > a.rise) a.rise = wait - before_[queue], a.pays = queue;
    return a;
  }

  void policies() {
    const auto each = [this](const std::string& part, std::string Policy::*member, const auto& registry) {
      for (const std::string& name : registry.names()) {
        if (fleet_.policy.*member == name) continue;
        Fleet f = fleet_;
        f.policy.*member = name;
        std::optional<Advice> a = tried(f, part + " " + name, {fmt::format("policy.{}={}", part, name)}, 0);
        if (a && a->wait < out_.wait) out_.changes.push_back(std::move(*a));
      }
    };
    each("rule", &Policy::rule, rules());
    each("order", &Policy::order, orders());
    if (!fleet_.queues.empty()) each("quota", &Policy::quota, quotas());
  }

  /// The least of 1 ... `most` that is enough, by bisection; `most` itself where that is not, too.
  std::optional<Advice> least(int most, const std::function<std::optional<Advice>(int)>& with) {
    if (most < 1) return std::nullopt;
    std::optional<Advice> best = with(most);
    if (!best || !best->enough) return best;
    for (int low = 0, high = most; high - low > 1;) {
      const int middle = low + (high - low) / 2;
      std::optional<Advice> a = with(middle);
      if (a && a->enough)
        best = std::move(a), high = middle;
      else
        low = middle;
    }
    return best;
  }

  void add(std::optional<Advice> a) {
    if (a && a->wait < out_.wait) out_.changes.push_back(std::move(*a));
  }

  /// More of what nobody is guaranteed: over all pools, or of each pool that the queue names.
  void guarantee() {
    std::size_t mine = 0;
    for (std::size_t q = 0; q < fleet_.queues.size(); ++q)
      if (fleet_.queues[q].name == queue_) mine = q;
    const std::size_t pools = fleet_.queues[mine].pools.size();
    for (std::size_t p = 0; p < std::max<std::size_t>(pools, 1); ++p) guarantee(mine, pools > 0 ? &p : nullptr);
  }

  void guarantee(std::size_t mine, const std::size_t* p) {
    const std::string pool = p ? fleet_.queues[mine].pools[*p].pool : "";
    double free = static_cast<double>(capacity_of(fleet_, p ? &pool : nullptr).gpu_milli) / kWholeGpu;
    for (const Queue& q : p ? queues_in(fleet_, pool) : fleet_.queues) free -= q.guaranteed;
    add(least(static_cast<int>(free), [&](int more) {
      Fleet f = fleet_;
      Queue& q = f.queues[mine];
      double& own = p ? q.pools[*p].guaranteed : q.guaranteed;
      double& limit = p ? q.pools[*p].limit : q.limit;
      own += more;
      limit = std::max(limit, own);
      return tried(f, fmt::format("guarantee {} {:.6g} GPUs{}", queue_, own, p ? " of " + pool : ""),
                   {fmt::format("queues.{}.{}guaranteed={:.6g}", mine, p ? fmt::format("pools.{}.", *p) : "", own)},
                   more);
    }));
  }

  void nodes() {
    const Node kind = fleet_.nodes.back();
    add(least(static_cast<int>(fleet_.nodes.size()), [&](int more) {
      Fleet f = fleet_;
      for (int i = 0; i < more; ++i) {
        f.nodes.push_back(kind);
        f.nodes.back().name = fmt::format("{}+{}", kind.name, i);
      }
      return tried(f, fmt::format("{} more node{} of {} GPUs", more, more == 1 ? "" : "s", kind.gpus), {},
                   static_cast<double>(more) * kind.gpus);
    }));
  }

  const Fleet& fleet_;
  std::string queue_;
  Seconds bound_;
  RunOptions options_;
  WaitsByQueue before_;
  AdviceAnswer out_;
};

}  // namespace

AdviceAnswer advise(const Fleet& fleet, const std::string& queue, Seconds bound, const RunOptions& options) {
  std::vector<std::string> names;
  for (const Job& j : fleet.jobs)
    if (std::find(names.begin(), names.end(), j.queue) == names.end()) names.push_back(j.queue);
  if (std::find(names.begin(), names.end(), queue) == names.end()) throw unknown_name("queue with jobs", queue, names);
  return Adviser(fleet, queue, bound, options).answer();
}

}  // namespace rehearse::fleet
