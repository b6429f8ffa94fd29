#include "tests/golden/shell.hpp"

#include <csignal>
#include <fstream>

#include "tests/support/catch.hpp"

using namespace golden;
namespace fs = std::filesystem;

namespace {

Outcome run(const std::string& text, const fs::path& directory = ".", const std::string& input = {}) {
  Command command;
  command.text = text;
  command.input = input;
  return run_command(command, directory);
}

}  // namespace

TEST_CASE("a command's two streams are read as one, in order") {
  CHECK(run("echo 1; echo 2 >&2; echo 3").output == Lines{"1", "2", "3"});
}

TEST_CASE("a command's status is its own, a signal is 128 and its number") {
  CHECK(run("exit 7").status == 7);
  CHECK(run("no_such_command_here").status == 127);
  CHECK(run("kill -TERM $$").status == 128 + SIGTERM);
}

TEST_CASE("input larger than a pipe reaches the command") {
  const auto outcome = run("wc -c | tr -d ' '", ".", std::string(1 << 20, 'x'));
  CHECK(outcome.output == Lines{"1048576"});
}

TEST_CASE("output has no ends of lines that only the terminal sees") {
  CHECK(run("printf 'a\\n\\nb\\n\\n\\n'").output == Lines{"a", "", "b"});
  CHECK(run("printf 'no newline'").output == Lines{"no newline"});
  CHECK(run("true").output.empty());
}

TEST_CASE("a directory that isn't there is an error, not a run elsewhere") {
  CHECK(run("echo here", "/nonexistent/place").status == 127);
}

TEST_CASE("a scratch directory shows the source and keeps it clean") {
  const ScratchDirectory source(fs::current_path() / "..", {});  // any directory that this test may write in
  std::ofstream(source.path() / "given.txt") << "given\n";
  fs::create_directories(source.path() / "build/old");
  fs::path seen;
  {
    const ScratchDirectory scratch(source.path(), {{"build/default/bin", "/usr/bin"}});
    seen = scratch.path();
    CHECK(run("cat given.txt; echo made > made.txt; test -x build/default/bin/env && echo linked", seen).output ==
          Lines{"given", "linked"});
    CHECK_FALSE(fs::exists(seen / "build/old"));  // the link's first part hides it
  }
  CHECK_FALSE(fs::exists(seen));
  CHECK_FALSE(fs::exists(source.path() / "made.txt"));
  CHECK(fs::exists(source.path() / "given.txt"));
}
