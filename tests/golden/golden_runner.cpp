// Runs the commands of transcripts and compares their output with what the transcripts say.

#include <algorithm>
#include <exception>
#include <fstream>
#include <iostream>
#include <iterator>
#include <memory>

#include "tests/golden/diff.hpp"
#include "tests/golden/numbers.hpp"
#include "tests/golden/shell.hpp"
#include "tests/golden/transcript.hpp"

namespace golden {
namespace {

namespace fs = std::filesystem;

constexpr const char* kUsage =
    R"(usage: golden_runner [options] FILE...
Runs the commands of tesh files and compares exit status and output (stdout and stderr together).

  --readme            the files are Markdown: run the commands of their ```console blocks
  --cd DIR            run commands in DIR (default: the current directory)
  --path DIR          look for programs in DIR first; repeatable
  --scratch           run in a temporary directory that links to what DIR holds, so that nothing is written in DIR
  --link NAME=TARGET  with --scratch, show TARGET as NAME; repeatable
  --update            write the obtained output and exit status into the files

Exit status: 0 all as expected or updated, 1 a mismatch, 2 wrong usage or an unreadable file.
)";

struct UsageError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct Options {
  bool readme = false, scratch = false, update = false, help = false;
  fs::path directory = ".";
  std::vector<fs::path> program_directories;
  std::vector<std::pair<std::string, fs::path>> links;
  std::vector<fs::path> files;
};

std::pair<std::string, fs::path> parse_link(const std::string& text) {
  const auto equals = text.find('=');
  if (equals == std::string::npos || equals == 0) throw UsageError("--link takes NAME=TARGET, not '" + text + "'");
  return {text.substr(0, equals), text.substr(equals + 1)};
}

Options parse_options(const std::vector<std::string>& arguments) {
  Options options;
  for (auto at = arguments.begin(); at != arguments.end(); ++at) {
    const auto& word = *at;
    const auto value = [&]() -> const std::string& {
      if (at + 1 == arguments.end()) throw UsageError(word + " needs a value");
      return *++at;
    };
    if (word == "--readme")
      options.readme = true;
    else if (word == "--scratch")
      options.scratch = true;
    else if (word == "--update")
      options.update = true;
    else if (word == "--help")
      options.help = true;
    else if (word == "--cd")
      options.directory = value();
    else if (word == "--path")
      options.program_directories.emplace_back(value());
    else if (word == "--link")
      options.links.push_back(parse_link(value()));
    else if (word.substr(0, 1) == "-")
      throw UsageError("unknown option '" + word + "'");
    else
      options.files.emplace_back(word);
  }
  if (options.files.empty() && !options.help) throw UsageError("no file given");
  return options;
}

struct Count {
  int passed = 0, failed = 0, skipped = 0;
};

std::string read_text(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  if (!in) throw UsageError("cannot read " + file.string());
  return {std::istreambuf_iterator<char>(in), {}};
}

Lines sorted_if_asked(Lines lines, OutputCheck check) {
  if (check == OutputCheck::sorted) std::sort(lines.begin(), lines.end());
  return lines;
}

/// Numbers beyond their tolerance, where that is all that differs; else the lines that do.
Lines output_mismatch(const Command& command, const Outcome& outcome) {
  if (command.number_tolerance > 0) {
    auto comparison = compare_numbers(command.expected, outcome.output, command.number_tolerance);
    if (comparison.same_text) return std::move(comparison.outside);
  }
  return unified_diff(sorted_if_asked(command.expected, command.check), sorted_if_asked(outcome.output, command.check));
}

void print_mismatch(const Command& command, const Outcome& outcome) {
  if (!command.note.empty()) std::cout << "  " << command.note << "\n";
  if (command.check != OutputCheck::ignored)
    for (const auto& line : output_mismatch(command, outcome)) std::cout << line << "\n";
  if (outcome.timed_out)
    std::cout << "stopped after " << command.timeout_s << " s\n";
  else if (outcome.status != command.expected_status)
    std::cout << "exit status " << outcome.status << ", expected " << command.expected_status << "\n";
}

Outcome check_command(const Command& command, const std::string& where, const fs::path& directory, bool update,
                      Count& count) {
  const auto report = [&](const char* verdict) { std::cout << verdict << " " << where << "  $ " << command.text; };
  if (!command.skipped.empty()) {
    report("SKIP");
    std::cout << "  (" << command.skipped << ")\n";
    ++count.skipped;
    return {};
  }
  auto outcome = run_command(command, directory);
  if (matches(command, outcome)) {
    report("PASS");
    std::cout << "\n";
    ++count.passed;
    return outcome;
  }
  report(update && !outcome.timed_out ? "UPDATE" : "FAIL");
  std::cout << "\n";
  print_mismatch(command, outcome);
  ++(update && !outcome.timed_out ? count.passed : count.failed);
  return outcome;
}

void check_file(const fs::path& file, const Options& options, const fs::path& directory, Count& count) {
  const auto text = read_text(file);
  try {
    const auto transcript = options.readme ? parse_markdown(text) : parse_tesh(text);
    if (transcript.commands.empty()) throw UsageError(file.string() + " holds no command");
    std::vector<Outcome> outcomes;
    for (const auto& command : transcript.commands) {
      const auto where = file.string() + ":" + std::to_string(command.first_line + 1);
      outcomes.push_back(check_command(command, where, directory, options.update, count));
    }
    if (!options.update) return;
    if (const auto accepted = accept(transcript, outcomes); accepted != text)
      std::ofstream(file, std::ios::binary) << accepted;
  } catch (const ParseError& error) {
    throw UsageError(file.string() + ":" + std::to_string(error.line) + ": " + error.what());
  }
}

int run(const std::vector<std::string>& arguments) {
  const auto options = parse_options(arguments);
  if (options.help) {
    std::cout << kUsage;
    return 0;
  }
  prepare_environment(options.program_directories);
  std::unique_ptr<ScratchDirectory> scratch;
  if (options.scratch) scratch = std::make_unique<ScratchDirectory>(options.directory, options.links);

  Count count;
  for (const auto& file : options.files)
    check_file(file, options, scratch ? scratch->path() : options.directory, count);
  std::cout << count.passed << (options.update ? " passed or updated, " : " passed, ") << count.failed << " failed, "
            << count.skipped << " skipped\n";
  if (count.failed == 0) return 0;
  if (options.update) return 1;
  std::cout << "to accept what was obtained:\n  golden_runner --update";
  for (const auto& argument : arguments) std::cout << " " << argument;
  std::cout << "\n";
  return 1;
}

}  // namespace
}  // namespace golden

int main(int argc, char* argv[]) {
  try {
    return golden::run({argv + 1, argv + argc});
  } catch (const golden::UsageError& error) {
    std::cerr << "golden_runner: " << error.what() << "\ntry: golden_runner --help\n";
  } catch (const std::exception& error) {
    std::cerr << "golden_runner: " << error.what() << "\n";
  }
  return 2;
}
