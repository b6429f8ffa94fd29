#pragma once
// How the experts of a network lie on the ranks of a stage, and how many rows move: worked out once, read by the
// lowering of experts.

#include <cstdint>
#include <vector>

#include "core/config/settings/choices.hpp"
#include "core/model/network.hpp"
#include "core/strategy/strategy.hpp"

namespace rehearse {

struct ExpertSettings;
struct ProgramFrame;

/// Rows are token copies: each of T tokens of a rank and microbatch makes k. Experts stand on `ep` ranks (times `etp`
/// that split each of them), so that a group of etp * ep ranks holds all E and `edp` such groups hold copies.
struct ExpertPlan {
  Routing routing;
  int etp = 1, ep = 1, edp = 1;
  /// Hierarchical dispatch: neighbouring ranks of the ep group that share one copy; 0: one exchange.
  int node = 0;
  std::int64_t tokens = 0;    ///< T
  std::int64_t capacity = 0;  ///< Rows an expert takes of one rank's tokens; 0: dropless.
  bool padded = false;        ///< Buffers hold `capacity` rows for every expert.
  std::int64_t sent = 0;      ///< Rows that leave a rank: T k dropless, E * capacity padded.
  /// Hierarchical: copies of tokens that leave a rank, one for each node a token visits.
  std::int64_t copies = 0;
  /// Rows that the ranks of one etp group have between them after dispatch: etp * sent, where even.
  ExprId arrived;
  bool counted = false;  ///< Sizes are known only once the tokens are counted.
  /// Dynamic dimensions: rows from each peer's tokens per expert here, rows to each expert.
  int rows_from = -1, rows_to = -1;
  int counts_to = -1, counts_from = -1, rows_here = -1;  ///< Tensors that hold the counts in execution.
  int counts_all = -1;                                   ///< counts_from of all ranks that split an expert.
  ExprId sent_rows;                                      ///< `sent`, dynamic where tokens are dropped.
  Layout at_source;                                      ///< Of rows on the ranks whose tokens they are: local already.
  Layout at_expert;  ///< Of rows on the ranks of their experts: local but for etp, which divides them.

  [[nodiscard]] bool exists() const { return routing.experts > 0; }
  [[nodiscard]] std::int64_t experts_here() const { return routing.experts / ep; }
};

/// Nodes, of `groups` that hold equal parts of the experts, that the k experts of one token lie on: with choices
/// independent and even,
///   n (1 - C(E' - E/g, k) / C(E', k)),  E' = n E/g,
/// n the groups that routing allows. DeepSeek-V3 (E = 256, k = 8, g = 8, n = 4) visits 3.6 of its 4.
[[nodiscard]] double nodes_visited(const Routing& routing, int groups);

/// Rows that one rank's `tokens` tokens send to each expert on average, the most popular first, after drops beyond
/// `capacity` (0: none). Their sum is tokens * k where nothing is dropped. Under Imbalance::zipf an expert is chosen in
/// proportion to 1 / j^exponent, but by no token twice.
[[nodiscard]] std::vector<double> rows_per_expert(const Routing& routing, std::int64_t tokens, std::int64_t capacity,
                                                  const ExpertSettings& settings);

/// `total` rows over `ranks` of an expert-parallel group, the fullest first, in whole multiples of `multiple`.
/// Multinomial: expected order statistics of normal variables (Blom 1958) with the variance of k different choices per
/// token. Zipf: `experts`, the rows of each, dealt to ranks at random by `seed`. Which rank is the fullest changes no
/// step time, because every exchange waits for it.
[[nodiscard]] std::vector<std::int64_t> rows_per_rank(const Routing& routing, const std::vector<double>& experts,
                                                      std::int64_t total, int ranks, int multiple, Imbalance imbalance,
                                                      std::uint64_t seed);

/// Axes of the expert view, fastest first: etp, ep and edp re-divide the ranks of a stage, and pp stands where it
/// stands in `dense`. Throws Error (usage) when ranks of a stage are no whole blocks of them.
[[nodiscard]] std::vector<AxisExtent> expert_order(const StrategySettings& settings,
                                                   const std::vector<AxisExtent>& dense);

/// The plan for a network with experts; exists() is false for others. Adds dynamic dimensions and count tensors to the
/// Program.
[[nodiscard]] ExpertPlan plan_experts(ProgramFrame& frame, const Workload& workload, const StrategySettings& settings);

/// Layouts of the expert view for `settings`, as in ExpertPlan.
[[nodiscard]] Layout rows_at_source(const StrategySettings& settings);
[[nodiscard]] Layout rows_at_expert(const StrategySettings& settings);

}  // namespace rehearse
