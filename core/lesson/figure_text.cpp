#include "core/lesson/figure_text.hpp"

#include <algorithm>
#include <array>
#include <cctype>

#include <fmt/format.h>

#include "core/base/registry.hpp"
#include "core/base/units.hpp"
#include "core/play/words.hpp"

namespace rehearse {

namespace {

struct Form {
  const char* name;
  std::string (*write)(double);
};

/// Whole numbers up to twenty as people write them.
std::string number_words(double v) {
  constexpr std::array<const char*, 21> kWords{"no",       "one",      "two",      "three",   "four",    "five",
                                               "six",      "seven",    "eight",    "nine",    "ten",     "eleven",
                                               "twelve",   "thirteen", "fourteen", "fifteen", "sixteen", "seventeen",
                                               "eighteen", "nineteen", "twenty"};
  const auto whole = static_cast<std::size_t>(std::max(0.0, v));
  return whole < kWords.size() && static_cast<double>(whole) == v ? kWords.at(whole) : with_commas(v);
}

std::string capital_words(double v) {
  std::string out = number_words(v);
  out.front() = static_cast<char>(std::toupper(static_cast<unsigned char>(out.front())));
  return out;
}

const std::vector<Form>& forms() {
  static const std::vector<Form> table{{"time", [](double v) { return to_string(Seconds{v}); }},
                                       {"bytes", [](double v) { return to_string(Bytes{v}); }},
                                       {"gib", [](double v) { return fmt::format("{:.2f} GiB", v / kGib); }},
                                       {"flops", [](double v) { return to_string(Flops{v}); }},
                                       {"percent", [](double v) { return fmt::format("{:.1f} %", 100 * v); }},
                                       {"times", [](double v) { return fmt::format("{:.3g} times", v); }},
                                       {"count", [](double v) { return with_commas(v); }},
                                       {"number", [](double v) { return fmt::format("{:.4g}", v); }},
                                       {"words", number_words},
                                       {"Words", capital_words}};
  return table;
}

constexpr std::string_view kWordForm = "word";

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

/// The two words of "'slower' : 'faster'".
std::pair<std::string, std::string> parse_words(std::string_view text, const std::string& where) {
  const auto fail = [&] {
    throw Error(ErrorKind::usage, fmt::format("'{}' is not two words to choose from", text), where,
                "example: {a.step_time > b.step_time ? 'slower' : 'faster'}");
  };
  std::vector<std::size_t> quotes;
  for (std::size_t i = 0; i < text.size(); ++i)
    if (text[i] == '\'') quotes.push_back(i);
  if (quotes.size() != 4 || quotes[0] != 0 || quotes[3] != text.size() - 1) fail();
  if (trimmed(text.substr(quotes[1] + 1, quotes[2] - quotes[1] - 1)) != ":") fail();
  return {std::string(text.substr(1, quotes[1] - 1)),
          std::string(text.substr(quotes[2] + 1, quotes[3] - quotes[2] - 1))};
}

}  // namespace

const std::vector<std::string>& figure_forms() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> out;
    for (const Form& f : forms()) out.emplace_back(f.name);
    return out;
  }();
  return names;
}

std::string figure_text(double value, const std::string& form) {
  const std::string name = form.empty() ? "number" : form;
  for (const Form& f : forms())
    if (f.name == name) return f.write(value);
  throw unknown_name("form of a figure", name, figure_forms());
}

FigureText::Part FigureText::parse_braces(std::string_view inside, const std::string& where) {
  Part part;
  if (const std::size_t mark = inside.find('?'); mark != std::string_view::npos) {
    part.formula = Formula::parse(inside.substr(0, mark), where);
    part.chooses = true;
    std::tie(part.yes, part.no) = parse_words(trimmed(inside.substr(mark + 1)), where);
    return part;
  }
  const std::size_t bar = inside.find('|');
  if (bar != std::string_view::npos && trimmed(inside.substr(bar + 1)) == kWordForm) {
    part.word = trimmed(inside.substr(0, bar));
    return part;
  }
  part.formula = Formula::parse(inside.substr(0, bar), where);
  if (bar == std::string_view::npos) return part;
  part.form = trimmed(inside.substr(bar + 1));
  if (std::find(figure_forms().begin(), figure_forms().end(), part.form) == figure_forms().end()) {
    Error e = unknown_name("form of a figure", part.form, figure_forms());
    e.where = where;
    throw e;
  }
  return part;
}

FigureText FigureText::parse(std::string_view text, const std::string& where) {
  FigureText out;
  while (!text.empty()) {
    const std::size_t open = text.find('{');
    const std::size_t close = open == std::string_view::npos ? open : text.find('}', open);
    if (open != std::string_view::npos && close == std::string_view::npos)
      throw Error(ErrorKind::usage, fmt::format("'{}' has no closing brace", text.substr(open)), where,
                  "a figure stands between { and }");
    Part part;
    if (open != std::string_view::npos) part = parse_braces(text.substr(open + 1, close - open - 1), where);
    part.text = text.substr(0, open);
    out.parts_.push_back(std::move(part));
    text.remove_prefix(open == std::string_view::npos ? text.size() : close + 1);
  }
  return out;
}

std::optional<std::string> FigureText::fill(const FigureLookup& lookup, const WordLookup& word) const {
  std::string out;
  for (const Part& p : parts_) {
    out += p.text;
    if (!p.word.empty()) {
      const std::optional<std::string> said = word ? word(p.word) : std::nullopt;
      if (!said) return std::nullopt;
      out += *said;
    }
    if (!p.formula) continue;
    const std::optional<double> v = p.formula->value(lookup);
    if (!v) return std::nullopt;
    out += p.chooses ? (*v != 0 ? p.yes : p.no) : figure_text(*v, p.form);
  }
  return out;
}

std::vector<std::string> FigureText::names() const {
  std::vector<std::string> out;
  for (const Part& p : parts_) {
    if (p.formula) out.insert(out.end(), p.formula->names().begin(), p.formula->names().end());
    if (!p.word.empty()) out.push_back(p.word);
  }
  return out;
}

}  // namespace rehearse
