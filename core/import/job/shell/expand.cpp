// What a word becomes: quotes, variables, arithmetic and the output of commands.

#include <algorithm>
#include <array>
#include <cctype>
#include <utility>

#include <fmt/format.h>

#include "core/base/error.hpp"
#include "core/import/job/shell/changes.hpp"
#include "core/import/job/shell/shell.hpp"

namespace rehearse::job {

namespace {

bool name_character(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

}  // namespace

/// Goes through one word and collects the fields that it makes.
class Expander {
 public:
  Expander(Shell& shell, Traced raw, bool split, bool here_document = false)
      : shell_(shell), raw_(std::move(raw)), split_(split), here_document_(here_document) {}

  void run(bool quoted = false) {
    quoted_ = quoted;
    while (i_ < raw_.text.size()) step();
    finish();
  }

  std::vector<Traced> fields;
  bool as_pattern = false;  ///< Quoted characters keep a backslash, for patterns.

 private:
  [[nodiscard]] char at(std::size_t ahead = 0) const {
    return i_ + ahead < raw_.text.size() ? raw_.text[i_ + ahead] : '\0';
  }
  [[nodiscard]] Place here() const { return raw_.places[std::min(i_, raw_.places.size() - 1)]; }

  void put(char c, Place place) {
    if (as_pattern && quoted_ && std::string_view("*?[]\\").find(c) != std::string_view::npos) field_.add('\\', place);
    field_.add(c, place);
    begun_ = true;
  }

  void finish() {
    if (begun_) fields.push_back(std::move(field_));
    field_ = {};
    begun_ = false;
  }

  void step() {
    const char c = at();
    if (c == kUnknownBegin) {
      for (; i_ < raw_.text.size() && at() != kUnknownEnd; ++i_) field_.add(at(), here());
      field_.add(kUnknownEnd, here());
      begun_ = true;
      ++i_;
      return;
    }
    if (here_document_) return step_here_document(c);
    if (c == '\'' && !quoted_) return single();
    if (c == '"') {
      quoted_ = !quoted_;
      begun_ = true;
      ++i_;
    } else if (c == '\\') {
      escape();
    } else if (c == '$') {
      dollar();
    } else if (c == '`') {
      back_quotes();
    } else if (c == '~' && !quoted_ && i_ == 0 && (at(1) == '/' || at(1) == '\0')) {
      for (const char h : shell_.text_of("HOME")) put(h, here());
      ++i_;
    } else {
      put(c, here()), ++i_;
    }
  }

  void step_here_document(char c) {
    quoted_ = true;
    if (c == '\\' && (at(1) == '$' || at(1) == '`' || at(1) == '\\' || at(1) == '\n')) {
      if (at(1) != '\n') put(at(1), here());
      i_ += 2;
    } else if (c == '$') {
      dollar();
    } else if (c == '`') {
      back_quotes();
    } else {
      put(c, here()), ++i_;
    }
  }

  void single() {
    const std::size_t end = std::min(raw_.text.find('\'', i_ + 1), raw_.text.size());
    begun_ = true;
    quoted_ = true;
    for (++i_; i_ < end; ++i_) put(raw_.text[i_], here());
    quoted_ = false;
    ++i_;
  }

  void escape() {
    const char next = at(1);
    const bool kept = quoted_ && next != '$' && next != '`' && next != '"' && next != '\\' && next != '\n';
    if (kept) put('\\', here());
    ++i_;
    if (next == '\0') return;
    if (next != '\n') {
      const bool before = quoted_;
      quoted_ = true;
      put(next, here());
      quoted_ = before;
    }
    ++i_;
  }

  /// What an expansion gives: as it is between quotes, else in fields.
  void insert(const Traced& text) {
    if (quoted_ || !split_) {
      begun_ = begun_ || quoted_ || !text.empty();
      for (std::size_t k = 0; k < text.text.size(); ++k) {
        if (as_pattern && quoted_)
          put(text.text[k], text.places[k]);
        else
          field_.add(text.text[k], text.places[k]);
      }
      return;
    }
    int mark = 0;
    for (std::size_t k = 0; k < text.text.size(); ++k) {
      const char c = text.text[k];
      mark += c == kUnknownBegin ? 1 : c == kUnknownEnd ? -1 : 0;
      if (mark == 0 && std::isspace(static_cast<unsigned char>(c)) != 0)
        finish();
      else
        field_.add(c, text.places[k]), begun_ = true;
    }
  }

  void insert_list(const std::vector<Traced>& items, bool joined) {
    if (quoted_ && !joined) {
      for (std::size_t k = 0; k < items.size(); ++k) {
        if (k > 0) finish();
        field_.add(items[k]);
        begun_ = true;
      }
      if (items.empty() && field_.empty()) begun_ = false;
      return;
    }
    for (std::size_t k = 0; k < items.size(); ++k) {
      if (k > 0 && (quoted_ || !split_)) field_.add(' ', here());
      if (k > 0 && !quoted_ && split_) finish();
      insert(items[k]);
    }
  }

