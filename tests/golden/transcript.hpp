#pragma once
// A transcript: commands and the output they must give, read from a tesh file or from the console blocks of a Markdown
// file.
//
// tesh files are SimGrid's format. The first character of a line says what it is, a block ends at an empty line or at
// the next `$`:
//     p TEXT                a note, shown when a command of this block fails
//     # TEXT                a comment
//     $ COMMAND             run by bash; a trailing backslash continues it
//     < TEXT                a line of its standard input
//     > TEXT                a line of its output, stdout and stderr together
//     ! expect return N     the exit status it must have (default 0; a signal is 128 + its number)
//     ! output ignore       its output is not compared
//     ! output sort         lines may come in any order
//     ! setenv NAME=VALUE   from here on
//     ! timeout N|no        seconds (default 300)
//
// In Markdown a block fenced as ```console holds `$ COMMAND` lines, each followed by its output up to the next `$` or
// the end. The info string may add `ignore` (not run), `exit=N`, and `numbers=N%`: numbers may be off by so much, which
// keeps a page true while constants are measured again (numbers.hpp). Commands that install or fetch (./bootstrap, git
// clone) are skipped.

#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace golden {

using Lines = std::vector<std::string>;

enum class OutputCheck { exact, sorted, ignored };

struct Command {
  std::string text;     ///< What bash runs; empty while a tesh block has no `$` line yet.
  std::string note;     ///< The last `p` line above it.
  std::string skipped;  ///< Why it isn't run; empty when it is.
  std::string input;
  Lines expected;  ///< Without trailing empty lines.
  std::vector<std::pair<std::string, std::string>> environment;
  OutputCheck check = OutputCheck::exact;
  /// How far numbers may be off, relative to the larger (numbers.hpp); 0: the output is compared as text.
  double number_tolerance = 0;
  int expected_status = 0;
  int timeout_s = 300;  ///< Bounds what hangs, on a busy machine too. 0 is no limit.

  // Where the command stands in the transcript: indices from 0 into Transcript::lines.
  int first_line = 0;
  int last_line = 0;              ///< Differs from first_line where the command is continued.
  int status_line = -1;           ///< Its `! expect return`, -1 where there is none.
  std::vector<int> output_lines;  ///< The lines of `expected`.
};

struct Transcript {
  Lines lines;
  std::string output_prefix;  ///< "> " in tesh, nothing in Markdown.
  std::vector<Command> commands;
};

/// What a command did.
struct Outcome {
  Lines output;  ///< Without trailing empty lines.
  int status = 0;
  bool timed_out = false;
};

/// `line` counts from 1.
class ParseError : public std::runtime_error {
 public:
  ParseError(int line_number, const std::string& what) : std::runtime_error(what), line(line_number) {}
  int line;
};

/// Both throw ParseError on a line or an info string that they don't know.
[[nodiscard]] Transcript parse_tesh(std::string_view text);
[[nodiscard]] Transcript parse_markdown(std::string_view text);

/// Whether the outcome is what the command must give.
[[nodiscard]] bool matches(const Command& command, const Outcome& outcome);

/// The transcript's text with the outcomes as its expectations, one per command; those of skipped commands and ignored
/// outputs stay.
[[nodiscard]] std::string accept(const Transcript& transcript, const std::vector<Outcome>& outcomes);

[[nodiscard]] Lines split_lines(std::string_view text);
void drop_trailing_empty(Lines& lines);

}  // namespace golden
