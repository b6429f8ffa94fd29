#pragma once
// Prices of one Program for the closed form: bodies, collectives and messages, each worked out once per kind of rank.

#include <map>
#include <tuple>
#include <vector>

#include "core/base/index.hpp"
#include "core/estimate/walk/call_prices.hpp"
#include "core/estimate/walk/whole_passes.hpp"

namespace rehearse {

/// Work on the compute stream, with nothing else running.
struct ComputeWork {
  double seconds = 0;
  double sm_sensitivity = 0, hbm_sensitivity = 0;  ///< Time-weighted.
  /// Seconds at the end in which no collective of its own runs; all of it where there are none.
  double trailing = 0;
  Breakdown breakdown;

  /// Does `next` after this.
  void append(const ComputeWork& next);
};

/// As CallPrice, of the slowest of the groups that share a role.
struct Transfer {
  double seconds = 0;
  Interference load;  ///< What it takes from kernels beside it, at either end.
  /// Of the seconds, the last, in which nothing moves: a blocking message's hosts get going again.
  double wait = 0;
};

class EstimatePrices {
 public:
  EstimatePrices(const Program& program, const CostModel& cost);

  /// The rank that stands for a role: the first of those with most neighbouring tiles, and of these
  /// the one that leads (RankLeaders).
  [[nodiscard]] int rank_of(int role) const { return nth(first_rank_, role); }
  [[nodiscard]] const ExprContext& context(int role) const { return nth(contexts_, role); }

  [[nodiscard]] bool closed(int body, int role);
  /// The body as one piece of work. A body that is not closed is played with its collectives alone on their wires.
  [[nodiscard]] const ComputeWork& work(int body, int role);
  /// A collective of `body`, called by `role`.
  [[nodiscard]] const Transfer& collective(int body, int task, int role);
  /// Where a message goes from one stage to another: pairs of devices.
  using Ends = std::vector<std::pair<DeviceId, DeviceId>>;
  /// Of messages from `role` to stage `to`: of the replicas that lie alike in their nodes, or pairs of them, one.
  [[nodiscard]] Ends ends(int role, int to) const;
  /// Prices messages with this Program's lanes folded.
  void fold_lanes(MessagePrices& messages) const {
    if (lanes_ > 1) messages.set_lanes(lanes_, stride_);
  }
  /// Roles of one class lie alike on their nodes, and bodies that do not ask for the stage cost them the same.
  [[nodiscard]] int class_of(int role) const { return nth(class_of_role_, role); }
  /// Whether the groups of a role's ranks on which the body has calls lie within a node all, or across nodes all.
  [[nodiscard]] bool groups_alike(int body, int role);
  /// Whether some collective priced so far takes groups of one role unequally long, by more than a percent.
  [[nodiscard]] bool unlike() const { return unlike_; }
  /// How much longer launches make the kernels of a body that is issued task by task.
  [[nodiscard]] double stretch(int body, int role);
  /// From now on bodies are priced as that microbatch calls them: the first writes what later ones add to.
  void set_microbatch(int number);
  /// A call of a body, as set_microbatch() says.
  [[nodiscard]] WholeBodies::Call call(int body, int role, const ExprContext& at) const {
    return {body, rank_of(role), at, true, CostModel::kOncePerKernel};
  }
  /// Two calls at once, as WholeBodies::price_pair.
  [[nodiscard]] const WholeBodies::Pair* pair(const WholeBodies::Call& first, const WholeBodies::Call& second) {
    return passes_.price_pair(first, second);
  }
  /// One kernel, copy or host task outside closed bodies.
  [[nodiscard]] ComputeWork task(int body, int task, int role);

 private:
  using Key = std::tuple<int, int, int>;
  [[nodiscard]] int variant(int body, int role);
  [[nodiscard]] bool stage_matters(const Body& body) const;
  [[nodiscard]] std::vector<DeviceId> devices(int group, int rank) const;
  [[nodiscard]] int neighbours(int rank) const;
  void sort_roles();
  void decide_lanes();
  [[nodiscard]] ComputeWork play(int body, int role);
  [[nodiscard]] Transfer price_collective(const Task& task, const Body& body, int role);
  [[nodiscard]] Transfer price_call(const CollectiveTask& task, Bytes bytes, int role);
  /// A group of a role's ranks.
  struct Instance {
    int rank;     ///< A member.
    bool inside;  ///< A node.
  };
  [[nodiscard]] const std::vector<Instance>& instances(int group, int role);

  const Program& p_;
  const CostModel& cost_;
  CallPrices prices_;
  WholePasses passes_;
  int lanes_ = 1, stride_ = 0;
  bool unlike_ = false;
  std::vector<int> first_rank_, class_of_role_;
  std::vector<std::vector<int>> ranks_of_role_;  ///< Where lanes are folded, the first of them.
  std::vector<ExprContext> contexts_;
  std::vector<signed char> stage_matters_;  ///< By body; -1 not looked at yet.
  std::map<std::pair<int, int>, bool> closed_;
  std::map<std::pair<int, int>, ComputeWork> works_;
  std::map<Key, Transfer> collectives_;
  /// By operation, group, role, bytes, whether packed and whether direct.
  std::map<std::tuple<CollectiveOp, int, int, double, bool, bool>, Transfer> calls_;
  std::map<std::pair<int, int>, std::vector<Instance>> instances_;  ///< By group and role.
};

}  // namespace rehearse