  /// Up to the bracket that closes the one at i_; i_ is then behind it.
  Traced bracketed(char open, char close) {
    const std::size_t begin = ++i_;
    int depth = 1;
    bool single = false, twice = false;
    for (; i_ < raw_.text.size(); ++i_) {
      const char c = raw_.text[i_];
      if (c == '\\' && !single) {
        ++i_;
        continue;
      }
      if (c == '\'' && !twice && open == '(') single = !single;
      if (c == '"' && !single) twice = !twice;
      if (single || twice) continue;
      depth += c == open ? 1 : c == close ? -1 : 0;
      if (depth == 0) break;
    }
    Traced out = raw_.part(begin, i_ - begin);
    ++i_;
    return out;
  }

  void dollar() {
    const Place place = here();
    const char next = at(1);
    ++i_;
    if (next == '(' && at(1) == '(') return sum(place);
    if (next == '(') return command(bracketed('(', ')'), place);
    if (next == '{') return braces(bracketed('{', '}'), place);
    if (next == '\'' && !quoted_) return single();
    if (next == '[') return insert(shell_.arithmetic(bracketed('[', ']')));
    if (std::isdigit(static_cast<unsigned char>(next)) != 0 ||
        std::string_view("@*#?$!-_").find(next) != std::string_view::npos) {
      if (next == '_' && name_character(at(1))) return plain_name(place);
      ++i_;
      return parameter(std::string(1, next), place);
    }
    if (name_character(next)) return plain_name(place);
    put('$', place);
  }

  void plain_name(Place place) {
    std::string name;
    while (name_character(at())) name += at(), ++i_;
    parameter(name, place);
  }

  void sum(Place place) {
    Traced inside = bracketed('(', ')');
    // "$((...))" or "$( (...) )": the former where brackets match so.
    if (inside.text.size() >= 2 && inside.text.front() == '(' && inside.text.back() == ')')
      return insert(shell_.arithmetic(inside.part(1, inside.text.size() - 2)));
    command(inside, place);
  }

  void back_quotes() {
    const Place place = here();
    Traced inside;
    for (++i_; i_ < raw_.text.size() && at() != '`'; ++i_) {
      if (at() == '\\' && (at(1) == '`' || at(1) == '\\' || at(1) == '$')) ++i_;
      inside.add(at(), here());
    }
    ++i_;
    command(inside, place);
  }

  void command(const Traced& text, Place place) {
    ++shell_.captures_;
    Shell::Result r;
    try {
      r = shell_.evaluate(text, place);
    } catch (const Error&) {
      r.unknown = true;
    }
    --shell_.captures_;
    Traced out = std::move(r.output);
    if (r.unknown) {
      std::string shown = readable(text.text);
      std::erase(shown, '\n');
      out = Traced(unknown_mark("$(" + shown + ")"), place);
    }
    while (!out.text.empty() && out.text.back() == '\n') out.text.pop_back(), out.places.pop_back();
    insert(out);
  }

  std::vector<Traced> arguments() const {
    return shell_.scopes_.empty() ? std::vector<Traced>() : shell_.scopes_.back().arguments;
  }

  /// The values of an array, or of a plain variable.
  [[nodiscard]] std::vector<Traced> items(const std::string& name) const {
    std::vector<Traced> out;
    const ShellVariable* v = shell_.find(name);
    if (v == nullptr) return out;
    if (!v->array) return v->value.empty() ? out : std::vector<Traced>{v->value};
    for (const auto& [key, item] : v->items) out.push_back(item);
    return out;
  }

  /// The value of what a name means, a mark where nothing sets it.
  Traced value(const std::string& name, Place place) {
    if (name == "#") return Traced(std::to_string(arguments().size()), place);
    if (name == "?") return Traced("0", place);
    if (name == "$" || name == "!") return Traced("1", place);
    if (name == "-" || name == "_") return {};
    if (name == "0") {
      const int file = shell_.scopes_.empty() ? -1 : shell_.scopes_.front().file;
      return Traced(file >= 0 ? shell_.files_.at(file).path : "bash", place);
    }
    if (std::isdigit(static_cast<unsigned char>(name[0])) != 0) {
      const std::vector<Traced> given = arguments();
      const std::size_t n = std::stoul(name.substr(0, 4));
      return n >= 1 && n <= given.size() ? given[n - 1] : Traced(unknown_mark(name), place);
    }
    if (name == "BASH_SOURCE" || name.starts_with("BASH_SOURCE[")) {
      const int file = shell_.scopes_.empty() ? -1 : shell_.scopes_.back().file;
      return Traced(file >= 0 ? shell_.files_.at(file).path : "bash", place);
    }
    if (name.find('[') != std::string::npos) return item(name, place);
    return shell_.value(name, place);
  }

