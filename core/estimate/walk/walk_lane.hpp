#pragma once
// One kind of rank during a walk: its compute stream beside the traffic of its device, and the books of where its time
// goes.

#include <array>
#include <cstdint>
#include <vector>

#include "core/play/player/compiled_role.hpp"
#include "core/price/cost_model.hpp"
#include "core/program/program.hpp"

namespace rehearse {

/// Times are in seconds from the start of the first step.
class WalkLane {
 public:
  WalkLane(const Program& program, const CompiledRole& role, int steps);

  struct State {
    double ready = 0;         ///< End of the dependency met last so far ...
    std::int32_t cause = -1;  ///< ... and which that is.
    std::uint16_t missing = 0;
  };
  [[nodiscard]] State& at(std::int32_t op) { return states_[static_cast<std::size_t>(op)]; }
  [[nodiscard]] const PlayOp& op(std::int32_t index) const { return role_->ops[static_cast<std::size_t>(index)]; }
  [[nodiscard]] const CompiledRole& role() const { return *role_; }

  /// A kernel that is ready. On the stream it has reached, it may still have to wait for its turn (begin_kernel).
  void add_kernel(std::int32_t op);
  /// The moment at which the next kernel ends, or begins where that comes first; infinite where none is known. No
  /// traffic that is yet unknown begins before the least of these of all lanes, so that kernels end then indeed.
  [[nodiscard]] double next() const { return next_; }
  /// Lets the next kernel begin or end. Returns the one that ended, or -1; `end` is its end.
  std::int32_t advance(double& end);

  /// Communication on `stream` that takes `load` from kernels up to `moved`, and ends at `end`.
  void add_traffic(StreamId stream, double begin, double moved, double end, const Interference& load);
  /// What `op` ends with, for the books.
  void ended(std::int32_t op, double end);

  /// Step times by step: the end of each one's last operation.
  [[nodiscard]] const std::vector<double>& step_ends() const { return step_ends_; }
  /// Of the last step, which lasted `period`; adds up to it. To be asked once, at the end.
  [[nodiscard]] Breakdown breakdown(double period);
  [[nodiscard]] double last_end() const { return last_end_; }

 private:
  struct Traffic {
    double begin, end;
    Interference load;
  };
  struct Active {
    std::vector<std::array<double, 2>> spans;  ///< Begin and end, in the order of a stream.
    std::size_t first = 0;                     ///< Those before are over.
  };

  void begin_kernel(std::int32_t op);
  [[nodiscard]] double end_of_kernel() const;
  void look_ahead();
  void book_kernel(std::int32_t op, double begin, double end);
  void close_gap(double until, std::int32_t cause);
  [[nodiscard]] double active(StreamId stream, double from, double until);

  const Program& p_;
  const CompiledRole* role_;
  std::vector<State> states_;
  int last_step_;
  double next_;
  bool one_by_one_ = true;     ///< All kernels are on one stream.
  std::int32_t running_ = -1;  ///< The kernel that communication slows; one beside it, on another stream, is not.
  double begin_ = 0, end_ = 0;
  std::vector<std::int32_t> waiting_;  ///< Kernels that are ready at a moment still to come.
  std::vector<Traffic> traffic_;
  std::vector<Active> active_;  ///< By stream.
  std::vector<double> step_ends_;
  Breakdown breakdown_;
  double idle_since_ = 0, last_end_ = 0, last_other_end_ = 0;
  std::int32_t last_other_ = -1;
};

}  // namespace rehearse
