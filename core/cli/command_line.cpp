// The only file that sees CLI11: it is slow to compile, and its messages and exit codes are replaced by ours.

#include <algorithm>
#include <charconv>
#include <memory>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "core/base/counts.hpp"
#include "core/base/registry.hpp"
#include "core/cli/verb.hpp"

namespace rehearse::cli {

namespace {

/// A verb as CLI11 sees it, with the places where it leaves what it read.
class Parser {
 public:
  explicit Parser(const Verb& verb) : verb_(verb), app_(verb.summary, verb.name) {
    app_.set_help_flag();
    app_.allow_extras();
    app_.add_flag("-h,--help", help_);
    for (const Option& o : verb.options)
      o.value.empty() ? app_.add_flag(o.name)
                      : app_.add_option(o.name)->type_size(1)->allow_extra_args(false)->multi_option_policy(
                            CLI::MultiOptionPolicy::TakeAll);
  }

  [[nodiscard]] bool help() const { return help_; }

  Arguments read(std::vector<std::string> words) {
    std::reverse(words.begin(), words.end());
    try {
      app_.parse(std::vector<std::string>(words));
    } catch (const CLI::ArgumentMismatch& e) {
      throw without_value(words);
    } catch (const CLI::ParseError& e) {
      throw Error(ErrorKind::usage, e.what(), verb_.name, fmt::format("see 'rehearse {} --help'", verb_.name));
    }
    Arguments out;
    if (help_) return out;
    for (const Option& o : verb_.options) collect(o, out);
    assign_positionals(out);
    return out;
  }

 private:
  /// The option that ends the line or is followed by another: `words` are the last first.
  [[nodiscard]] Error without_value(const std::vector<std::string>& words) const {
    std::string name = verb_.name;
    std::string value = "a value";
    for (std::size_t i = 0; i < words.size(); ++i)
      for (const Option& o : verb_.options)
        if (!o.value.empty() && (words[i] == long_name(o) || o.name.starts_with(words[i] + ",")) &&
            (i == 0 || words[i - 1].starts_with('-')))
          name = long_name(o), value = o.value;
    return {ErrorKind::usage, fmt::format("{} is missing", value), name,
            fmt::format("see 'rehearse {} --help'", verb_.name)};
  }

  void collect(const Option& o, Arguments& out) {
    const CLI::Option* found = app_.get_option(long_name(o));
    if (found->count() == 0) return;
    if (!o.value.empty() && !o.repeatable && found->count() > 1)
      throw Error(ErrorKind::usage, "given more than once", long_name(o),
                  fmt::format("see 'rehearse {} --help'", verb_.name));
    for (const std::string& value : found->results()) out.add(long_name(o), value);
  }

  void assign_positionals(Arguments& out) const {
    const std::vector<std::string> rest = app_.remaining();
    for (const std::string& word : rest)
      if (word.size() > 1 && word.front() == '-') throw unknown_option(word);
    for (std::size_t i = 0; i < rest.size(); ++i) {
      const std::size_t at = std::min(i, verb_.positionals.empty() ? 0 : verb_.positionals.size() - 1);
      if (at >= verb_.positionals.size() || (at < i && !verb_.positionals[at].repeatable))
        throw Error(ErrorKind::usage, fmt::format("unexpected argument '{}'", rest[i]), verb_.name,
                    fmt::format("see 'rehearse {} --help'", verb_.name));
      out.add(verb_.positionals[at].name, rest[i]);
    }
    for (const Positional& p : verb_.positionals)
      if (p.required && !out.has(p.name))
        throw Error(ErrorKind::usage, fmt::format("{} is missing", p.name), verb_.name,
                    verb_.examples.empty() ? "" : "example: " + verb_.examples.front());
  }

  [[nodiscard]] Error unknown_option(const std::string& word) const {
    std::vector<std::string> valid{"--help"};
    for (const Option& o : verb_.options) valid.push_back(long_name(o));
    Error e = unknown_name("option", word.substr(0, word.find('=')), valid);
    e.where = verb_.name;
    return e;
  }

  const Verb& verb_;
  CLI::App app_;
  bool help_ = false;
};

const Verb& find_verb(const std::string& word) {
  std::vector<std::string> names;
  for (const Verb& v : verbs()) {
    if (v.name == word) return v;
    names.push_back(v.name);
  }
  throw unknown_name(word.starts_with('-') ? "option" : "verb", word, names);
}

}  // namespace

std::int64_t Arguments::whole(const std::string& name, std::int64_t least, std::int64_t fallback,
                              std::int64_t most) const {
  if (!has(name)) return fallback;
  const std::string value = text(name);
  std::int64_t out = 0;
  const auto [end, failed] = std::from_chars(value.data(), value.data() + value.size(), out);
  if (failed != std::errc{} || end != value.data() + value.size() || out < least || out > most)
    throw Error(ErrorKind::usage, fmt::format("'{}' is not a whole number from {} on", value, least), name,
                count_hint(value));
  return out;
}

int run_command_line(const std::vector<std::string>& words, Console& console) {
  if (words.empty()) {
    console.out << first_steps_text();
    return 0;
  }
  std::string word = words.front();
  if (word == "-h" || word == "--help" || word == "help") {
    console.out << (words.size() > 1 ? help_text(find_verb(words[1]), console.style) : overview_text(console.style));
    return 0;
  }
  if (word == "--version") word = "version";
  const Verb& verb = find_verb(word);
  if (verb.left_out) return verb.run({}, console);
  Parser parser(verb);
  const Arguments arguments = parser.read({words.begin() + 1, words.end()});
  if (parser.help()) {
    console.out << help_text(verb, console.style);
    return 0;
  }
  return verb.run(arguments, console);
}

}  // namespace rehearse::cli
