#include <charconv>
#include <sstream>

#include "tests/golden/transcript.hpp"

namespace golden {
namespace {

bool starts_with(std::string_view text, std::string_view prefix) { return text.substr(0, prefix.size()) == prefix; }

class MarkdownParser {
 public:
  explicit MarkdownParser(std::string_view text) { transcript_.lines = split_lines(text); }

  Transcript parse() {
    for (at_ = 0; at_ < count(); ++at_) {
      if (!starts_with(line(at_), "```")) continue;
      std::istringstream info(line(at_).substr(3));
      std::string language;
      info >> language;
      if (language == "console")
        read_console(info);
      else
        skip_block();
    }
    return std::move(transcript_);
  }

 private:
  [[nodiscard]] int count() const { return static_cast<int>(transcript_.lines.size()); }
  [[nodiscard]] const std::string& line(int index) const { return transcript_.lines[static_cast<std::size_t>(index)]; }

  void skip_block() {
    const int opened = at_ + 1;
    for (++at_; at_ < count(); ++at_)
      if (starts_with(line(at_), "```")) return;
    throw ParseError(opened, "a fenced block without an end");
  }

  void read_console(std::istream& info) {
    const int opened = at_ + 1;
    Command shared;
    for (std::string word; info >> word;) read_word(word, shared);
    for (++at_; at_ < count() && !starts_with(line(at_), "```");) {
      if (!starts_with(line(at_), "$ "))
        throw ParseError(at_ + 1, "output before the first `$ COMMAND` of a console block");
      read_command(shared);
    }
    if (at_ == count()) throw ParseError(opened, "a fenced block without an end");
  }

  void read_word(const std::string& word, Command& shared) const {
    if (word == "ignore") {
      shared.skipped = "marked ignore";
      return;
    }
    if (!read_value(word, "exit=", "", shared.expected_status) && !read_tolerance(word, shared))
      throw ParseError(at_ + 1, "unknown word '" + word + "' after ```console; valid: ignore, exit=N, numbers=N%");
  }

  /// Whether `word` is `key`, a number and `unit`.
  template <class Number>
  static bool read_value(std::string_view word, std::string_view key, std::string_view unit, Number& value) {
    if (!starts_with(word, key) || word.size() <= key.size() + unit.size()) return false;
    const auto number = word.substr(key.size(), word.size() - key.size() - unit.size());
    const auto* end = number.data() + number.size();
    return word.substr(word.size() - unit.size()) == unit && std::from_chars(number.data(), end, value).ptr == end;
  }

  static bool read_tolerance(std::string_view word, Command& shared) {
    double percent = 0;
    if (!read_value(word, "numbers=", "%", percent) || !(percent > 0 && percent < 100)) return false;
    shared.number_tolerance = percent / 100;
    return true;
  }

  void read_command(const Command& shared) {
    Command command = shared;
    command.first_line = at_;
    command.text = line(at_).substr(2);
    while (!command.text.empty() && command.text.back() == '\\' && at_ + 1 < count()) {
      command.text.pop_back();
      command.text += line(++at_);
    }
    command.last_line = at_;
    if (command.skipped.empty() && (starts_with(command.text, "./bootstrap") || starts_with(command.text, "git clone")))
      command.skipped = "installs or fetches";
    for (++at_; at_ < count() && !starts_with(line(at_), "$ ") && !starts_with(line(at_), "```"); ++at_) {
      command.expected.push_back(line(at_));
      command.output_lines.push_back(at_);
    }
    drop_trailing_empty(command.expected);
    command.output_lines.resize(command.expected.size());
    transcript_.commands.push_back(std::move(command));
  }

  Transcript transcript_;
  int at_ = 0;
};

}  // namespace

Transcript parse_markdown(std::string_view text) { return MarkdownParser(text).parse(); }

}  // namespace golden
