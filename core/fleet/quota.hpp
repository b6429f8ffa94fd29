#pragma once
// How much each queue may hold: the quota seam. One file each in quotas/.
//
// Queues are a tree. Its nodes are numbered as in QuotaTree::nodes, of which 0 is the cluster; jobs are in leaves.
// Amounts are thousandths of a GPU.

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/base/registry.hpp"
#include "core/fleet/engine/job_state.hpp"
#include "core/fleet/order.hpp"

namespace rehearse::fleet {

/// What jobs hold of nodes.
struct Amounts {
  std::int64_t gpu_milli = 0, cpu_milli = 0, memory_mib = 0;
  Amounts& operator+=(const Amounts& o) {
    gpu_milli += o.gpu_milli, cpu_milli += o.cpu_milli, memory_mib += o.memory_mib;
    return *this;
  }
  friend Amounts operator-(const Amounts& a) { return {-a.gpu_milli, -a.cpu_milli, -a.memory_mib}; }
};
[[nodiscard]] Amounts amounts_of(const Holding& held);

/// The tree of queues, with what they hold and ask for at the moment.
struct QuotaTree {
  struct Node {
    Queue settings{};
    int parent = -1;
    std::vector<int> children{};
    std::int64_t used = 0;   ///< GPUs held by jobs in and below it.
    std::int64_t asked = 0;  ///< Waited for by jobs in and below it.
    Amounts held{};          ///< All that they hold; `used` is its GPUs.
    double usage = 0;        ///< Share of the cluster that it held lately (QuotaTree::remember), 0..1.
  };
  std::vector<Node> nodes;
  Amounts capacity{};  ///< Of the cluster.

  Node& operator[](int i) { return nth(nodes, i); }
  const Node& operator[](int i) const { return nth(nodes, i); }
  /// Adds to what the node and all above it hold, or wait for.
  void use(int node, const Amounts& amounts);
  void ask(int node, std::int64_t milli);
};
/// Node 0 is the cluster: guaranteed nothing of its own, with its capacity as limit. Queues without a parent are its
/// children. Throws Error (usage) for a circle or a parent that is not there.
[[nodiscard]] QuotaTree make_quota_tree(const std::vector<Queue>& queues, const Amounts& capacity);

/// An instance belongs to one run. The engine keeps `used` and `asked` of the tree; a quota reads them.
class Quota {
 public:
  virtual ~Quota() = default;
  virtual void begin(const QuotaTree& tree) { tree_ = &tree; }
  /// Whether jobs of different queues may pass each other whatever the rule says, as each queue has its own order.
  [[nodiscard]] virtual bool separates() const { return true; }
  /// Told before the scheduler looks at the jobs.
  virtual void look(double /*now*/) {}
  /// Whether a job of leaf `queue` may start with `milli` more than it holds.
  [[nodiscard]] virtual bool admits(int queue, std::int64_t milli) const = 0;
  /// Whether `milli` could be admitted if nothing else were held.
  [[nodiscard]] virtual bool could_ever(int queue, std::int64_t milli) const = 0;
  /// Queues of a lower rank are served first; the next job of this one asks for `milli`.
  [[nodiscard]] virtual double rank(int /*queue*/, std::int64_t /*milli*/) const { return 0; }
  /// Whether `queue` may stop others' jobs to start a job of `milli`: it claims no more than what is its own.
  [[nodiscard]] virtual bool may_claim(int /*queue*/, std::int64_t /*milli*/) const { return false; }
  /// Whether a job of `claimant` may stop `victim`, at this state of the tree.
  [[nodiscard]] virtual bool yields(const JobState& /*claimant*/, const JobState& /*victim*/) const { return false; }
  /// Time after which the scheduler should look again although nothing happened, while jobs wait.
  [[nodiscard]] virtual double again_after() const { return kNever; }
  /// Told how long the tree was as it is.
  virtual void remember(QuotaTree& /*tree*/, double /*seconds*/) {}

 protected:
  [[nodiscard]] const QuotaTree& tree() const { return *tree_; }

 private:
  const QuotaTree* tree_ = nullptr;
};

using QuotaFactory = std::function<std::unique_ptr<Quota>(const Parameters&)>;
/// Ways to divide the cluster: "none", "hard", "borrowing", "fair", ...
[[nodiscard]] Registry<QuotaFactory>& quotas();

}  // namespace rehearse::fleet
