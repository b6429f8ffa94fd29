#include <atomic>
#include <csignal>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <new>
#include <system_error>

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include "core/base/error.hpp"
#include "core/cli/run/run_watch.hpp"
#include "core/cli/verb.hpp"
#include "core/report/formats/text_output.hpp"

namespace {

int report(const rehearse::Error& e) {
  std::cerr << fmt::format("error: {}{}{}\n", e.where, e.where.empty() ? "" : ": ", e.what());
  if (!e.hint.empty()) std::cerr << fmt::format("  hint: {}\n", e.hint);
  return static_cast<int>(e.kind);
}

pid_t program = 0;    ///< Not of its children.
bool speaks = false;  ///< Ranks are many and leave it to the process that started them.

/// Ends as the signal would have, with nothing half written.
extern "C" void end_cleanly(int signal) {
  if (getpid() == program) {
    rehearse::remove_drafts();
    constexpr char kText[] = "interrupted\n";
    if (signal == SIGINT && speaks) (void)!write(STDERR_FILENO, kText, sizeof kText - 1);
  }
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

void end_cleanly_on_signals() {
  program = getpid();
  speaks = std::getenv("REHEARSE_LAUNCHED") == nullptr;
  for (const int s : {SIGINT, SIGTERM, SIGHUP})
    if (std::signal(s, end_cleanly) == SIG_IGN) std::signal(s, SIG_IGN);  // As under nohup.
}

std::atomic<bool> memory_failed = false;
std::terminate_handler terminate_else = nullptr;

/// Without running what libraries do at a program's end, which may want memory itself.
[[noreturn]] void end_without_memory() {
  constexpr char kText[] = "error: not enough memory on this machine\n";
  if (getpid() == program) rehearse::remove_drafts();
  (void)!write(STDERR_FILENO, kText, sizeof kText - 1);
  _exit(static_cast<int>(rehearse::ErrorKind::unavailable));
}

/// Libraries allocate in destructors and in functions that may not throw (a JSON value's destructor does), where an
/// exception ends the program: no answer can be given then, but what was missing can be said.
void on_terminate() {
  bool other = false;
  try {
    if (const std::exception_ptr e = std::current_exception()) std::rethrow_exception(e);
  } catch (const std::bad_alloc&) {  // Not known by type where a function that may not throw let nobody catch it.
  } catch (...) {
    other = true;
  }
  if (!memory_failed || other) terminate_else();
  end_without_memory();
}

void say_where_memory_ends() {
  std::set_new_handler([] {
    memory_failed = true;
    throw std::bad_alloc();
  });
  terminate_else = std::set_terminate(on_terminate);
}

/// Whether standard output is a pipe that nobody reads any more, as behind `| head -1`.
bool reader_is_gone() {
  pollfd out{STDOUT_FILENO, POLLOUT, 0};
  return poll(&out, 1, 0) == 1 && (out.revents & (POLLERR | POLLHUP)) != 0;
}

}  // namespace

int main(int argc, char** argv) {
  constexpr int kInternalError = 70;  // As sysexits.h has it; tells a defect of ours from a failed check.
  end_cleanly_on_signals();
  say_where_memory_ends();
  // Files are still written, and the exit code is that of the answer, where a reader has seen enough.
  std::signal(SIGPIPE, SIG_IGN);
  try {
    rehearse::cli::Console console{std::cout, std::cerr, rehearse::cli::terminal_style()};
    const int code = rehearse::cli::run_command_line({argv + 1, argv + argc}, console);
    std::cout.flush();
    if (!std::cout && !reader_is_gone())
      throw rehearse::Error(rehearse::ErrorKind::check_failed, "cannot write the result", "standard output");
    return code;
  } catch (const rehearse::Error& e) {
    return report(e);
  } catch (const rehearse::cli::Interrupted&) {
    std::cerr << "interrupted\n";
    return rehearse::cli::kInterrupted;
  } catch (const std::bad_alloc&) {
    end_without_memory();
  } catch (const std::system_error& e) {
    return report({rehearse::ErrorKind::unavailable, e.what(), "", "see what the system has left: ulimit -a, df -h"});
  } catch (const std::exception& e) {
    std::cerr << fmt::format("internal error: {}\n  hint: please report it with the scenario that shows it\n",
                             e.what());
    return kInternalError;
  }
}
