// Fair shares over a tree of queues, as KAI and Run:ai have them: each queue gets what it is guaranteed, and what is
// over is divided by weight; a queue below its share takes back from queues above theirs. "time" also counts what a
// queue held lately, so that shares are fair over time. NVIDIA/KAI-Scheduler @72de64f, pkg/scheduler/plugins/proportion
// (resource_division, reclaimable, queue_order) and docs/time-based-fairshare.

#include <algorithm>
#include <cmath>

#include "core/fleet/fair_share.hpp"
#include "core/fleet/quota.hpp"

namespace rehearse::fleet {

namespace {

class Fair final : public Quota {
 public:
  Fair(double k, double half_life, double again) : k_(k), half_life_(half_life), again_(again) {}

  void begin(const QuotaTree& t) override {
    Quota::begin(t);
    fair_.assign(t.nodes.size(), 0);
  }

  void look(double) override {
    fair_[0] = static_cast<double>(tree().capacity.gpu_milli) / kWholeGpu;
    divide_below(0);
  }

  bool admits(int queue, std::int64_t milli) const override {
    for (int q = queue; q > 0; q = tree()[q].parent)
      if (used(q) + amount(milli) > tree()[q].settings.limit + kSlack) return false;
    return true;
  }
  bool could_ever(int queue, std::int64_t milli) const override {
    for (int q = queue; q > 0; q = tree()[q].parent)
      if (amount(milli) > tree()[q].settings.limit + kSlack) return false;
    return true;
  }

  /// Queues that have the smallest part of their fair share are served first.
  double rank(int queue, std::int64_t) const override {
    double most = 0;
    for (int q = queue; q > 0; q = tree()[q].parent) most = std::max(most, used(q) / std::max(fair_of(q), 1e-9));
    return most;
  }

  bool may_claim(int queue, std::int64_t milli) const override { return within(queue, amount(milli)); }

  bool yields(const JobState& c, const JobState& v) const override {
    if (c.queue == v.queue) return tree()[c.queue].settings.preempts_own && v.job->priority < c.job->priority;
    if (tree()[c.queue].settings.reclaim == Reclaim::never) return false;
    if (tree()[c.queue].settings.reclaim == Reclaim::lower_priority && v.job->priority >= c.job->priority) return false;
    // Where their branches part: the victim's is above its share, or above its own while the claimant's is within its.
    const auto [mine, theirs] = branches(c.queue, v.queue);
    const Request& r = c.job->request;
    const double wanted = static_cast<double>(r.elastic() ? r.min_gpus : r.gpus) * r.milli / kWholeGpu;
    for (int q = tree()[c.queue].parent; q != tree()[mine].parent && q > 0; q = tree()[q].parent)
      if (!within(q, wanted)) return false;
    const bool above_share = used(theirs) > fair_of(theirs) + kSlack;
    const bool own = used(mine) + wanted <= tree()[mine].settings.guaranteed + kSlack &&
                     used(theirs) > tree()[theirs].settings.guaranteed + kSlack;
    return above_share || own;
  }

  double again_after() const override { return again_; }

  void remember(QuotaTree& t, double seconds) override {
    if (k_ == 0) return;
    const double old = std::exp2(-seconds / half_life_), all = static_cast<double>(t.capacity.gpu_milli);
    for (QuotaTree::Node& n : t.nodes) n.usage = n.usage * old + (1 - old) * static_cast<double>(n.used) / all;
  }

 private:
  static constexpr double kSlack = 1e-9;
  static double amount(std::int64_t milli) { return static_cast<double>(milli) / kWholeGpu; }
  [[nodiscard]] double used(int q) const { return amount(tree()[q].used); }
  [[nodiscard]] double fair_of(int q) const { return nth(fair_, q); }

  /// Whether the queue holds no more than its share, or its own, with `more` GPUs.
  [[nodiscard]] bool within(int q, double more) const {
    return used(q) + more <= std::max(fair_of(q), tree()[q].settings.guaranteed) + kSlack;
  }

  void divide_below(int parent) {
    const std::vector<int>& children = tree()[parent].children;
    if (children.empty()) return;
    std::vector<ShareClaim> claims;
    for (const int q : children) {
      const QuotaTree::Node& n = tree()[q];
      claims.push_back({n.settings.guaranteed, n.settings.limit, n.settings.weight, amount(n.used + n.asked), n.usage,
                        n.settings.priority, 0});
    }
    divide(nth(fair_, parent), claims, k_);
    for (std::size_t i = 0; i < children.size(); ++i) {
      nth(fair_, children[i]) = claims[i].share;
      divide_below(children[i]);
    }
  }

  /// The children of the lowest common group that two queues are in or below.
  [[nodiscard]] std::pair<int, int> branches(int a, int b) const {
    std::vector<int> up;
    for (int x = a; x >= 0; x = tree()[x].parent) up.push_back(x);
    int under_b = b;
    for (int y = b; y >= 0; y = tree()[y].parent) {
      const auto at = std::find(up.begin(), up.end(), y);
      if (at != up.end()) return {at == up.begin() ? a : *(at - 1), under_b};
      under_b = y;
    }
    return {a, b};
  }

  double k_, half_life_, again_;
  std::vector<double> fair_;
};

const bool registered_fair = quotas().add(
    {"fair", "what is over guarantees is divided by weight, and taken back (KAI, Run:ai)", {}, [](const Parameters&) {
       return std::make_unique<Fair>(0, 1, kNever);
     }});
const bool registered_time = quotas().add(
    {"time",
     "as fair, with what a queue held lately counted (KAI's time-based fair share)",
     {{"time.k", "how much past use counts", "1"},
      {"time.half_life", "seconds after which use counts half", "604800"},
      {"time.look", "seconds after which shares are looked at again", "3600"}},
     [](const Parameters& p) {
       return std::make_unique<Fair>(p.get("time.k", 1), p.get("time.half_life", 604800), p.get("time.look", 3600));
     }});

}  // namespace

}  // namespace rehearse::fleet
