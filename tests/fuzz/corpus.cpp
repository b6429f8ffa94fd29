// Every target over its corpus, without libFuzzer: seeds, seeds cut and changed at places that a fixed seed draws,
// texts that are too deep or too long, and files that are too large. The default tests run it.
//
//   fuzz_corpus [TARGET...]       run them, or all
//   fuzz_corpus --list            names of targets, those of whole answers behind a blank line
//   fuzz_corpus --table           what README.md shows of the readers' limits
//   fuzz_corpus --seeds TARGET FOLDER   write its seeds there
//   fuzz_corpus --words TARGET    a dictionary for libFuzzer: words of its seeds
//   fuzz_corpus --run TARGET FILE...    run these inputs
//   fuzz_corpus --changed TARGET N SEED FOLDER   N changed seeds; what finds something is kept in the folder

#include <sys/resource.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <iterator>
#include <random>
#include <set>
#include <span>

#include <fmt/format.h>

#include "tests/fuzz/inputs.hpp"
#include "tests/fuzz/target.hpp"
#include "tests/support/source_path.hpp"

namespace rehearse::fuzz {

namespace {

using Entry = Registry<Target>::Entry;
using Clock = std::chrono::steady_clock;

constexpr double kMostSeconds = 10;         ///< Of one input.
constexpr long kMostKilobytes = 2'000'000;  ///< Of the whole run.
constexpr std::size_t kChanged = 400;       ///< Changed seeds of a reader.
constexpr std::size_t kDrawn = 8;           ///< Changed seeds of whole answers.

/// What went wrong, a line each.
class Findings {
 public:
  void add(const std::string& target, const std::string& input, const std::string& what) {
    std::cout << fmt::format("{}: {}: {}\n", target, input, what);
    ++count_;
  }
  [[nodiscard]] int count() const { return count_; }

