#include "core/scoreboard/rows/port_words.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>
#include <vector>

#include "core/base/characters.hpp"
#include "core/base/portable.hpp"
#include "core/scoreboard/rows/row_defaults.hpp"

namespace rehearse {

namespace {

/// "3,200" is one number, and signs of multiplication are an x.
std::string plain(std::string text) {
  for (std::size_t i = 1; i + 3 < text.size(); ++i)
    if (text[i] == ',' && is_digit(text[i - 1]) && is_digit(text[i + 1]) && is_digit(text[i + 2]) &&
        is_digit(text[i + 3]) && (i + 4 == text.size() || !is_digit(text[i + 4])))
      text.erase(i, 1);
  for (std::size_t at = text.find("\u00d7"); at != std::string::npos; at = text.find("\u00d7"))
    text.replace(at, 2, "x");
  std::replace(text.begin(), text.end(), '*', 'x');
  return text;
}

std::vector<std::string> clauses_of(const std::string& text) {
  std::vector<std::string> out(1);
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool joins = lowered(text.substr(i, 5)) == " and ";
    if (joins || std::string_view(",;()+").find(text[i]) != std::string_view::npos)
      out.emplace_back();
    else
      out.back() += text[i];
    if (joins) i += 3;
  }
  return out;
}

struct Token {
  enum class Kind { number, times, word } kind;
  double value = 0;
  std::string text;  ///< As written.
};

/// Numbers, the x between counts and rates, and words: "8x400Gb/s" is 8, x, 400, "Gb/s"; "ConnectX-7" and "v2" are
/// words.
std::vector<Token> tokens_of(const std::string& clause) {
  std::vector<Token> out;
  for (std::size_t i = 0; i < clause.size();) {
    const char c = clause[i];
    const auto is_times = [&](std::size_t at) {
      const bool before = at == 0 || clause[at - 1] == ' ' || is_digit(clause[at - 1]),
                 behind = at + 1 >= clause.size() || clause[at + 1] == ' ' || is_digit(clause[at + 1]);
      return (clause[at] == 'x' || clause[at] == 'X') && before && behind;
    };
    if (is_digit(c)) {
      Token t{Token::Kind::number, 0, {}};
      const auto [end, error] =
          number_from_chars(clause.data() + i, clause.data() + clause.size(), t.value, std::chars_format::fixed);
      if (error != std::errc{}) t.value = 0;
      const auto length = std::max<std::size_t>(1, static_cast<std::size_t>(end - (clause.data() + i)));
      t.text = clause.substr(i, length);
      out.push_back(t);
      i += length;
    } else if (is_times(i)) {
      out.push_back({Token::Kind::times, 0, clause.substr(i, 1)});
      ++i;
    } else if (is_letter(c)) {
      std::size_t end = i;
      // A word keeps its digits, except that "x8" is a count.
      while (end < clause.size() &&
             (is_letter(clause[end]) || clause[end] == '/' || clause[end] == '-' || (end > i && is_digit(clause[end]))))
        ++end;
      out.push_back({Token::Kind::word, 0, clause.substr(i, end - i)});
      i = end;
    } else {
      ++i;
    }
  }
  return out;
}

/// Gb/s in one unit; 0: none. Bytes are told from bits by the case of the B before "/s" or "ps".
double unit_of(std::string word) {
  for (const char* each : {"/gpu", "/node", "/server"})
    if (const std::size_t at = lowered(word).find(each); at != std::string::npos) word.resize(at);
  if (word.empty() || word == "GB" || word == "TB") return 0;  // Memory.
  const std::string lower = lowered(word);
  const double prefix = lower[0] == 't' ? 1000 : lower[0] == 'g' ? 1 : 0;
  if (prefix == 0) return 0;
  const std::string rest = lower.substr(1);
  if (rest == "b/s" || rest == "bps") return word[1] == 'B' ? prefix * 8 : prefix;
  for (const char* bits :
       {"", "b", "be", "bit", "bits", "bit/s", "bits/s", "bitps", "igabit", "igabits", "igabit/s", "igabits/s"})
    if (rest == bits) return bits[0] == '\0' && lower[0] != 'g' ? 0 : prefix;
  return 0;
}

/// "HDR" is 200 a port, "HDR100" 100.
std::optional<double> generation_of(const std::string& word) {
  struct Generation {
    const char* name;
    double rate;
  };
  constexpr std::array<Generation, 5> known{{{"fdr", 56}, {"edr", 100}, {"hdr", 200}, {"ndr", 400}, {"xdr", 800}}};
  const std::string lower = lowered(word);
  for (const Generation& g : known) {
    if (!lower.starts_with(g.name)) continue;
    const std::string digits = lower.substr(3);
    if (digits.empty()) return g.rate;
    if (std::all_of(digits.begin(), digits.end(), is_digit) && digits.size() <= 4) return std::stod(digits);
  }
  return std::nullopt;
}

std::optional<double> number_word(const std::string& word) {
  struct Number {
    const char* word;
    double value;
  };
  constexpr std::array<Number, 9> known{{{"one", 1},
                                         {"single", 1},
                                         {"two", 2},
                                         {"dual", 2},
                                         {"dual-rail", 2},
                                         {"four", 4},
                                         {"quad", 4},
                                         {"eight", 8},
                                         {"sixteen", 16}}};
  const std::string lower = lowered(word);
  for (const Number& n : known)
    if (lower == n.word) return n.value;
  return std::nullopt;
}

bool is_port_word(const std::string& word) {
  for (const char* port : {"nic", "nics", "port", "ports", "hca", "hcas", "adapter", "adapters", "rail", "rails",
                           "card", "cards", "interface", "interfaces"})
    if (lowered(word) == port) return true;
  return false;
}

struct Clause {
  std::optional<double> count, rate;
  bool per_gpu = false, per_node = false;
};

bool names_one(const std::string& lower, std::initializer_list<const char*> words) {
  return std::any_of(words.begin(), words.end(), [&](const char* w) { return lower.find(w) != std::string::npos; });
}

std::optional<double> count_of(double value) {
  return value >= 1 && value <= 64 && value == std::floor(value) ? std::optional(value) : std::nullopt;
}

Clause read(const std::string& text) {
  Clause out;
  const std::string lower = lowered(text);
  out.per_gpu = names_one(lower, {"per gpu", "/gpu", "a gpu", "each gpu"});
  out.per_node = names_one(
      lower, {"per node", "/node", "a node", "per server", "/server", "per host", "per machine", "per instance"});
  const std::vector<Token> t = tokens_of(text);
  std::optional<double> generation;
  for (std::size_t i = 0; i < t.size(); ++i) {
    const bool more = i + 1 < t.size();
    if (t[i].kind == Token::Kind::number) {
      const double unit = more && t[i + 1].kind == Token::Kind::word ? unit_of(t[i + 1].text) : 0;
      constexpr double kMost = 1e5;  // Gb/s; more is a slip.
      if (unit > 0 && !out.rate && t[i].value > 0 && t[i].value * unit < kMost)
        out.rate = t[i].value * unit;
      else if (more && t[i + 1].kind == Token::Kind::times) {
        // "InfiniBand 4X HDR": the width of a link.
        const bool width = t[i + 1].text == "X" && i + 2 < t.size() && generation_of(t[i + 2].text);
        if (!width && !out.count) out.count = count_of(t[i].value);
      } else if (!out.count &&
                 ((i > 0 && t[i - 1].kind == Token::Kind::times && out.rate) || (more && is_port_word(t[i + 1].text))))
        out.count = count_of(t[i].value);
    } else if (t[i].kind == Token::Kind::word) {
      if (const auto n = number_word(t[i].text); n && !out.count) out.count = n;
      if (const auto g = generation_of(t[i].text); g && !generation) {
        generation = g;
        // "NDR400 x8"
        if (i + 2 < t.size() && t[i + 1].kind == Token::Kind::times && t[i + 2].kind == Token::Kind::number &&
            !out.count)
          out.count = count_of(t[i + 2].value);
      }
    }
  }
  if (!out.rate) out.rate = generation;
  // "8 per node"
  if (!out.rate && !out.count && out.per_node && lower.find("gpu") == std::string::npos && !t.empty() &&
      t[0].kind == Token::Kind::number)
    out.count = count_of(t[0].value);
  return out;
}

}  // namespace

PortWords port_words(const std::string& words, std::optional<std::int64_t> nics, int gpus) {
  PortWords out;
  std::vector<Clause> rated;
  std::optional<double> count;
  for (const std::string& text : clauses_of(plain(words))) {
    if (names_one(lowered(text), {"nvlink", "nvswitch", "pcie", "storage", "xgmi", "c2c"})) continue;
    const Clause c = read(text);
    if (c.rate)
      rated.push_back(c);
    else if (c.count && !count)
      count = c.count;
  }
  for (const Clause& c : rated) {
    const double ports = *c.rate * c.count.value_or(1);
    if (c.per_gpu)
      out.node = out.node.value_or(0) + ports * gpus;
    else if (c.count || (c.per_node && !count))
      out.node = out.node.value_or(0) + ports;
  }
  if (out.node || rated.empty()) return out;
  // One clause has a rate, another or a field a count.
  if (!count && nics) count = static_cast<double>(*nics);
  const double rate = *rated.front().rate;
  constexpr double kFastestPort = 800;
  if (count && !rated.front().per_node)
    out.node = rate * *count;
  else if (rate > kFastestPort)
    out.node = rate;
  else
    out.single = rate;
  return out;
}

}  // namespace rehearse
