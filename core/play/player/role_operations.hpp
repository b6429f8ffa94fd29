#pragma once
// The operations of a role while it is compiled: in issue order, each after the one before it on its stream and after
// the host's last wait; then runs of kernels joined and successors listed.

#include <span>
#include <unordered_map>
#include <vector>

#include "core/base/index.hpp"
#include "core/play/player/compiled_role.hpp"

namespace rehearse {

class RoleOperations {
 public:
  using Index = std::int32_t;

  /// `launch`: from the end of what the host waited for to the start of what it issues next.
  RoleOperations(std::size_t streams, double launch)
      : last_on_stream_(streams, -1), gate_of_stream_(streams, -1), launch_(launch) {}

  /// At least so many will come.
  void reserve(std::size_t count) {
    ops_.reserve(count);
    ends_.reserve(count);
    after_.reserve(2 * count);
  }
  /// `op` with its streams, price and parts filled in, after `after` and what its stream did before. Parts of
  /// operations follow each other.
  Index push(PlayOp op, std::span<const Index> after, int step);
  /// What is pushed from now on is issued only when `tails` are done: its kernels cannot be launched ahead.
  void host_waits_for(std::span<const Index> tails) { awaited_.insert(awaited_.end(), tails.begin(), tails.end()); }
  [[nodiscard]] std::uint16_t cause_streams(Index i) const { return nth(ops_, i).cause_streams; }
  /// Moves the operations into `role`, whose parts and breakdowns they refer to.
  void finish(CompiledRole& role);

 private:
  void add(const PlayOp& op, std::span<const Index> after);
  void open_gate(int step);
  void merge_runs(CompiledRole& role);
  void join(CompiledRole& role, PlayOp& to, const PlayOp& from);
  void link(CompiledRole& role);

  std::vector<PlayOp> ops_;
  std::vector<Index> after_;       // What each operation comes after, ascending; one operation's behind another's.
  std::vector<std::size_t> ends_;  // Of each operation's in after_.
  std::vector<Index> last_on_stream_, gate_of_stream_;
  std::vector<Index> awaited_;  // By the host, and nothing was issued since.
  Index gate_ = -1;             // The launch after the host's last wait.
  double launch_;
  std::unordered_map<std::uint64_t, Index> joined_;  // By two prices: that of their sum.
};

}  // namespace rehearse