 private:
  int count_ = 0;
};

void run_timed(const Entry& entry, const std::string& name, std::string_view bytes, Findings& findings) {
  const auto begin = Clock::now();
  try {
    run(entry.value, bytes);
  } catch (const std::exception& e) {
    findings.add(entry.name, name, e.what());
  }
  const std::chrono::duration<double> taken = Clock::now() - begin;
  if (taken.count() > kMostSeconds) findings.add(entry.name, name, fmt::format("took {:.1f} s", taken.count()));
}

/// A seed with one place changed: cut, a byte drawn, a part twice, a number made large, a part of another seed.
std::string changed(const std::vector<Seed>& seeds, std::mt19937_64& random) {
  const auto below = [&](std::size_t n) { return n == 0 ? 0 : random() % n; };
  std::string out = seeds[below(seeds.size())].bytes;
  const std::size_t at = below(out.size() + 1), length = std::min(below(64), out.size() - at);
  switch (below(6)) {
    case 0: out.resize(at); break;
    case 1: out.erase(at, length); break;
    case 2: out.insert(at, out.substr(at, length)); break;
    case 3: {
      static const std::vector<std::string> kHostile{
          "-1", "1e309", "99999999999999999999", "\"\"", "null", "{}", "[", "1e18", "-0.0",
          "0",  "\xff",  std::string(1, '\0')};
      const std::size_t digit = out.find_first_of("0123456789", at);
      out.replace(digit == std::string::npos ? at : digit, 1, kHostile[below(kHostile.size())]);
      break;
    }
    case 4: {
      const std::string& other = seeds[below(seeds.size())].bytes;
      out.insert(at, other.substr(below(other.size() + 1), 64));
      break;
    }
    default:
      if (at < out.size()) out[at] = static_cast<char>(below(256));
  }
  return out;
}

/// Texts that grow, nest or repeat without end: a reader must refuse or end.
std::vector<Seed> endless() {
  std::vector<Seed> out;
  for (const std::string part : {"[", "{\"a\":", "<a>", "(", "$(", "${a:-", "- ", "{", "a: &a [*a", "if true; then ",
                                 "$((", "a.", "[a.", "!", "\\"}) {
    std::string text;
    while (text.size() < 300'000) text += part;
    out.push_back({fmt::format("'{}' without end", part), std::move(text)});
  }
  for (const char c : {'a', '0', ' ', '\n', '\0', '\xff'})
    out.push_back({fmt::format("bytes {}", int(c)), std::string(1'000'000, c)});
  return out;
}

void check_size(const Entry& entry, Findings& findings) {
  if (entry.value.limits.file == nullptr) return;
  const std::string file = written("too_large.json", "");
  std::filesystem::resize_file(file, entry.value.limits.bytes + 1);
  try {
    entry.value.limits.file(file);
    findings.add(entry.name, "a file too large", "is read");
  } catch (const Error& e) {
    if (std::string(e.what()).find("at most") == std::string::npos)
      findings.add(entry.name, "a file too large", fmt::format("is refused because {}", e.what()));
  } catch (const std::exception& e) {
    findings.add(entry.name, "a file too large", e.what());
  }
  std::error_code ignored;
  std::filesystem::remove(file, ignored);
}

void run_all(const Entry& entry, Findings& findings) {
  const std::vector<Seed> seeds = seeds_of(entry);
  if (seeds.empty()) return findings.add(entry.name, "seeds", "there are none");
  for (const Seed& seed : seeds) run_timed(entry, seed.name, seed.bytes, findings);
  std::mt19937_64 random(1);
  const std::size_t tries = entry.value.answers ? kDrawn : kChanged;
  for (std::size_t i = 0; i < tries; ++i)
    run_timed(entry, fmt::format("changed {}", i), changed(seeds, random), findings);
  if (!entry.value.answers)
    for (const Seed& text : endless()) run_timed(entry, text.name, text.bytes, findings);
  check_size(entry, findings);
}

std::string table() {
  std::string out = "| target | reads | bytes of a file | further limits |\n|---|---|---|---|\n";
  for (const Entry& entry : targets().entries()) {
    const Limits& limits = entry.value.limits;
    out += fmt::format("| `{}` | {} | {} | {} |\n", entry.name, entry.summary,
                       limits.bytes == 0 ? "" : fmt::format("{:.0f} MB", static_cast<double>(limits.bytes) / 1e6),
                       limits.more);
  }
  return out;
}

std::string bytes_of(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// README.md has the table of limits as it is.
void check_page(Findings& findings) {
  if (bytes_of(testing::source_path("tests/fuzz/README.md")).find(table()) == std::string::npos)
    findings.add("README.md", "limits", "differ from those of the targets: fuzz_corpus --table");
}

int run_named(const std::vector<std::string>& names) {
  Findings findings;
  for (const Entry& entry : targets().entries())
    if (names.empty() || std::find(names.begin(), names.end(), entry.name) != names.end()) {
      const auto begin = Clock::now();
      run_all(entry, findings);
      const std::chrono::duration<double> taken = Clock::now() - begin;
      std::cout << fmt::format("{:22} {:.1f} s\n", entry.name, taken.count()) << std::flush;
    }
  if (names.empty()) check_page(findings);
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  if (used.ru_maxrss > kMostKilobytes) findings.add("all", "memory", fmt::format("{} kB", used.ru_maxrss));
  std::cout << fmt::format("{} targets, {} findings, {} MB\n", targets().entries().size(), findings.count(),
                           used.ru_maxrss / 1000);
  return findings.count() == 0 ? 0 : 1;
}

int list() {
  for (const bool answers : {false, true}) {
    if (answers) std::cout << '\n';
    for (const Entry& entry : targets().entries())
      if (entry.value.answers == answers) std::cout << fmt::format("{} {}\n", entry.name, entry.value.longest);
  }
  return 0;
}

int write_seeds(const std::string& name, const std::filesystem::path& folder) {
  std::filesystem::create_directories(folder);
  for (const Seed& seed : seeds_of(targets().at(name)))
    std::ofstream(folder / seed.name, std::ios::binary) << seed.bytes;
  return 0;
}

int print_words(const std::string& name) {
  constexpr std::size_t kMost = 1500;
  std::set<std::string> words;
  const auto in_word = [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '_' || c == '-' || c == '.' || c == '/';
  };
  for (const Seed& seed : seeds_of(targets().at(name))) {
    std::string word;
    for (const char c : seed.bytes + " ") {
      if (in_word(static_cast<unsigned char>(c))) {
        word += c;
        continue;
      }
      if (word.size() >= 2 && word.size() <= 40 && words.size() < kMost) words.insert(word);
      word.clear();
    }
  }
  for (const std::string& word : words) std::cout << fmt::format("\"{}\"\n", word);
  return 0;
}

int run_files(const std::string& name, std::span<const std::string> files) {
  Findings findings;
  for (const std::string& file : files) run_timed(targets().at(name), file, bytes_of(file), findings);
  return findings.count() == 0 ? 0 : 1;
}

/// Several changes on top of each other, without end of the seeds: what libFuzzer does, without its feedback.
int run_changed(const std::string& name, std::size_t count, std::uint64_t seed, const std::filesystem::path& folder) {
  const Entry& entry = targets().at(name);
  const std::vector<Seed> seeds = seeds_of(entry);
  std::mt19937_64 random(seed);
  Findings findings;
  for (std::size_t i = 0; i < count; ++i) {
    std::string bytes = changed(seeds, random);
    for (std::size_t more = random() % 4; more > 0; --more)
      bytes = changed({{"", bytes}, seeds[random() % seeds.size()]}, random);
    const int before = findings.count();
    run_timed(entry, std::to_string(i), bytes, findings);
    if (findings.count() > before)
      std::ofstream(folder / fmt::format("{}-{}-{}", name, seed, i), std::ios::binary) << bytes;
    if (findings.count() >= 20) break;
  }
  return findings.count() == 0 ? 0 : 1;
}

int chosen(const std::vector<std::string>& words) {
  if (words.empty() || !words.front().starts_with("--")) return run_named(words);
  if (words.front() == "--list") return list();
  if (words.front() == "--table") return std::cout << table(), 0;
  if (words.front() == "--seeds" && words.size() == 3) return write_seeds(words[1], words[2]);
  if (words.front() == "--words" && words.size() == 2) return print_words(words[1]);
  if (words.front() == "--changed" && words.size() == 5)
    return run_changed(words[1], std::stoul(words[2]), std::stoul(words[3]), words[4]);
  if (words.front() == "--run" && words.size() >= 2) return run_files(words[1], std::span(words).subspan(2));
  std::cerr << "what fuzz_corpus takes stands at the top of tests/fuzz/corpus.cpp\n";
  return 2;
}

}  // namespace

}  // namespace rehearse::fuzz

int main(int count, char** words) {
  try {
    return rehearse::fuzz::chosen({words + 1, words + count});
  } catch (const std::exception& e) {
    std::cerr << e.what() << '\n';
    return 2;
  }
}
