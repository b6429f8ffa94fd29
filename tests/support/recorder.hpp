#pragma once
// A clock's handler that writes down what it is told, and may act on it.

#include <functional>
#include <map>
#include <vector>

#include "core/play/clocks/play_clock.hpp"

namespace rehearse::testing {

class Recorder final : public PlayClock::Handler {
 public:
  struct Entry {
    double time;
    bool flow;
    PlayClock::Token token;
    bool operator==(const Entry&) const = default;
  };
  explicit Recorder(const PlayClock& clock) : clock_(clock) {}

  void on_timer(PlayClock::Token token) override { note(false, token); }
  void on_flow(PlayClock::Token token) override { note(true, token); }

  [[nodiscard]] double time_of(PlayClock::Token token) const {
    for (const auto& entry : log)
      if (entry.token == token) return entry.time;
    return -1;
  }
  [[nodiscard]] std::vector<PlayClock::Token> tokens() const {
    std::vector<PlayClock::Token> out;
    for (const auto& entry : log) out.push_back(entry.token);
    return out;
  }

  std::vector<Entry> log;
  std::map<PlayClock::Token, std::function<void()>> actions;  ///< Done when the token is told.

 private:
  void note(bool flow, PlayClock::Token token) {
    log.push_back({clock_.now().value(), flow, token});
    if (auto at = actions.find(token); at != actions.end()) at->second();
  }

  const PlayClock& clock_;
};

}  // namespace rehearse::testing
