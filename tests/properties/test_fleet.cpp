// What holds for every policy: all orders, rules, quotas and placements, with each other, from the registries.

#include <algorithm>
#include <map>

#include "core/fleet/order.hpp"
#include "core/fleet/placement.hpp"
#include "core/fleet/quota.hpp"
#include "core/fleet/result.hpp"
#include "core/fleet/rule.hpp"
#include "tests/support/property.hpp"

using namespace rehearse;
using namespace rehearse::fleet;

namespace {

int draw(int low, int high) { return *rc::gen::inRange(low, high + 1); }

Queue queue(const std::string& name, const std::string& parent, double guaranteed) {
  Queue q;
  q.name = name;
  q.parent = parent;
  q.guaranteed = guaranteed;
  return q;
}

/// Three queues, two of them in a group, on up to four nodes; 5 to 40 jobs of many kinds.
Fleet any_fleet() {
  Fleet f;
  f.name = "drawn";
  const int nodes = draw(2, 4);
  for (int n = 0; n < nodes; ++n)
    f.nodes.push_back({.name = "n" + std::to_string(n), .gpus = 4, .rack = n < 2 ? "left" : "right"});
  f.queues = {queue("group", "", 0), queue("a", "group", 4), queue("b", "group", 2), queue("c", "", nodes * 4 - 6)};
  f.queues[1].preempts_own = draw(0, 1) == 1;
  const int jobs = draw(5, 40);
  for (int i = 0; i < jobs; ++i) {
    Job j;
    j.name = "j" + std::to_string(i);
    j.queue = std::vector<std::string>{"a", "b", "c"}[static_cast<std::size_t>(draw(0, 2))];
    j.priority = draw(0, 2);
    j.arrival = Seconds{static_cast<double>(draw(0, 200))};
    j.duration = Seconds{static_cast<double>(draw(1, 100))};
    j.estimate = Seconds{static_cast<double>(draw(0, 1) * draw(1, 150))};
    const int kind = draw(0, 5);
    if (kind == 0) j.request.milli = 100 * draw(1, 9);
    if (kind == 1) j.request.gpus = 2, j.request.min_gpus = 1;
    if (kind >= 2) j.request.gpus = draw(1, 2);
    j.preemptible = draw(0, 4) > 0;
    f.jobs.push_back(j);
  }
  f.interruption = {Seconds{1.0 * draw(0, 5)}, Seconds{10.0 * draw(0, 1)}, Seconds{1.0 * draw(0, 2)},
                    Seconds{1.0 * draw(0, 5)}};
  if (draw(0, 3) == 0) f.policy.interval = Seconds{1.0 * draw(1, 30)};
  if (draw(0, 2) == 0) f.outages = {{"n0", Seconds{50}, Seconds{90}}, {"n1", Seconds{60}, Seconds{70}}};
  return f;
}

/// The same nodes as two pools, each shared out for itself; `c` has but one of them.
void set_apart(Fleet& f) {
  for (std::size_t n = 0; n < f.nodes.size(); ++n) f.nodes[n].pool = n < 2 ? "old" : "new";
  if (f.nodes.size() == 2) f.nodes[1].pool = "new";
  for (Queue& q : f.queues) {
    if (q.name == "group") continue;
    q.guaranteed = 0;
    q.pools = {{.pool = "old", .guaranteed = q.name == "c" ? 2.0 : 1.0, .limit = draw(0, 1) == 1 ? 2 : kUnlimited}};
    if (q.name != "c") q.pools.push_back({.pool = "new", .guaranteed = 2});
  }
}

/// Jobs ran for at least their work, on GPUs that were theirs alone, whole gangs at once.
void check_result(const Fleet& f, const FleetResult& r) {
  RC_ASSERT(std::abs(r.account.total() - r.account.capacity) <= 1e-6 * r.account.capacity);
  for (std::size_t i = 0; i < f.jobs.size(); ++i) {
    const Job& j = f.jobs[i];
    const JobResult& job = r.jobs[i];
    RC_ASSERT(job.end == JobEnd::done);
    RC_ASSERT(job.started >= j.arrival);
    const double done = job.gpu_seconds - job.idle_gpu_seconds - job.lost_gpu_seconds;
    const double work = j.duration.value() * j.request.gpus * j.request.milli / kWholeGpu;
    RC_ASSERT(std::abs(done - work) <= 1e-6 * work);
    RC_ASSERT(job.running.value() >= j.duration.value() - 1e-6);
    RC_ASSERT(std::abs((job.finished - j.arrival - job.waiting - job.running).value()) <= 1e-6);
    double waited = 0;
    for (const Seconds w : job.waited) waited += w.value();
    RC_ASSERT(std::abs(waited - job.waiting.value()) <= 1e-6);
  }
}

/// No node ever holds more GPUs than it has; of stays, each counts the pods' GPUs.
void check_stays(const Fleet& f, const FleetResult& r) {
  std::map<int, std::map<double, double>> changes;  // By node: time, thousandths more.
  for (const Stay& s : r.stays) {
    const Request& q = f.jobs[static_cast<std::size_t>(s.job)].request;
    int gpus = 0;
    for (const Held& h : s.held) {
      gpus += h.gpus;
      changes[h.node][s.begin.value()] += static_cast<double>(h.gpus) * q.milli;
      changes[h.node][s.end.value()] -= static_cast<double>(h.gpus) * q.milli;
    }
    RC_ASSERT(gpus <= q.gpus && gpus >= (q.elastic() ? q.min_gpus : q.gpus));
  }
  for (const auto& [node, at] : changes) {
    double held = 0;
    for (const auto& [time, more] : at) {
      held += more;
      RC_ASSERT(held <= f.nodes[static_cast<std::size_t>(node)].gpus * kWholeGpu + 1e-9);
    }
  }
}

/// GPUs that the queue's jobs held of each pool at its fullest.
std::map<std::string, double> most_held(const Fleet& f, const FleetResult& r, const std::string& queue) {
  std::map<std::string, std::map<double, double>> changes;
  for (const Stay& s : r.stays) {
    const Job& j = f.jobs[static_cast<std::size_t>(s.job)];
    if (j.queue != queue) continue;
    for (const Held& h : s.held) {
      std::map<double, double>& at = changes[f.nodes[static_cast<std::size_t>(h.node)].pool];
      at[s.begin.value()] += h.gpus * j.request.milli / 1000.0;
      at[s.end.value()] -= h.gpus * j.request.milli / 1000.0;
    }
  }
  std::map<std::string, double> out;
  for (const auto& [pool, at] : changes) {
    double held = 0;
    for (const auto& [time, more] : at) out[pool] = std::max(out[pool], held += more);
  }
  return out;
}

/// Queues hold no more than their quota allows at any time, and nothing of pools that they do not name.
void check_quotas(const Fleet& f, const FleetResult& r) {
  for (const Queue& q : f.queues) {
    if (q.pools.empty()) continue;
    for (const auto& [pool, held] : most_held(f, r, q.name)) {
      const auto own = std::find_if(q.pools.begin(), q.pools.end(), [&](const PoolQuota& p) { return p.pool == pool; });
      RC_ASSERT(own != q.pools.end());
      if (f.policy.quota == "hard") RC_ASSERT(held <= own->guaranteed + 1e-9);
      if (f.policy.quota == "borrowing") RC_ASSERT(held <= own->guaranteed + own->borrow + 1e-9);
      if (f.policy.quota != "none") RC_ASSERT(held <= own->limit + 1e-9);
    }
  }
  for (std::size_t q = 0; q < f.queues.size(); ++q)
    for (const QueueSample& s : r.queues[q].samples) {
      RC_ASSERT(s.held <= f.queues[q].limit + 1e-9);
      if (f.policy.quota == "hard" && f.queues[q].guaranteed > 0) RC_ASSERT(s.held <= f.queues[q].guaranteed + 1e-9);
      if (f.policy.quota == "borrowing" && f.queues[q].guaranteed > 0)
        RC_ASSERT(s.held <= f.queues[q].guaranteed + f.queues[q].borrow + 1e-9);
    }
}

}  // namespace

