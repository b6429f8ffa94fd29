// A reader of shell scripts: POSIX shell and what launch scripts use of bash (arrays, [[ ]], (( )), here-documents).

#include <algorithm>
#include <array>
#include <cctype>

#include <fmt/format.h>

#include "core/import/job/shell/word_reader.hpp"

namespace rehearse::job {

namespace {

class Parser : public WordReader {
 public:
  using WordReader::WordReader;

  List all() {
    List out = list({});
    if (!at_end()) fail(fmt::format("'{}' here ends nothing", peek()));
    return out;
  }

 private:
  void skip_lines() {
    for (skip_blanks(); !at_end() && (peek() == '\n' || peek() == ';'); skip_blanks()) {
      if (peek() == ';' && peek(1) == ';') return;
      if (peek() == '\n')
        newline();
      else
        ++i_;
    }
  }

  /// The reserved word that stands here, empty for any other.
  std::string reserved() const {
    static constexpr std::array<std::string_view, 18> kWords{"if",    "then", "elif", "else", "fi",       "while",
                                                             "until", "for",  "do",   "done", "case",     "esac",
                                                             "{",     "}",    "!",    "[[",   "function", "select"};
    for (const std::string_view w : kWords) {
      const char after = peek(w.size());
      if (looking_at(w) && (after == '\0' || ends_word(after))) return std::string(w);
    }
    return {};
  }

  void expect(const std::string& word, const std::string& of, Place since) {
    skip_lines();
    if (reserved() != word) fail(fmt::format("'{}' without '{}'", of, word), since);
    i_ += word.size();
  }

  List list(const std::vector<std::string>& until) {
    if (++depth_ > kDeepest) fail("commands are inside one another too deep");
    List out;
    for (skip_lines(); !at_end(); skip_lines()) {
      const std::string word = reserved();
      if (std::find(until.begin(), until.end(), word) != until.end() && !word.empty()) break;
      if (peek() == ')' || looking_at(";;")) break;
      and_or(out);
      skip_blanks();
      if (peek() == '&' && peek(1) != '&') ++i_;
    }
    --depth_;
    return out;
  }

  void and_or(List& out) {
    out.emplace_back(";", pipeline());
    for (skip_blanks(); looking_at("&&") || looking_at("||"); skip_blanks()) {
      const std::string join(text(2));
      i_ += 2;
      skip_lines();
      out.emplace_back(join, pipeline());
    }
  }

  std::shared_ptr<Node> pipeline() {
    skip_blanks();
    auto out = made(Node::Kind::pipeline);
    if (reserved() == "!") {
      ++i_;
      out->kind = Node::Kind::negation;
      out->parts.push_back(pipeline());
      return out;
    }
    out->parts.push_back(command());
    for (skip_blanks(); peek() == '|' && peek(1) != '|'; skip_blanks()) {
      i_ += peek(1) == '&' ? 2 : 1;
      skip_lines();
      out->parts.push_back(command());
    }
    return out->parts.size() == 1 ? out->parts.front() : out;
  }

  [[nodiscard]] std::shared_ptr<Node> made(Node::Kind kind) const {
    auto out = std::make_shared<Node>();
    out->kind = kind;
    out->place = here();
    return out;
  }

  std::shared_ptr<Node> command() {
    skip_blanks();
    std::shared_ptr<Node> out = compound();
    if (!out) return simple();
    for (skip_blanks(); redirection(*out); skip_blanks()) {}
    return out;
  }

  /// Null where a simple command stands here.
  std::shared_ptr<Node> compound() {
    const std::string word = reserved();
    if (looking_at("((")) return arithmetic();
    if (peek() == '(') return subshell();
    if (word == "{") return braces();
    if (word == "if") return condition();
    if (word == "while" || word == "until") return loop(word);
    if (word == "for" || word == "select") return each(word);
    if (word == "case") return choice();
    if (word == "[[") return test();
    if (word == "function") {
      i_ += word.size();
      skip_blanks();
      return function(read_word().raw.text);
    }
    return nullptr;
  }

