#pragma once
// What one of several users sees of a clock that they share: a clock of its own, which starts at 0 when its work
// begins, and whose links have carried what its own devices sent. Who runs the shared clock hands each event to its
// user.

#include <cstdint>
#include <optional>

#include "core/play/clocks/play_clock.hpp"

namespace rehearse {

class ClockShare final : public PlayClock {
 public:
  /// `user`: its number, below 2^16. `begin`: its 0 on the shared clock. `devices`: that its flows leave from. `whole`
  /// must outlive the share.
  ClockShare(PlayClock& whole, std::uint32_t user, Seconds begin, const std::vector<DeviceId>& devices);

  [[nodiscard]] Seconds now() const override { return whole_.now() - begin_; }
  TimerId set_timer(Seconds at, Token token) override { return whole_.set_timer(begin_ + at, tagged(token)); }
  void cancel_timer(TimerId id) override { whole_.cancel_timer(id); }
  BundleId prepare(std::span<const Flow> flows, int lanes, int lane_stride) override {
    return whole_.prepare(flows, lanes, lane_stride);
  }
  void start(BundleId bundle, Token token) override { whole_.start(bundle, tagged(token)); }
  /// Kept for whoever runs the shared clock, which others' flows cross, too.
  void keep_to(const std::vector<LinkId>& links) override { kept_ = links; }
  [[nodiscard]] const std::optional<std::vector<LinkId>>& kept() const { return kept_; }
  /// Throws std::logic_error: the shared clock is run.
  void run(Handler& handler) override;
  [[nodiscard]] std::vector<double> link_bytes(const std::vector<bool>& from) const override;

  /// Of a token as the shared clock's handler is told it: whose it is, and which of its tokens.
  [[nodiscard]] static std::uint32_t user_of(Token token) { return static_cast<std::uint32_t>(token >> kOwnBits); }
  [[nodiscard]] static Token own(Token token) { return token & kOwnMask; }
  /// A token that no user sets: that its work begins.
  [[nodiscard]] static Token start_of(std::uint32_t user) { return Token{user} << kOwnBits | kOwnMask; }
  [[nodiscard]] static bool is_start(Token token) { return own(token) == kOwnMask; }

 private:
  static constexpr int kOwnBits = 48;
  static constexpr Token kOwnMask = (Token{1} << kOwnBits) - 1;

  [[nodiscard]] Token tagged(Token token) const { return Token{user_} << kOwnBits | token; }

  PlayClock& whole_;
  std::uint32_t user_;
  Seconds begin_;
  std::vector<bool> devices_;  // By DeviceId.
  std::optional<std::vector<LinkId>> kept_;
};

}  // namespace rehearse