  Traced item(const std::string& name, Place place) {
    const std::size_t bracket = name.find('[');
    const std::string array = name.substr(0, bracket);
    Traced raw_key(name.substr(bracket + 1, name.size() - bracket - 2), place);
    std::string key = shell_.expand_text(raw_key, false).text;
    const ShellVariable* v = shell_.find(array);
    if (v == nullptr) return Traced(unknown_mark(name), place);
    if (!v->array) return v->value;
    for (const auto& [k, value] : v->items)
      if (k == key) return value;
    try {
      const std::string number = shell_.arithmetic(raw_key).text;
      const std::string counted =
          number.starts_with('-') ? std::to_string(static_cast<long>(v->items.size()) + std::stol(number)) : number;
      for (const auto& [k, value] : v->items)
        if (k == counted) return value;
    } catch (const std::exception&) {}
    return Traced(unknown_mark(array + "[" + key + "]"), place);
  }

  void parameter(const std::string& name, Place place) {
    if (name == "@" || name == "*") return insert_list(arguments(), name == "*");
    Traced v = value(name, place);
    // A variable that nothing sets is no field of its own: a shell leaves it out, and so it is not begun.
    insert(v);
  }

  void braces(const Traced& inside, Place place) {
    const std::string& t = inside.text;
    if (t.empty()) return;
    std::size_t n = t[0] == '!' || (t[0] == '#' && t.size() > 1) ? 1 : 0;
    const std::size_t begin = n;
    if (n < t.size() && std::string_view("@*#?$!-").find(t[n]) != std::string_view::npos)
      ++n;
    else
      while (n < t.size() && name_character(t[n])) ++n;
    std::string name = t.substr(begin, n - begin);
    if (n < t.size() && t[n] == '[') {
      const std::size_t close = t.find(']', n);
      if (close != std::string::npos) name += t.substr(n, close + 1 - n), n = close + 1;
    }
    if (t[0] == '#' && begin == 1) return length(name, place);
    if (t[0] == '!' && name.ends_with("[@]")) return keys(name.substr(0, name.size() - 3), place);
    if (t[0] == '!') name = without_unknown(value(name, place).text);
    const bool all = name.ends_with("[@]") || name.ends_with("[*]");
    if (all || name == "@" || name == "*") return whole(name, inside.part(n), place);
    insert(changed(name.empty() ? Traced() : value(name, place), name, inside.part(n), place));
  }

  void length(const std::string& name, Place place) {
    const bool all = name.ends_with("[@]") || name.ends_with("[*]");
    const std::size_t n = all                          ? items(name.substr(0, name.size() - 3)).size()
                          : name == "@" || name == "*" ? arguments().size()
                                                       : without_unknown(value(name, place).text).size();
    insert(Traced(std::to_string(n), place));
  }

  void keys(const std::string& name, Place place) {
    std::vector<Traced> out;
    if (const ShellVariable* v = shell_.find(name))
      for (const auto& [key, item] : v->items) out.emplace_back(key, place);
    insert_list(out, false);
  }

  /// ${NAME[@]}, ${@:2}: all items, or a slice of them, or another text where there are none.
  void whole(const std::string& name, const Traced& operation, Place place) {
    const bool arguments_meant = name == "@" || name == "*";
    std::vector<Traced> all = arguments_meant ? arguments() : items(name.substr(0, name.size() - 3));
    const std::string& op = operation.text;
    if (op.starts_with(":-") || op.starts_with("-")) {
      if (all.empty()) return insert(shell_.expand_text(operation.part(op.starts_with(':') ? 2 : 1), quoted_));
    } else if (op.starts_with(":+") || op.starts_with("+")) {
      if (all.empty()) return;
      Expander other(shell_, operation.part(op.starts_with(':') ? 2 : 1), split_);
      other.run(quoted_);
      return insert_list(other.fields, false);
    } else if (op.starts_with(':')) {
      const std::size_t colon = op.find(':', 1);
      const long from =
          number(operation.part(1, colon == std::string::npos ? colon : colon - 1)) - (arguments_meant ? 1 : 0);
      const long many = colon == std::string::npos ? static_cast<long>(all.size()) : number(operation.part(colon + 1));
      std::vector<Traced> part;
      for (long k = std::max(0L, from); k < static_cast<long>(all.size()) && k < from + many; ++k)
        part.push_back(all[static_cast<std::size_t>(k)]);
      all = std::move(part);
    } else if (!op.empty()) {
      for (Traced& item : all) item = changed(item, name, operation, place);
    }
    insert_list(all, name.ends_with("[*]") || name == "*");
  }