  /// Up to the "))" that ends it.
  Traced inside_double_parentheses() {
    const Place since = here();
    Traced out;
    int depth = 0;
    for (i_ += 2;; ++i_) {
      if (at_end()) fail("'((' without '))'", since);
      if (depth == 0 && looking_at("))")) break;
      depth += peek() == '(' ? 1 : peek() == ')' ? -1 : 0;
      out.add(peek(), here());
    }
    i_ += 2;
    return out;
  }

  std::shared_ptr<Node> arithmetic() {
    auto out = made(Node::Kind::arithmetic);
    out->text = inside_double_parentheses();
    return out;
  }

  std::shared_ptr<Node> subshell() {
    auto out = made(Node::Kind::group);
    ++i_;
    out->body = list({});
    if (peek() != ')') fail("'(' without ')'", out->place);
    ++i_;
    return out;
  }

  std::shared_ptr<Node> braces() {
    auto out = made(Node::Kind::group);
    ++i_;
    out->body = list({"}"});
    expect("}", "{", out->place);
    return out;
  }

  std::shared_ptr<Node> condition() {
    auto out = made(Node::Kind::condition);
    std::string word = "if";
    do {
      i_ += word.size();
      List asked = list({"then"});
      expect("then", word, out->place);
      out->cases.emplace_back(std::move(asked), list({"elif", "else", "fi"}));
      skip_lines();
      word = reserved();
    } while (word == "elif");
    if (word == "else") {
      i_ += word.size();
      out->body = list({"fi"});
    }
    expect("fi", "if", out->place);
    return out;
  }

  std::shared_ptr<Node> loop(const std::string& word) {
    auto out = made(Node::Kind::loop);
    out->name = word;
    i_ += word.size();
    List asked = list({"do"});
    expect("do", word, out->place);
    out->cases.emplace_back(std::move(asked), list({"done"}));
    expect("done", word, out->place);
    return out;
  }

  std::shared_ptr<Node> each(const std::string& word) {
    auto out = made(Node::Kind::each);
    i_ += word.size();
    skip_blanks();
    if (looking_at("((")) {
      out->kind = Node::Kind::counted;
      out->text = inside_double_parentheses();
    } else {
      out->name = read_word().raw.text;
      skip_lines();
      if (looking_at("in") && ends_word(peek(2))) {
        i_ += 2;
        for (skip_blanks(); !at_end() && peek() != '\n' && peek() != ';'; skip_blanks())
          out->words.push_back(read_word());
      } else {
        out->words.push_back({Traced("\"$@\"", out->place)});
      }
    }
    expect("do", word, out->place);
    out->body = list({"done"});
    expect("done", word, out->place);
    return out;
  }

  std::shared_ptr<Node> choice() {
    auto out = made(Node::Kind::choice);
    i_ += 4;
    skip_blanks();
    out->words.push_back(read_word());
    skip_lines();
    if (!looking_at("in")) fail("'case' without 'in'", out->place);
    i_ += 2;
    for (skip_lines(); reserved() != "esac"; skip_lines()) {
      if (at_end()) fail("'case' without 'esac'", out->place);
      if (peek() == '(') ++i_;
      std::vector<Word> patterns;
      for (;; ++i_) {
        skip_blanks();
        patterns.push_back(read_word());
        skip_blanks();
        if (peek() != '|') break;
      }
      if (peek() != ')') fail("a pattern of 'case' without ')'", out->place);
      ++i_;
      out->choices.emplace_back(std::move(patterns), list({"esac"}));
      if (looking_at(";;")) i_ += 2;
      if (peek() == '&') ++i_;
    }
    i_ += 4;
    return out;
  }

