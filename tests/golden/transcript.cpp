#include "tests/golden/transcript.hpp"

#include <algorithm>
#include <set>

#include "tests/golden/numbers.hpp"

namespace golden {

Lines split_lines(std::string_view text) {
  Lines lines;
  while (!text.empty()) {
    const auto end = text.find('\n');
    lines.emplace_back(text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return lines;
}

void drop_trailing_empty(Lines& lines) {
  while (!lines.empty() && lines.back().empty()) lines.pop_back();
}

bool matches(const Command& command, const Outcome& outcome) {
  if (outcome.timed_out || outcome.status != command.expected_status) return false;
  switch (command.check) {
    case OutputCheck::ignored: return true;
    case OutputCheck::exact:
      return command.expected == outcome.output ||
             (command.number_tolerance > 0 &&
              compare_numbers(command.expected, outcome.output, command.number_tolerance).alike());
    case OutputCheck::sorted: {
      const std::multiset<std::string> expected(command.expected.begin(), command.expected.end());
      return expected == std::multiset<std::string>(outcome.output.begin(), outcome.output.end());
    }
  }
  return false;
}

namespace {

/// Lines to leave out and lines to write after one.
struct Edits {
  explicit Edits(std::size_t count) : dropped(count, false), after(count) {}
  std::vector<bool> dropped;
  std::vector<Lines> after;
};

void accept_status(const Transcript& transcript, const Command& command, const Outcome& outcome, Edits& edits) {
  if (outcome.status == command.expected_status) return;
  if (transcript.output_prefix.empty())
    throw ParseError(command.first_line + 1, "the command returned " + std::to_string(outcome.status) +
                                                 "; write exit=N after ```console if that is right");
  if (command.status_line >= 0) edits.dropped[static_cast<std::size_t>(command.status_line)] = true;
  // Below the command: above it, the line could belong to the block before.
  if (outcome.status != 0)
    edits.after[static_cast<std::size_t>(command.last_line)].push_back("! expect return " +
                                                                       std::to_string(outcome.status));
}

void accept_output(const Transcript& transcript, const Command& command, const Outcome& outcome, Edits& edits) {
  if (command.check == OutputCheck::ignored) return;
  for (int line : command.output_lines) edits.dropped[static_cast<std::size_t>(line)] = true;
  for (const auto& line : outcome.output)
    edits.after[static_cast<std::size_t>(command.last_line)].push_back(
        line.empty() && !transcript.output_prefix.empty() ? ">" : transcript.output_prefix + line);
}

}  // namespace

std::string accept(const Transcript& transcript, const std::vector<Outcome>& outcomes) {
  Edits edits(transcript.lines.size());
  for (std::size_t i = 0; i < transcript.commands.size(); ++i) {
    const auto& command = transcript.commands[i];
    if (!command.skipped.empty() || outcomes[i].timed_out || matches(command, outcomes[i])) continue;
    accept_status(transcript, command, outcomes[i], edits);
    accept_output(transcript, command, outcomes[i], edits);
  }
  std::string text;
  const auto write = [&](const std::string& line) { text += line + "\n"; };
  for (std::size_t i = 0; i < transcript.lines.size(); ++i) {
    if (!edits.dropped[i]) write(transcript.lines[i]);
    std::for_each(edits.after[i].begin(), edits.after[i].end(), write);
  }
  return text;
}

}  // namespace golden
