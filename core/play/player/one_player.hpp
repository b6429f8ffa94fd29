#pragma once
// The player of one Program, on a clock that others may share. Private to this folder: player.hpp plays.

#include <memory>
#include <string>

#include "core/play/backend.hpp"
#include "core/play/clocks/play_clock.hpp"

namespace rehearse {

class OnePlayer : public PlayClock::Handler {
 public:
  /// Starts what can start, at the clock's 0.
  virtual void begin() = 0;
  /// Once the clock has run out. Throws std::logic_error where the Program got stuck.
  [[nodiscard]] virtual RunResult end(const std::string& backend_name) = 0;
};

/// All arguments must outlive the player.
[[nodiscard]] std::unique_ptr<OnePlayer> make_player(const Cluster& cluster, const PlayedProgram& what,
                                                     PlayClock& clock);

}  // namespace rehearse