TEST_CASE("GPU-seconds add up, gangs are whole, quotas hold, and work is done, under every policy") {
  for (const auto& order : orders().entries())
    for (const auto& rule : rules().entries())
      for (const auto& quota : quotas().entries())
        check_property(order.name + ", " + rule.name + ", " + quota.name, [&] {
          Fleet f = any_fleet();
          f.policy.order = order.name;
          f.policy.rule = rule.name;
          f.policy.quota = quota.name;
          const auto& places = placements().entries();
          f.policy.placement = places[static_cast<std::size_t>(draw(0, static_cast<int>(places.size()) - 1))].name;
          f.policy.parameters = {{"attained.limit", 20},
                                 {"attained.limit2", 60},
                                 {"time.look", 10},
                                 {"shares.reset", 10},
                                 {"shares.credit", 1}};
          for (Queue& q : f.queues)
            if (q.guaranteed > 0 && draw(0, 1) == 1) q.borrow = draw(0, 4), q.lend = draw(0, 4);
          if (draw(0, 2) == 0) {
            for (Queue& q : f.queues) q.borrow = q.lend = kUnlimited;
            set_apart(f);
          }
          const FleetResult r = run_fleet(f);
          check_result(f, r);
          check_stays(f, r);
          check_quotas(f, r);
        });
}

TEST_CASE("the same fleet gives the same answer, and the order of its file does not matter but for ties") {
  check_property("twice the same", [] {
    Fleet f = any_fleet();
    f.policy.rule = "preempt";
    f.policy.order = "attained";
    const FleetResult a = run_fleet(f), b = run_fleet(f);
    for (std::size_t i = 0; i < f.jobs.size(); ++i) RC_ASSERT(a.jobs[i].finished == b.jobs[i].finished);
  });
}
