#pragma once
// Where a verb prints: results on `out`, everything else on `err`; and who takes answers that are not printed.

#include <ostream>

#include "core/report/formats/document.hpp"

namespace rehearse {
struct HtmlReport;
}

namespace rehearse::cli {

/// A program that runs verbs itself, such as a module of another language: it gets objects in place of text.
class Caller {
 public:
  virtual ~Caller() = default;
  /// The answer, in place of what would be printed or written to -o.
  virtual void take(const Document& answer) = 0;
  /// What --html would write, with its pictures' data.
  virtual void take(const HtmlReport& page) = 0;
  /// Whether the work is to end, in place of Ctrl-C, which is then left to the caller. Asked often, from any thread.
  [[nodiscard]] virtual bool stops() = 0;
};

struct Console {
  std::ostream& out;
  std::ostream& err;
  TextStyle style;           ///< Of results on `out`.
  Caller* caller = nullptr;  ///< Null: answers are printed.
};

/// Style for the standard output of this process: as wide as COLUMNS or the terminal says, else 100; colours only on a
/// terminal, and neither with NO_COLOR set nor with TERM=dumb.
[[nodiscard]] TextStyle terminal_style();

}  // namespace rehearse::cli
