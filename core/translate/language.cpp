#include "core/translate/language.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace rehearse::translate {

Registry<Language>& languages() {
  static Registry<Language> registry("language of settings");
  return registry;
}

Term number(std::string theirs, std::string ours, double scale) {
  Term out{std::move(theirs), Sense::number, std::move(ours)};
  out.scale = scale;
  return out;
}

Term toggle(std::string theirs, std::string ours, Json on, Json off) {
  Term out{std::move(theirs), Sense::toggle, std::move(ours)};
  out.on = std::move(on), out.off = std::move(off);
  return out;
}

Term mark(std::string theirs, std::string ours, Json on) {
  return toggle(std::move(theirs), std::move(ours), std::move(on), nullptr);
}

Term words(std::string theirs, std::string ours, std::vector<std::pair<std::string, Json>> meanings) {
  Term out{std::move(theirs), Sense::words, std::move(ours)};
  out.words = std::move(meanings);
  return out;
}

Term text(std::string theirs, std::string ours) { return {std::move(theirs), Sense::text, std::move(ours)}; }

Term list(std::string theirs, std::string ours) { return {std::move(theirs), Sense::list, std::move(ours)}; }

Term asked(std::string theirs, std::string note) {
  Term out{std::move(theirs), Sense::asked};
  out.note = std::move(note);
  return out;
}

void ignore(std::vector<Term>& table, std::string_view reason, std::initializer_list<const char*> names) {
  for (const char* name : names) {
    Term t{name, Sense::ignored};
    t.note = reason;
    table.push_back(std::move(t));
  }
}

namespace {

std::string lower(std::string_view text) {
  std::string out;
  for (const unsigned char c : text) out += static_cast<char>(std::tolower(c));
  return out;
}

bool nothing(const std::vector<std::string>& said) {
  if (said.size() != 1) return false;
  const std::string word = lower(said[0]);
  return word == "none" || word == "null" || word == "~" || word.empty();
}

/// "8", "1_000", "6e-5", "512M" are numbers; whole ones stay whole.
std::optional<Json> number_of(std::string word, double scale) {
  std::erase(word, '_');
  std::erase(word, ',');
  if (word.empty()) return std::nullopt;
  std::int64_t whole = 0;
  auto [end, failed] = std::from_chars(word.data(), word.data() + word.size(), whole);
  if (failed == std::errc{} && end == word.data() + word.size() && scale == 1) return Json(whole);
  char* stop = nullptr;
  const double value = std::strtod(word.c_str(), &stop);
  if (stop != word.c_str() + word.size() || !std::isfinite(value)) return std::nullopt;
  const double scaled = value * scale;
  constexpr double kExact = 9e15;
  if (std::floor(scaled) == scaled && std::fabs(scaled) < kExact) return Json(static_cast<std::int64_t>(scaled));
  return Json(scaled);
}

Reading read_toggle(const Term& term, const std::vector<std::string>& said) {
  const auto held = [](const Json& v) { return v.is_null() ? Reading{} : Reading{v, {}}; };
  if (said.empty()) return held(term.on);
  const std::string word = lower(said[0]);
  for (const char* yes : {"true", "1", "yes", "on", "t", "y"})
    if (word == yes) return held(term.on);
  for (const char* no : {"false", "0", "no", "off", "f", "n", "none", "null", ""})
    if (word == no) return held(term.off);
  return {std::nullopt, "wanted true or false"};
}

Reading read_words(const Term& term, const std::vector<std::string>& said) {
  const std::string word = said.empty() ? "" : said[0];
  for (const auto& [theirs, ours] : term.words)
    if (lower(theirs) == lower(word)) return ours.is_null() ? Reading{} : Reading{ours, {}};
  std::vector<std::string> valid;
  for (const auto& [theirs, ours] : term.words) valid.push_back(theirs);
  return {std::nullopt, fmt::format("wanted one of {}", fmt::join(valid, ", "))};
}

}  // namespace

Reading read(const Term& term, const std::vector<std::string>& said) {
  switch (term.sense) {
    case Sense::toggle: return read_toggle(term, said);
    case Sense::words: {
      Reading out = read_words(term, said);
      return !out.wrong.empty() && nothing(said) ? Reading{} : out;
    }
    case Sense::number: {
      if (nothing(said)) return {};
      if (said.empty()) return {std::nullopt, "wanted a number behind it"};
      auto value = number_of(said[0], term.scale);
      return value ? Reading{std::move(value), {}} : Reading{std::nullopt, "wanted a number"};
    }
    case Sense::text:
      if (nothing(said)) return {};
      return said.empty() ? Reading{std::nullopt, "wanted a word behind it"}
                          : Reading{Json(fmt::format("{}", fmt::join(said, " "))), {}};
    case Sense::list: return nothing(said) ? Reading{} : Reading{Json(said), {}};
    case Sense::ignored:
    case Sense::asked: return {};
  }
  return {};
}

namespace {

/// Whether `text` fits `pattern`, in which each '*' stands for any characters.
bool fits(std::string_view text, std::string_view pattern) {
  const std::size_t star = pattern.find('*');
  if (star == std::string_view::npos) return text == pattern;
  if (!text.starts_with(pattern.substr(0, star))) return false;
  text.remove_prefix(star);
  pattern.remove_prefix(star + 1);
  for (std::size_t at = 0; at <= text.size(); ++at)
    if (fits(text.substr(at), pattern)) return true;
  return false;
}

}  // namespace

const Term* Language::find(std::string_view theirs) const {
  const Term* longest = nullptr;
  for (const Term& t : terms) {
    if (t.theirs == theirs) return &t;
    if ((longest == nullptr || longest->theirs.size() < t.theirs.size()) && t.theirs.find('*') != std::string::npos &&
        fits(theirs, t.theirs))
      longest = &t;
  }
  return longest;
}

std::optional<Flags> Language::say(std::string_view ours, const Json& value) const {
  bool silent = false;
  for (const Term& t : terms) {
    if (t.ours != ours || !t.written) continue;
    if (t.sense == Sense::toggle) {
      // A name in a file has a truth value, a switch on a command line is there or not.
      const bool option = t.theirs.starts_with("--");
      if (t.on == value) return Flags{{t.theirs, option ? Json() : Json(true)}};
      if (t.off == value && !t.off.is_null() && !option) return Flags{{t.theirs, false}};
      silent = silent || t.off == value;
    } else if (t.sense == Sense::words) {
      for (const auto& [theirs, mine] : t.words)
        if (mine == value) return Flags{{t.theirs, theirs}};
    } else if (t.sense == Sense::number && value.is_number()) {
      const double scaled = value.get<double>() / t.scale;
      if (t.scale == 1) return Flags{{t.theirs, value}};
      return Flags{{t.theirs, static_cast<std::int64_t>(scaled)}};
    } else if (t.sense == Sense::text || t.sense == Sense::list) {
      return Flags{{t.theirs, value}};
    }
  }
  return silent ? std::optional<Flags>(Flags{}) : std::nullopt;
}

std::string Language::names_of(std::string_view ours) const {
  std::string out;
  for (const Term& t : terms)
    if (t.ours == ours && t.written) out += (out.empty() ? "" : ", ") + t.theirs;
  return out;
}

}  // namespace rehearse::translate
