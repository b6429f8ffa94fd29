#pragma once
// Long runs: progress on a terminal, and an end when the user asks for one.

#include <chrono>
#include <functional>
#include <ostream>
#include <stdexcept>
#include <string>

#include "core/cli/console.hpp"
#include "core/play/backend.hpp"

namespace rehearse::cli {

/// The exit code of work that the user ended, as a shell reports SIGINT.
inline constexpr int kInterrupted = 130;

/// The user ended the work; main maps it to kInterrupted.
class Interrupted : public std::runtime_error {
 public:
  Interrupted() : std::runtime_error("interrupted") {}
};

/// From its making on, Ctrl-C (SIGINT) is noted, and check() ends the work; a second one ends the process at once.
/// One at a time. Of a console with a caller, signals are left alone, nothing is shown, and the caller says when to
/// end.
class RunWatch {
 public:
  /// Progress goes to the console's `err` where that is a terminal; nothing is written otherwise.
  explicit RunWatch(Console& console);
  /// The same without progress, where not `shows`.
  RunWatch(Console& console, bool shows);
  ~RunWatch();
  RunWatch(const RunWatch&) = delete;
  RunWatch& operator=(const RunWatch&) = delete;

  /// Throws Interrupted after Ctrl-C.
  void check() const;
  /// Whether Ctrl-C was pressed: for work that ends with what it has. May be asked from any thread.
  [[nodiscard]] bool stopped() const;
  /// stopped() as functions that take long are given it. The watch must outlive it.
  [[nodiscard]] std::function<bool()> stop() const;
  /// A few times a second writes `doing`, the share done and the time left over the line before; `done` of `all` in any
  /// unit. Where nobody knows `all` it is 0, and the line says what is done.
  void progress(const std::string& doing, double done, double all);
  /// Checks, and a few times a second writes share done, time simulated and time left over the line before.
  void progress(const RunProgress& now);
  /// Takes the line away.
  void clear();

 private:
  using Clock = std::chrono::steady_clock;
  void write(double share, const std::string& text);
  void write_line(const std::string& line);
  std::ostream& err_;
  Caller* caller_;
  bool shows_;
  bool written_ = false;
  Clock::time_point begun_, next_;
};

/// Whether standard error is a terminal.
[[nodiscard]] bool errors_on_terminal();

}  // namespace rehearse::cli
