#pragma once
// A verb run for a caller in another language: what it answered, and how it is told to end.

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/base/stop.hpp"
#include "core/cli/console.hpp"
#include "core/report/formats/document.hpp"
#include "core/report/html/html_report.hpp"

namespace rehearse::python {

/// What a verb had to say. It holds no reference to what it was made from.
struct Answer {
  int code = 0;                      ///< Exit code of the command line.
  std::string printed;               ///< Of verbs that print text and build no document, such as --dry-run.
  std::string notes;                 ///< What the command line writes to standard error.
  std::optional<Document> document;  ///< The answer itself.
  std::optional<HtmlReport> page;    ///< What --html writes.

  /// What `--format json` writes, byte for byte; `printed` where there is no document.
  [[nodiscard]] const std::string& json() const;
  /// The answer in a registered format, as wide as `width` columns, at least 40. Throws Error (usage) for an unknown
  /// format.
  [[nodiscard]] std::string text(const std::string& format, int width) const;
  /// Why `code` is not 0: a sentence, and what to type next, which may be empty.
  [[nodiscard]] std::pair<std::string, std::string> verdict() const;
};

/// An option or an argument by position, by its long name ("--set", "SCENARIO"), and what was given for it.
using Given = std::vector<std::pair<std::string, std::string>>;

/// Runs the verb called `name`. `stop`, which any thread may call, says whether the work is to end. Throws what verbs
/// throw: Error, cli::Interrupted, Stopped (core/base/stop.hpp), and Error (usage) for an unknown verb.
[[nodiscard]] Answer run_verb(const std::string& name, const Given& given, const StopAsked& stop);

}  // namespace rehearse::python