  std::shared_ptr<Node> test() {
    auto out = made(Node::Kind::test);
    i_ += 2;
    for (;;) {
      skip_blanks();
      while (!at_end() && peek() == '\n') ++i_, skip_blanks();
      if (at_end()) fail("'[[' without ']]'", out->place);
      if (looking_at("]]") && (ends_word(peek(2)) || peek(2) == '\0')) break;
      Word w;
      for (const std::string_view sign : {"&&", "||", "(", ")", "<", ">"})
        if (w.raw.empty() && looking_at(sign)) w.raw = take(sign.size());
      if (w.raw.empty())
        w = !out->words.empty() && out->words.back().raw.text == "=~" ? read_expression() : read_word();
      out->words.push_back(std::move(w));
    }
    i_ += 2;
    return out;
  }

  /// What stands after "=~": brackets belong to it.
  Word read_expression() {
    Word out;
    int depth = 0;
    for (; !at_end() && (depth > 0 || (peek() != ' ' && peek() != '\t')) && peek() != '\n'; ++i_) {
      depth += peek() == '(' ? 1 : peek() == ')' ? -1 : 0;
      out.raw.add(peek(), here());
    }
    return out;
  }

  std::shared_ptr<Node> function(const std::string& name) {
    auto out = made(Node::Kind::function);
    out->name = name;
    skip_blanks();
    if (peek() == '(') {
      ++i_;
      skip_blanks();
      if (peek() != ')') fail(fmt::format("function '{}' without ')'", name), out->place);
      ++i_;
    }
    skip_lines();
    out->body.emplace_back(";", command());
    return out;
  }

  std::shared_ptr<Node> simple() {
    auto out = made(Node::Kind::simple);
    bool arguments = false;
    for (skip_blanks(); !at_end(); skip_blanks()) {
      if (redirection(*out)) continue;
      const char c = peek();
      if (c == '\n' || c == ';' || c == '&' || c == '|' || c == ')') break;
      if (c == '(') {
        if (out->words.size() == 1) return function(out->words.front().raw.text);
        fail("'(' where a command's words stand");
      }
      Word w = read_word(!arguments || assigns(out->words.front()));
      arguments = arguments || assignment_end(w.raw.text) == 0;
      out->words.push_back(std::move(w));
    }
    if (out->words.empty() && out->redirections.empty()) fail("a command was expected here");
    return out;
  }

  static bool assigns(const Word& first) {
    static constexpr std::array<std::string_view, 5> kWords{"declare", "local", "export", "readonly", "typeset"};
    return std::find(kWords.begin(), kWords.end(), first.raw.text) != kWords.end();
  }

  /// One redirection, if one stands here.
  bool redirection(Node& node) {
    std::size_t digits = 0;
    while (std::isdigit(static_cast<unsigned char>(peek(digits))) != 0) ++digits;
    const char c = peek(digits);
    const bool both = digits == 0 && c == '&' && peek(1) == '>';
    if (c != '<' && c != '>' && !both) return false;
    if (looking_at("<(") || looking_at(">(") || place_holder() > 0) return false;
    Redirection r{std::string(text(digits)), {}, false};
    i_ += digits;
    for (const std::string_view sign : {"&>>", "&>", "<<<", "<<-", "<<", "<&", ">&", ">>", ">|", "<", ">"})
      if (looking_at(sign)) {
        r.sign += sign;
        i_ += sign.size();
        break;
      }
    skip_blanks();
    if (peek() == '\n' || at_end()) fail(fmt::format("'{}' without a file", r.sign));
    if ((r.sign.ends_with("<&") || r.sign.ends_with(">&")) && peek() == '-') ++i_;
    r.target = read_word();
    node.redirections.push_back(std::make_shared<Redirection>(std::move(r)));
    Redirection& made = *node.redirections.back();
    if (made.sign == "<<" || made.sign == "<<-") {
      std::string& end = made.target.raw.text;
      made.verbatim = end.find_first_of("'\"\\") != std::string::npos;
      std::erase_if(end, [](char q) { return q == '\'' || q == '"' || q == '\\'; });
      pending_.push_back(node.redirections.back());
    }
    return true;
  }
};

}  // namespace

List parse_shell(const Traced& script, const std::string& name) { return Parser(script, name).all(); }

}  // namespace rehearse::job
