#include "core/base/registry.hpp"

#include <numeric>

#include <fmt/format.h>

#include "core/base/near_names.hpp"

namespace rehearse {
namespace {

constexpr std::size_t kLongestWord = 200;  // Longer words are nobody's misspelling, and the distance is quadratic.
constexpr std::size_t kMostListed = 60;
constexpr std::size_t kLeastPart = 3;  // Shorter words are part of too many names.

std::string lower(std::string_view s) {
  std::string out(s);
  for (char& c : out)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return out;
}

// Optimal string alignment: insertions, deletions, substitutions and swaps of neighbours cost one each.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  std::iota(last.begin(), last.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) row[j] = std::min(row[j], before[j - 2] + 1);
    }
    before.swap(last);
    last.swap(row);
  }
  return last[b.size()];
}

}  // namespace

std::string did_you_mean(std::string_view word, std::span<const std::string> candidates) {
  if (word.empty() || word.size() > kLongestWord) return {};
  const std::string wanted = lower(word);
  const std::size_t limit = std::max<std::size_t>(2, word.size() / 3);
  std::string best;
  std::size_t best_distance = limit + 1;
  for (const std::string& candidate : candidates) {
    if (candidate.size() > word.size() + limit) continue;
    const std::size_t d = edit_distance(wanted, lower(candidate));
    const bool shares_a_letter = d < std::max(wanted.size(), candidate.size());
    if (d < best_distance && shares_a_letter) {
      best = candidate;
      best_distance = d;
    }
  }
  return best;
}

std::vector<std::string> near_names(std::string_view word, std::span<const std::string> candidates, std::size_t most) {
  std::vector<std::string> out;
  if (word.size() >= kLeastPart && word.size() <= kLongestWord)
    for (const std::string& candidate : candidates)
      if (lower(candidate).find(lower(word)) != std::string::npos) out.push_back(candidate);
  std::stable_sort(out.begin(), out.end(), [](const auto& a, const auto& b) { return a.size() < b.size(); });
  if (out.size() > most) out.resize(most);
  if (std::string near = out.empty() ? did_you_mean(word, candidates) : std::string(); !near.empty())
    out.push_back(std::move(near));
  return out;
}

std::string question_of(std::span<const std::string> names) {
  std::string out;
  for (std::size_t i = 0; i < names.size(); ++i)
    out += fmt::format("{}'{}'", i == 0 ? "" : i + 1 == names.size() ? " or " : ", ", names[i]);
  return out.empty() ? out : fmt::format("did you mean {}?", out);
}

namespace {

Error unknown(std::string_view kind, std::string_view word, std::span<const std::string> valid,
              const std::string& rest) {
  const std::string shown = word.size() <= 80 ? std::string(word) : std::string(word.substr(0, 80)) + "...";
  const std::string question = question_of(near_names(word, valid));
  return Error(ErrorKind::usage, fmt::format("unknown {} '{}'", kind, shown), {},
               question + (question.empty() ? "" : " ") + rest);
}

}  // namespace

Error unknown_of_many(std::string_view kind, std::string_view word, std::span<const std::string> valid,
                      std::string_view listing) {
  return unknown(kind, word, valid, fmt::format("see '{}'", listing));
}

Error unknown_name(std::string_view kind, std::string_view word, std::span<const std::string> valid) {
  if (valid.empty()) return unknown(kind, word, valid, fmt::format("no {} is registered", kind));
  std::string names = "valid: ";
  for (std::size_t i = 0; i < std::min(valid.size(), kMostListed); ++i) names += (i ? ", " : "") + valid[i];
  if (valid.size() > kMostListed) names += fmt::format(" and {} more", valid.size() - kMostListed);
  return unknown(kind, word, valid, names);
}

}  // namespace rehearse
