#pragma once
// The one error type. Libraries throw it, never print and never exit; only `main` maps `kind` to an exit code.

#include <stdexcept>
#include <string>
#include <utility>

namespace rehearse {

/// What went wrong, as the caller of the program sees it. The value is the exit code of the command line.
enum class ErrorKind {
  check_failed = 1,  ///< It ran, and its own check refused the result (a breach of physics, a golden, `--max-error`).
  usage = 2,         ///< Bad option, scenario or file.
  infeasible = 3,    ///< A result: the plan does not fit or cannot exist on this machine.
  unavailable = 4,   ///< The back end is not built in or finds no device.
};

/// `what()` is the sentence about the offending value; `where` is "file: /json/path" or the option; `hint` is what to
/// type next.
class Error : public std::runtime_error {
 public:
  Error(ErrorKind error_kind, const std::string& what, std::string at = {}, std::string advice = {})
      : std::runtime_error(what), kind(error_kind), where(std::move(at)), hint(std::move(advice)) {}

  ErrorKind kind;
  std::string where;
  std::string hint;
};

/// Throws Error (usage): `what` is wrong with the value at `where`.
[[noreturn]] inline void refuse_at(const std::string& where, const std::string& what, const std::string& hint = {}) {
  throw Error(ErrorKind::usage, what, where, hint);
}

}  // namespace rehearse
