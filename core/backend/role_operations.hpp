#pragma once
// The operations of a role while it is compiled: in issue order, each after the one before it on its stream and after the host's last
// wait; then runs of kernels joined and successors listed.

#include <map>
#include <vector>

#include "core/backend/compiled_role.hpp"

namespace rehearse {

class RoleOperations {
 public:
  using Index = std::int32_t;

  /// `launch`: from the end of what the host waited for to the start of what it issues next.
  RoleOperations(std::size_t streams, double launch) : last_on_stream_(streams, -1), gate_of_stream_(streams, -1), launch_(launch) {}

  /// `op` with its streams, price and parts filled in, after `after` and what its stream did before.
  Index push(PlayOp op, std::vector<Index> after, int step);
  /// What is pushed from now on is issued only when `tails` are done: its kernels cannot be launched ahead.
  void host_waits_for(const std::vector<Index>& tails) { awaited_.insert(awaited_.end(), tails.begin(), tails.end()); }
  [[nodiscard]] std::uint16_t cause_streams(Index i) const { return raw_[static_cast<std::size_t>(i)].op.cause_streams; }
  /// Puts the operations into `role`, whose parts and breakdowns they refer to.
  void finish(CompiledRole& role);

 private:
  struct Raw { PlayOp op; std::vector<Index> after; };

  void open_gate(int step);
  void merge_runs(CompiledRole& role);
  void join(CompiledRole& role, PlayOp& to, const PlayOp& from);
  void link(CompiledRole& role);

  std::vector<Raw> raw_;
  std::vector<Index> last_on_stream_, gate_of_stream_;
  std::vector<Index> awaited_;  // By the host, and nothing was issued since.
  Index gate_ = -1;             // The launch after the host's last wait.
  double launch_;
  std::map<std::pair<Index, Index>, Index> joined_;
};

}  // namespace rehearse
