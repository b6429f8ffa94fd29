#pragma once
// The books of a run: per actor where its time went, per stream how long it was active, and spans of the ranks wanted.

#include <array>
#include <string>
#include <vector>

#include "core/play/player/operation_states.hpp"

namespace rehearse {

/// A rank whose spans are wanted, and the channel of each end of its messages, numbered over all ranks.
struct TracedRank {
  int rank;
  std::vector<std::int32_t> channels;
};

class Accounts {
 public:
  /// `traced`: by the actor that plays them. `states` is the player's; the books move each operation from stage to
  /// stage.
  Accounts(const Program& program, const Cast& cast, std::vector<std::vector<TracedRank>> traced,
           const RunOptions& options, TraceSink& sink, OperationStates& states);

  /// All dependencies are met at `now`; for communication, the wait for partners begins.
  void ready(std::int32_t actor, std::int32_t index, double now);
  /// Work or bytes begin to move.
  void begin(std::int32_t actor, std::int32_t index, const PlayOp& op, double now);
  void end(std::int32_t actor, std::int32_t index, const PlayOp& op, double now);
  /// Fills ranks, slowest and breakdowns for the window [begin, end) of the last step.
  void close(double begin, double end, RunResult& result);
  /// No operation began before its dependencies ended.
  void check_causality(RunResult& result) const;

  [[nodiscard]] bool is_waiting(std::int32_t actor, std::int32_t index) const;
  [[nodiscard]] std::string describe(std::int32_t actor, std::int32_t index) const;

 private:
  static constexpr int kMaxStreams = 24;
  using Stage = OperationState::Stage;
  struct Books {
    Breakdown breakdown;
    std::array<double, kMaxStreams> active{};  ///< Closed intervals of activity per stream.
    std::array<double, kMaxStreams> active_since{};
    std::array<int, kMaxStreams> running{};
    std::array<double, kMaxStreams> active_at_idle{};  ///< Snapshot when the compute stream became idle.
    double idle_since = 0;
    double last_end = 0;
    std::int32_t last_compute = -1, last_other = -1;
  };

  [[nodiscard]] const PlayOp& op_at(std::int32_t actor, std::int32_t index) const;
  [[nodiscard]] double active(const Books& b, int stream, double now) const;
  void close_gap(Books& b, double now, const PlayOp* cause);
  void emit_compute(std::int32_t actor, const PlayOp& op, double begin, double end);
  void emit_communication(std::int32_t actor, const PlayOp& op, double ready, double begin, double end);
  void name_communication(Span& span, const TracedRank& rank, std::int32_t actor, const PlayOp& op);
  [[nodiscard]] const CompiledRole& compiled(std::int32_t actor) const;
  [[nodiscard]] bool wanted(std::int32_t actor) const { return !nth(traced_, actor).empty(); }
  [[nodiscard]] Span span_of(std::int32_t actor, const CompiledRole::Part& part) const;
  /// "layer.forward/attention.qkv"; of task -1 the body's.
  [[nodiscard]] const std::string& name_of_part(std::int32_t body, std::int32_t task) const;
  /// Messages of one channel are sent and received in one order, so that their position names them at both ends.
  [[nodiscard]] std::int64_t next_message(const TracedRank& rank, const PlayOp& op);

  const Program& p_;
  const Cast& cast_;
  std::vector<std::vector<TracedRank>> traced_;
  int steps_, last_step_;
  TraceSink& sink_;
  std::vector<Books> books_;
  std::vector<std::vector<double>> ready_, begin_;
  OperationStates& states_;
  /// Per channel: sent and received so far, at ends whose spans are wanted.
  std::vector<std::array<std::int64_t, 2>> messages_;    // By channel of all ranks.
  mutable std::vector<std::vector<std::string>> names_;  // By body, and task + 1; made when asked for.
  std::int64_t causality_breaches_ = 0;
};

}  // namespace rehearse
