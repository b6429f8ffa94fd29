#pragma once
// Kinds of ranks: the coarsest division of a job's ranks in which ranks of one kind provably begin and end everything
// at the same moments, so that one of them can stand for all.
//
// It begins with what prices depend on: role, GPU, straggling, coordinates that sizes ask for, and how the groups of a
// rank lie. Kinds are then divided until each of a rank's groups has members of the same kinds as that of any other
// rank of its kind, and messages go to and come from the same kinds (an equitable partition). By induction over
// operations the ranks of a kind then are ready, wait and end together.
//
// Along an axis whose coordinate asks for nothing but sizes, the rank that computes most stands for all, since who
// meets it waits for it: of experts' rows the first, of a causal ring the last. That is an estimate where another
// rank's kernels are slower at some moment.
//
// Replicas that are whole nodes apart, and of which nothing asks which they are, are carried to one another by a
// symmetry of the job: one of them is looked at.

#include <cstdint>
#include <memory>
#include <vector>

#include "core/estimate/walk/call_prices.hpp"
#include "core/play/player/compiled_role.hpp"

namespace rehearse {

struct RankKind {
  int rank = 0;  ///< That stands for all.
  int role = 0;
  int compiled = 0;               ///< Index into KindsOfRanks::compiled.
  std::vector<int> calls;         ///< By Program group: index into KindsOfRanks::calls; -1 for none.
  std::vector<int> peers;         ///< By endpoint of the compiled role: the kind at the other end.
  std::vector<int> peer_devices;  ///< Likewise: the device to which the message goes, or from which it comes.
};

/// Groups of one family that cost the same and have members of the same kinds.
struct CallGroup {
  int group = 0;  ///< Program group.
  int kinds = 0;  ///< That take part: the call begins with the last of them.
  int rank = 0;   ///< A member.
};

struct KindsOfRanks {
  std::vector<RankKind> kinds;
  std::vector<CompiledRole> compiled;
  std::vector<CallGroup> calls;
};

/// Finds them, and compiles each role once for each way in which its prices differ, for `steps` steps. Tensor-parallel
/// ranks that stand side by side are one rank here (core/play/README.md, rule 1): `prices` is told.
class RankKindFinder {
 public:
  RankKindFinder(const Program& program, const CostModel& cost, int steps, CallPrices& prices);
  ~RankKindFinder();
  /// Of the roles that ranks have now; asked again with other roles of the same bodies it prices nothing anew.
  [[nodiscard]] KindsOfRanks find();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// The same, once.
[[nodiscard]] KindsOfRanks kinds_of_ranks(const Program& program, const CostModel& cost, int steps, CallPrices& prices);

}  // namespace rehearse
