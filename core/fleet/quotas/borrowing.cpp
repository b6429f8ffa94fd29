// Cohorts with borrowing, lending limits and reclaiming, as Kueue has them. A queue may take what the others of its
// group do not use, up to what they lend and it may borrow; what is its own it takes back by stopping borrowers' jobs.
//
// With G the quota of a subtree (its own and its children's, less what these do not lend), L what it does not lend and
// U what it uses, available(queue) is max(0, L - U) + available(parent), the latter at most G - L - max(0, U - L) +
// borrow. kubernetes-sigs/kueue, keps/79-hierarchical-cohorts and pkg/cache/scheduler/resource_node.go; which jobs
// yield: site/content/en/docs/concepts/preemption.md.

#include <algorithm>

#include "core/fleet/quota.hpp"

namespace rehearse::fleet {

namespace {

class Borrowing final : public Quota {
 public:
  void begin(const QuotaTree& t) override {
    Quota::begin(t);
    subtree_.assign(t.nodes.size(), 0);
    fill(0);
  }

  bool admits(int queue, std::int64_t milli) const override {
    const double wanted = static_cast<double>(milli) / kWholeGpu;
    for (int q = queue; q > 0; q = tree()[q].parent)
      if (used(q) + wanted > tree()[q].settings.limit + kSlack) return false;
    return wanted <= available(queue, true) + kSlack;
  }
  bool could_ever(int queue, std::int64_t milli) const override {
    const double wanted = static_cast<double>(milli) / kWholeGpu;
    for (int q = queue; q > 0; q = tree()[q].parent)
      if (wanted > tree()[q].settings.limit + kSlack) return false;
    return wanted <= available(queue, false) + kSlack;
  }

  /// Whoever takes no more than its own comes before those that borrow.
  double rank(int queue, std::int64_t milli) const override { return within_own(queue, milli) ? 0 : 1; }

  /// What is its own, or another's job of its own queue.
  bool may_claim(int queue, std::int64_t milli) const override {
    const Queue& s = tree()[queue].settings;
    return s.preempts_own || (s.reclaim != Reclaim::never && within_own(queue, milli));
  }

  bool yields(const JobState& c, const JobState& v) const override {
    const Queue& s = tree()[c.queue].settings;
    const bool lower = v.job->priority < c.job->priority;
    if (c.queue == v.queue) return s.preempts_own && lower;
    if (s.reclaim == Reclaim::never || (s.reclaim == Reclaim::lower_priority && !lower)) return false;
    const std::int64_t wanted = static_cast<std::int64_t>(c.job->request.gpus) * c.job->request.milli;
    if (!within_own(c.queue, c.job->request.elastic() ? 0 : wanted)) return false;
    // Below the lowest group that both are in, the victim's side must hold more than its own.
    const int common = common_group(c.queue, v.queue);
    for (int q = v.queue; q != common; q = tree()[q].parent)
      if (used(q) <= nth(subtree_, q) + kSlack) return false;
    return true;
  }

 private:
  static constexpr double kSlack = 1e-9;

  [[nodiscard]] double used(int q) const { return static_cast<double>(tree()[q].used) / kWholeGpu; }
  /// What a subtree keeps from its parent's other children.
  [[nodiscard]] double kept(int q) const { return std::max(0.0, nth(subtree_, q) - tree()[q].settings.lend); }
  [[nodiscard]] bool within_own(int queue, std::int64_t milli) const {
    return used(queue) + static_cast<double>(milli) / kWholeGpu <= tree()[queue].settings.guaranteed + kSlack;
  }

  /// What a subtree is guaranteed: a group's guarantee holds its children's.
  [[nodiscard]] double guaranteed_in(int q) const {
    double below = 0;
    for (const int child : tree()[q].children) below += guaranteed_in(child);
    return std::max(tree()[q].settings.guaranteed, below);
  }

  void fill(int q) {
    double sum = guaranteed_in(q);
    for (const int child : tree()[q].children) {
      fill(child);
      sum += nth(subtree_, child) - kept(child) - guaranteed_in(child);
    }
    nth(subtree_, q) = sum;
  }

  [[nodiscard]] double available(int q, bool now) const {
    const double own = nth(subtree_, q);
    if (q == 0) return own - (now ? beyond_kept_of_children() : 0);
    const double u = now ? used_here(q) : 0, keeps = kept(q);
    double above = available(tree()[q].parent, now);
    if (tree()[q].settings.borrow != kUnlimited)
      above = std::min(above, own - keeps - std::max(0.0, u - keeps) + tree()[q].settings.borrow);
    return std::max(0.0, keeps - u) + above;
  }
  /// Usage of a node as its parent sees it: of its children only what is beyond what they keep.
  [[nodiscard]] double used_here(int q) const {
    if (tree()[q].children.empty()) return used(q);
    double sum = 0;
    for (const int child : tree()[q].children) sum += std::max(0.0, used_here(child) - kept(child));
    return sum;
  }
  [[nodiscard]] double beyond_kept_of_children() const { return used_here(0); }

  [[nodiscard]] int common_group(int a, int b) const {
    for (int x = a; x >= 0; x = tree()[x].parent)
      for (int y = b; y >= 0; y = tree()[y].parent)
        if (x == y) return x;
    return 0;
  }

  std::vector<double> subtree_;
};

const bool registered_borrowing = quotas().add(
    {"borrowing", "a queue may take what others do not use, until they want it (Kueue)", {}, [](const Parameters&) {
       return std::make_unique<Borrowing>();
     }});

}  // namespace

}  // namespace rehearse::fleet
