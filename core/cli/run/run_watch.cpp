#include "core/cli/run/run_watch.hpp"

#include <cmath>
#include <csignal>

#include <fmt/format.h>
#include <unistd.h>

namespace rehearse::cli {

namespace {

volatile std::sig_atomic_t interrupted = 0;

struct sigaction before {};  ///< What a second Ctrl-C does.

extern "C" void note_interrupt(int) {
  interrupted = 1;
  sigaction(SIGINT, &before, nullptr);
}

constexpr std::chrono::milliseconds kEvery{250};

std::string duration(double seconds) {
  const auto whole = std::lround(seconds);
  return whole < 120 ? fmt::format("{} s", whole) : fmt::format("{} min", (whole + 30) / 60);
}

}  // namespace

RunWatch::RunWatch(Console& console) : RunWatch(console, errors_on_terminal()) {}

RunWatch::RunWatch(Console& console, bool shows)
    : err_(console.err),
      caller_(console.caller),
      shows_(shows && caller_ == nullptr),
      begun_(Clock::now()),
      next_(begun_ + 2 * kEvery) {
  if (caller_ != nullptr) return;
  interrupted = 0;
  struct sigaction action {};
  action.sa_handler = note_interrupt;
  sigaction(SIGINT, &action, &before);
}

RunWatch::~RunWatch() {
  clear();
  if (caller_ == nullptr) sigaction(SIGINT, &before, nullptr);
}

void RunWatch::check() const {
  if (stopped()) throw Interrupted();
}

bool RunWatch::stopped() const { return caller_ != nullptr ? caller_->stops() : interrupted != 0; }

std::function<bool()> RunWatch::stop() const {
  return [this] { return stopped(); };
}

void RunWatch::progress(const RunProgress& now) {
  check();
  write(static_cast<double>(now.done) / static_cast<double>(now.all),
        fmt::format("{} operations, {} simulated", now.all, to_string(now.simulated)));
}

void RunWatch::progress(const std::string& doing, double done, double all) {
  if (all > 0)
    write(done / all, doing);
  else if (done > 0)
    write_line(fmt::format("{}, {:.0f} done", doing, done));
}

void RunWatch::write(double share, const std::string& text) {
  if (share <= 0) return;
  const double passed = std::chrono::duration<double>(Clock::now() - begun_).count();
  write_line(fmt::format("{:.0f} % of {}, about {} left", 100 * share, text, duration(passed / share - passed)));
}

void RunWatch::write_line(const std::string& line) {
  if (!shows_ || Clock::now() < next_) return;
  next_ = Clock::now() + kEvery;
  err_ << "\r\033[K" << line;
  err_.flush();
  written_ = true;
}

void RunWatch::clear() {
  if (written_) err_ << "\r\033[K" << std::flush;
  written_ = false;
}

bool errors_on_terminal() { return isatty(STDERR_FILENO) == 1; }

}  // namespace rehearse::cli
