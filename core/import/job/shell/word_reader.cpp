#include "core/import/job/shell/word_reader.hpp"

#include <cctype>

#include <fmt/format.h>

#include "core/base/error.hpp"

namespace rehearse::job {

namespace {

bool blank(char c) { return c == ' ' || c == '\t'; }

}  // namespace

bool ends_word(char c) {
  return blank(c) || c == '\n' || c == ';' || c == '&' || c == '|' || c == '<' || c == '>' || c == '(' || c == ')';
}

std::size_t assignment_end(const std::string& text) {
  std::size_t i = 0;
  if (text.empty() || (std::isalpha(static_cast<unsigned char>(text[0])) == 0 && text[0] != '_')) return 0;
  while (i < text.size() && (std::isalnum(static_cast<unsigned char>(text[i])) != 0 || text[i] == '_')) ++i;
  if (i < text.size() && text[i] == '[') {
    const std::size_t close = text.find(']', i);
    if (close == std::string::npos) return 0;
    i = close + 1;
  }
  if (i < text.size() && text[i] == '+') ++i;
  return i < text.size() && text[i] == '=' ? i + 1 : 0;
}

void WordReader::fail(const std::string& what, Place at) const {
  throw Error(ErrorKind::usage, what, fmt::format("{}:{}", name_, at.line > 0 ? at.line : here().line),
              "is it a shell script? 'bash -n FILE' says what a shell makes of it");
}

Traced WordReader::take(std::size_t size) {
  Traced out = in_.part(i_, size);
  i_ += size;
  return out;
}

std::size_t WordReader::place_holder() const {
  if (peek() != '<' || (std::isalpha(static_cast<unsigned char>(peek(1))) == 0 && peek(1) != '$')) return 0;
  const std::size_t end = in_.text.find_first_of(">\n\"'|;&(<`", i_ + 1);
  return end == std::string::npos || in_.text[end] != '>' || blank(in_.text[end - 1]) ? 0 : end + 1 - i_;
}

Word WordReader::read_word(bool may_assign) {
  Word out;
  const std::size_t begin = i_;
  while (!at_end() && (!ends_word(peek()) || place_holder() > 0)) {
    if (const std::size_t held = place_holder(); held > 0) {
      for (std::size_t k = 0; k < held; ++k, ++i_) out.raw.add('\\', here()), out.raw.add(peek(), here());
      continue;
    }
    piece(out.raw);
    if (may_assign && peek() == '(' && assignment_end(out.raw.text) == out.raw.text.size() && !out.raw.empty())
      return array(std::move(out));
  }
  if (looking_at("<(") || looking_at(">(")) {
    out.raw.add(peek(), here()), ++i_;
    balanced(out.raw);
  }
  if (i_ == begin) fail(fmt::format("'{}' where a word was expected", peek()));
  return out;
}

Word WordReader::array(Word out) {
  const Place since = here();
  out.raw.add(peek(), since);
  out.array = true;
  ++i_;
  for (;;) {
    skip_blanks();
    while (!at_end() && peek() == '\n') ++i_, skip_blanks();
    if (at_end()) fail("'=(' without ')'", since);
    if (peek() == ')') break;
    if (peek() == ';' || peek() == '&' || peek() == '|') fail(fmt::format("'{}' inside '=( )'", peek()));
    if (peek() == '(') fail("'(' inside '=( )'");
    out.items.push_back(read_word());
  }
  ++i_;
  return out;
}

void WordReader::piece(Traced& out) {
  const char c = peek();
  if (c == kUnknownBegin) {
    while (!at_end() && peek() != kUnknownEnd) out.add(peek(), here()), ++i_;
    if (!at_end()) out.add(peek(), here()), ++i_;
    return;
  }
  if (c == '\\') {
    if (peek(1) == '\n') {
      i_ += 2;
      return;
    }
    out.add(c, here()), ++i_;
    if (!at_end()) out.add(peek(), here()), ++i_;
    return;
  }
  if (c == '\'') return quoted(out);
  if (c == '"') return double_quoted(out);
  if (c == '`') return back_quoted(out);
  if (c == '$' && peek(1) == '\'') {
    out.add(c, here()), ++i_;
    return quoted(out);
  }
  if (c == '$' && (peek(1) == '(' || peek(1) == '{')) {
    out.add(c, here()), ++i_;
    return balanced(out);
  }
  out.add(c, here()), ++i_;
}

void WordReader::quoted(Traced& out) {
  const Place since = here();
  do {
    out.add(peek(), here()), ++i_;
    if (at_end()) fail("a quote ' that never closes", since);
  } while (peek() != '\'');
  out.add(peek(), here()), ++i_;
}

void WordReader::double_quoted(Traced& out) {
  const Place since = here();
  out.add(peek(), here()), ++i_;
  while (peek() != '"') {
    if (at_end()) fail("a quote \" that never closes", since);
    if (peek() == '\'') {
      out.add(peek(), here()), ++i_;
      continue;
    }
    piece(out);
  }
  out.add(peek(), here()), ++i_;
}

void WordReader::back_quoted(Traced& out) {
  const Place since = here();
  do {
    if (peek() == '\\') out.add(peek(), here()), ++i_;
    out.add(peek(), here()), ++i_;
    if (at_end()) fail("a quote ` that never closes", since);
  } while (peek() != '`');
  out.add(peek(), here()), ++i_;
}

void WordReader::balanced(Traced& out) {
  const Place since = here();
  const char open = peek(), close = open == '(' ? ')' : '}';
  int depth = 0;
  if (++depth_ > kDeepest) fail("brackets are inside one another too deep");
  do {
    if (at_end()) fail(fmt::format("'{}' that never closes", open), since);
    const char c = peek();
    depth += c == open ? 1 : c == close ? -1 : 0;
    if (c == '\'' && open == '(')
      quoted(out);
    else if (c == '"')
      double_quoted(out);
    else if (c == '\\' || c == '`' || (c == '$' && (peek(1) == '(' || peek(1) == '{')))
      piece(out);
    else
      out.add(c, here()), ++i_;
  } while (depth > 0);
  --depth_;
}

void WordReader::skip_blanks() {
  for (;;) {
    if (blank(peek()))
      ++i_;
    else if (peek() == '\\' && peek(1) == '\n')
      i_ += 2;
    else if (peek() == '#' && (i_ == 0 || ends_word(in_.text[i_ - 1])))
      while (!at_end() && peek() != '\n') ++i_;
    else
      return;
    if (at_end()) return;
  }
}

void WordReader::newline() {
  ++i_;
  for (const auto& r : pending_) read_here_document(*r);
  pending_.clear();
}

void WordReader::read_here_document(Redirection& r) {
  const std::string end = r.target.raw.text;
  const bool tabs = r.sign == "<<-";
  Traced body;
  while (!at_end()) {
    const std::size_t stop = std::min(in_.text.find('\n', i_), in_.text.size());
    Traced line = in_.part(i_, stop - i_);
    i_ = std::min(stop + 1, in_.text.size());
    while (tabs && !line.text.empty() && line.text[0] == '\t') line = line.part(1);
    if (line.text == end) break;
    body.add(line);
    body.add('\n', line.place());
  }
  r.sign = "<<";
  r.target.raw = std::move(body);
}

}  // namespace rehearse::job
