#include "tests/golden/transcript.hpp"
#include "tests/support/catch.hpp"

using namespace golden;

TEST_CASE("a tesh block is one command with its input, output and status, in any order") {
  const auto transcript = parse_tesh("! expect return 2\n> out\n< in\n$ cmd -x\n\n$ other\n");
  REQUIRE(transcript.commands.size() == 2);
  const auto& command = transcript.commands[0];
  CHECK(command.text == "cmd -x");
  CHECK(command.input == "in\n");
  CHECK(command.expected == Lines{"out"});
  CHECK(command.expected_status == 2);
  CHECK(transcript.commands[1].text == "other");
  CHECK(transcript.commands[1].expected_status == 0);  // `expect return` holds for its own block
}

TEST_CASE("the next command ends a tesh block") {
  const auto transcript = parse_tesh("$ one\n> 1\n$ two\n> 2\n");
  REQUIRE(transcript.commands.size() == 2);
  CHECK(transcript.commands[0].expected == Lines{"1"});
  CHECK(transcript.commands[1].expected == Lines{"2"});
}

TEST_CASE("setenv holds from its line on") {
  const auto transcript = parse_tesh("$ one\n\n! setenv A=b=c\n$ two\n\n$ three\n");
  CHECK(transcript.commands[0].environment.empty());
  CHECK(transcript.commands[1].environment == decltype(Command::environment){{"A", "b=c"}});
  CHECK(transcript.commands[2].environment == transcript.commands[1].environment);
}

TEST_CASE("mistakes in a tesh file name their line") {
  const auto [text, line] = GENERATE(table<std::string, int>({{"$ a\n\nfoo\n", 3},
                                                              {"! expect return x\n", 1},
                                                              {"! expect return -1\n", 1},
                                                              {"! expect return\n", 1},
                                                              {"! setenv A\n", 1},
                                                              {"> lost\n\n$ a\n", 1}}));
  INFO(text);
  try {
    (void)parse_tesh(text);
    FAIL("accepted");
  } catch (const ParseError& error) {
    CHECK(error.line == line);
  }
}

TEST_CASE("only console blocks of a Markdown file are commands") {
  const auto transcript = parse_markdown("$ not this\n```sh\n$ nor this\n```\n```console\n$ this\nout\n\n```\n");
  REQUIRE(transcript.commands.size() == 1);
  CHECK(transcript.commands[0].text == "this");
  CHECK(transcript.commands[0].expected == Lines{"out"});
}

TEST_CASE("mistakes in a Markdown file name their line") {
  const auto [text, line] = GENERATE(table<std::string, int>({{"\n```console\n$ a\n", 2},
                                                              {"```console\nout\n```\n", 2},
                                                              {"```console exit=\n```\n", 1},
                                                              {"```console exit=1x\n```\n", 1},
                                                              {"```console ignored\n```\n", 1},
                                                              {"```console numbers=3\n```\n", 1},
                                                              {"```console numbers=%\n```\n", 1},
                                                              {"```console numbers=0%\n```\n", 1},
                                                              {"```console numbers=few%\n```\n", 1}}));
  INFO(text);
  try {
    (void)parse_markdown(text);
    FAIL("accepted");
  } catch (const ParseError& error) {
    CHECK(error.line == line);
  }
}

TEST_CASE("an outcome matches by output, order and status as the command asks") {
  Command command;
  command.expected = {"a", "b"};
  CHECK(matches(command, {{"a", "b"}, 0, false}));
  CHECK_FALSE(matches(command, {{"b", "a"}, 0, false}));
  CHECK_FALSE(matches(command, {{"a", "b"}, 1, false}));
  CHECK_FALSE(matches(command, {{"a", "b"}, 0, true}));
  command.check = OutputCheck::sorted;
  CHECK(matches(command, {{"b", "a"}, 0, false}));
  CHECK_FALSE(matches(command, {{"a", "b", "b"}, 0, false}));
  command.check = OutputCheck::ignored;
  CHECK(matches(command, {{"x"}, 0, false}));
  CHECK_FALSE(matches(command, {{"x"}, 1, false}));
}

TEST_CASE("a block's tolerance is its own commands', and lets their numbers move") {
  const auto transcript =
      parse_markdown("```console numbers=2.5% exit=3\n$ a\n10.0 s\n```\n```console\n$ b\n10.0 s\n```\n");
  REQUIRE(transcript.commands.size() == 2);
  const Outcome moved{{"10.2 s"}, 3, false};
  CHECK(transcript.commands[0].number_tolerance == 0.025);
  CHECK(matches(transcript.commands[0], moved));
  CHECK_FALSE(matches(transcript.commands[0], {{"10.2 s"}, 0, false}));
  CHECK_FALSE(matches(transcript.commands[0], {{"11.2 s"}, 3, false}));
  CHECK(transcript.commands[1].number_tolerance == 0);
  CHECK_FALSE(matches(transcript.commands[1], {{"10.2 s"}, 0, false}));
}

TEST_CASE("numbers within their tolerance are left as the page has them") {
  const std::string page = "```console numbers=3%\n$ a\n10.0 s\n$ b\n10.0 s\n```\n";
  CHECK(accept(parse_markdown(page), {{{"10.2 s"}, 0, false}, {{"12.0 s"}, 0, false}}) ==
        "```console numbers=3%\n$ a\n10.0 s\n$ b\n12.0 s\n```\n");
}

TEST_CASE("accepting what already matches changes nothing") {
  const std::string tesh = "p note\n! output sort\n$ a\n> 2\n> 1\n\n# end\n";
  CHECK(accept(parse_tesh(tesh), {{{"1", "2"}, 0, false}}) == tesh);
  const std::string page = "text\n```console\n$ a\nout\n\n$ b\n```\nend\n";
  CHECK(accept(parse_markdown(page), {{{"out"}, 0, false}, {{}, 0, false}}) == page);
}

TEST_CASE("accepting replaces output and status and keeps the rest") {
  CHECK(accept(parse_tesh("# c\n$ a \\\nb\n> old\n> older\n\np end\n"), {{{"new", "", "er"}, 4, false}}) ==
        "# c\n$ a \\\nb\n! expect return 4\n> new\n>\n> er\n\np end\n");
  CHECK(accept(parse_tesh("! expect return 4\n$ a\n"), {{{}, 0, false}}) == "$ a\n");
  CHECK(accept(parse_markdown("```console\n$ a\nold\n\n$ b\n```\n"), {{{"new", "er"}, 0, false}, {{}, 0, false}}) ==
        "```console\n$ a\nnew\ner\n\n$ b\n```\n");
}

TEST_CASE("an accepted status belongs to its own command") {
  const auto text = accept(parse_tesh("$ one\n$ two\n"), {{{}, 0, false}, {{}, 5, false}});
  const auto again = parse_tesh(text);
  CHECK(again.commands[0].expected_status == 0);
  CHECK(again.commands[1].expected_status == 5);
}

TEST_CASE("what a page skips isn't changed, and a failure isn't written into it") {
  const std::string page = "```console\n$ ./bootstrap demo\nlong ago\n$ a\n```\n";
  CHECK(accept(parse_markdown(page), {{}, {{}, 0, false}}) == page);
  CHECK_THROWS_AS(accept(parse_markdown(page), {{}, {{}, 1, false}}), ParseError);
}