  long number(const Traced& text) {
    const std::string value = shell_.arithmetic(text).text;
    return has_unknown(value) ? 0 : std::stol(value);
  }

  /// ${NAME<operation>}.
  Traced changed(const Traced& v, const std::string& name, const Traced& operation, Place place) {
    const std::string& op = operation.text;
    if (op.empty()) return v;
    const std::string known = without_unknown(v.text);
    const bool colon = op[0] == ':' && op.size() > 1;
    const char sign = colon ? op[1] : op[0];
    const bool missing = colon ? known.empty() : known.empty() && has_unknown(v.text);
    const Traced rest = operation.part(colon ? 2 : 1);
    if (sign == '-' || sign == '=') {
      if (!missing) return v;
      Traced other = shell_.expand_text(rest, quoted_);
      if (sign == '=' && !name.empty()) shell_.set(name, other);
      return other;
    }
    if (sign == '+') return missing ? Traced() : shell_.expand_text(rest, quoted_);
    if (sign == '?') return missing ? Traced(unknown_mark(name), place) : v;
    if (op[0] == ':') return slice(v, operation.part(1));
    if (sign == '#' || sign == '%') {
      const bool longest = op.size() > 1 && op[1] == sign;
      return without_fitting(v, shell_.expand_pattern(operation.part(longest ? 2 : 1)).text, sign, longest);
    }
    if (sign == '/') return replaced(v, operation);
    if (sign == '^' || sign == ',') return in_case(v, sign, op.size() > 1 && op[1] == sign);
    return v;
  }

  Traced slice(const Traced& v, const Traced& range) {
    const std::size_t colon = range.text.find(':');
    long from = number(range.part(0, colon));
    if (from < 0) from = std::max(0L, static_cast<long>(v.text.size()) + from);
    if (colon == std::string::npos) return v.part(static_cast<std::size_t>(from));
    const long many = number(range.part(colon + 1));
    return many < 0 ? v.part(static_cast<std::size_t>(from),
                             static_cast<std::size_t>(std::max(0L, static_cast<long>(v.text.size()) + many - from)))
                    : v.part(static_cast<std::size_t>(from), static_cast<std::size_t>(many));
  }

  Traced replaced(const Traced& v, const Traced& operation) {
    const bool everywhere = operation.text.size() > 1 && operation.text[1] == '/';
    const Traced both = operation.part(everywhere ? 2 : 1);
    std::size_t slash = 0;
    while (slash < both.text.size() && both.text[slash] != '/') slash += both.text[slash] == '\\' ? 2 : 1;
    slash = std::min(slash, both.text.size());
    const std::string pattern = shell_.expand_pattern(both.part(0, slash)).text;
    const Traced by = slash < both.text.size() ? shell_.expand_text(both.part(slash + 1), true) : Traced();
    return with_replaced(v, pattern, by, everywhere);
  }

  Shell& shell_;
  const Traced raw_;
  bool split_, here_document_;
  bool quoted_ = false;
  std::size_t i_ = 0;
  Traced field_;
  bool begun_ = false;
};

namespace {

constexpr int kDeepestExpansion = 100;

}  // namespace

std::vector<Traced> Shell::expand(const Word& word) {
  std::vector<Traced> out;
  if (++depth_ > kDeepestExpansion)
    throw Error(ErrorKind::usage, "expansions are inside one another too deep", files_.where(word.raw.place()));
  for (const Traced& raw : brace_alternatives(word.raw)) {
    Expander e(*this, raw, true);
    e.run();
    for (Traced& f : e.fields) out.push_back(std::move(f));
  }
  --depth_;
  return out;
}

std::vector<Traced> Shell::expand(const std::vector<Word>& words) {
  std::vector<Traced> out;
  for (const Word& w : words)
    for (Traced& f : expand(w)) out.push_back(std::move(f));
  return out;
}

Traced Shell::expand_text(const Traced& raw, bool in_quotes) {
  if (++depth_ > kDeepestExpansion)
    throw Error(ErrorKind::usage, "expansions are inside one another too deep", files_.where(raw.place()));
  Expander e(*this, raw, false);
  e.run(in_quotes);
  --depth_;
  Traced out;
  for (std::size_t k = 0; k < e.fields.size(); ++k) {
    if (k > 0) out.add(' ', raw.place());
    out.add(e.fields[k]);
  }
  return out;
}

Traced Shell::expand_pattern(const Traced& raw) {
  Expander e(*this, raw, false);
  e.as_pattern = true;
  e.run();
  return e.fields.empty() ? Traced() : e.fields.front();
}

/// The text of a here-document.
Traced Shell::expand_document(const Traced& raw) {
  if (raw.empty()) return raw;
  Expander e(*this, raw, false, true);
  e.run();
  return e.fields.empty() ? Traced() : e.fields.front();
}

}  // namespace rehearse::job
