#pragma once
// How far every operation of every actor is: one small record each, since most of a long run's time goes into fetching
// them.

#include <cstdint>
#include <vector>

#include "core/base/index.hpp"
#include "core/play/player/actors.hpp"

namespace rehearse {

struct OperationState {
  enum class Stage : std::uint8_t { not_ready, ready, begun, done };
  std::int32_t cause = -1;    ///< The dependency met last.
  std::uint16_t missing = 0;  ///< Dependencies not met.
  Stage stage = Stage::not_ready;
};

class OperationStates {
 public:
  explicit OperationStates(const Cast& cast) {
    first_.reserve(cast.actors.size());
    std::size_t count = 0;
    for (const Actor& a : cast.actors) {
      first_.push_back(count);
      count += nth(cast.compiled, a.compiled).ops.size();
    }
    states_.reserve(count);
    for (const Actor& a : cast.actors)
      for (const PlayOp& op : nth(cast.compiled, a.compiled).ops)
        states_.push_back({-1, static_cast<std::uint16_t>(op.dependencies), OperationState::Stage::not_ready});
  }

  [[nodiscard]] OperationState& at(std::int32_t actor, std::int32_t index) {
    return states_[nth(first_, actor) + static_cast<std::size_t>(index)];
  }
  [[nodiscard]] const OperationState& at(std::int32_t actor, std::int32_t index) const {
    return states_[nth(first_, actor) + static_cast<std::size_t>(index)];
  }
  [[nodiscard]] std::size_t count() const { return states_.size(); }

 private:
  std::vector<std::size_t> first_;  // By actor.
  std::vector<OperationState> states_;
};

}  // namespace rehearse
