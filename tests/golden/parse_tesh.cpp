#include <charconv>

#include "tests/golden/transcript.hpp"

namespace golden {
namespace {

constexpr std::string_view kMetaCommands =
    "expect return N, output ignore, output sort, setenv NAME=VALUE, timeout N, timeout no";

/// Removes `prefix` from `text` and says whether it was there.
bool consume(std::string_view& text, std::string_view prefix) {
  if (text.substr(0, prefix.size()) != prefix) return false;
  text.remove_prefix(prefix.size());
  return true;
}

class TeshParser {
 public:
  explicit TeshParser(std::string_view text) {
    transcript_.lines = split_lines(text);
    transcript_.output_prefix = "> ";
  }

  Transcript parse() {
    for (at_ = 0; at_ < static_cast<int>(transcript_.lines.size()); ++at_) read_line(line(at_));
    finish_block();
    return std::move(transcript_);
  }

 private:
  [[nodiscard]] const std::string& line(int index) const { return transcript_.lines[static_cast<std::size_t>(index)]; }

  void read_line(std::string_view text) {
    if (text.empty()) return finish_block();
    const char kind = text.front();
    text.remove_prefix(1);
    consume(text, " ");
    switch (kind) {
      case '#': return;
      case 'p': current_.note = text; return;
      case '<': current_.input += std::string(text) + "\n"; return;
      case '>': return expect_output(text);
      case '$': return start_command();
      case '!': return read_meta(text);
      default: throw ParseError(at_ + 1, std::string("a line starts with one of p # $ < > !, not with '") + kind + "'");
    }
  }

  void expect_output(std::string_view text) {
    current_.expected.emplace_back(text);
    current_.output_lines.push_back(at_);
  }

  void start_command() {
    if (!current_.text.empty()) finish_block();
    current_.first_line = at_;
    current_.text = line(at_).substr(line(at_).find_first_not_of("$ "));
    while (current_.text.back() == '\\' && at_ + 1 < static_cast<int>(transcript_.lines.size())) {
      current_.text.pop_back();
      current_.text += line(++at_);
    }
    current_.last_line = at_;
  }

  void read_meta(std::string_view text) {
    const auto whole = std::string(text);
    if (text == "output ignore") {
      current_.check = OutputCheck::ignored;
    } else if (text == "output sort") {
      current_.check = OutputCheck::sorted;
    } else if (text == "timeout no") {
      current_.timeout_s = 0;
    } else if (consume(text, "expect return ")) {
      current_.expected_status = number(text);
      current_.status_line = at_;
    } else if (consume(text, "timeout ")) {
      current_.timeout_s = number(text);
    } else if (consume(text, "setenv ") && text.find('=') != std::string_view::npos) {
      const auto equals = text.find('=');
      environment_.emplace_back(text.substr(0, equals), text.substr(equals + 1));
    } else {
      throw ParseError(at_ + 1, "unknown metacommand '! " + whole + "'; valid: " + std::string(kMetaCommands));
    }
  }

  [[nodiscard]] int number(std::string_view text) const {
    int value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size() || value < 0)
      throw ParseError(at_ + 1, "'" + std::string(text) + "' is not a number");
    return value;
  }

  void finish_block() {
    if (current_.text.empty()) {
      if (!current_.expected.empty()) throw ParseError(at_, "expected output without a command");
      return;  // A note or a metacommand above the block that it belongs to.
    }
    drop_trailing_empty(current_.expected);
    current_.environment = environment_;
    transcript_.commands.push_back(std::move(current_));
    current_ = Command{};
  }

  Transcript transcript_;
  Command current_;
  std::vector<std::pair<std::string, std::string>> environment_;
  int at_ = 0;
};

}  // namespace

Transcript parse_tesh(std::string_view text) { return TeshParser(text).parse(); }

}  // namespace golden
