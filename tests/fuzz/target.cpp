#include "tests/fuzz/target.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>

#include "tests/support/source_path.hpp"

namespace rehearse::fuzz {

namespace {

namespace fs = std::filesystem;

std::string bytes_of(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// The path below the source tree as one word.
std::string word_of(const fs::path& file) {
  std::string out = fs::relative(file, testing::source_path("")).generic_string();
  std::replace(out.begin(), out.end(), '/', '-');
  return out;
}

std::vector<fs::path> files_of(const Seeds& seeds) {
  const fs::path at = testing::source_path(seeds.folder);
  std::vector<fs::path> out;
  if (fs::is_regular_file(at)) return {at};
  if (!fs::is_directory(at)) return {};
  for (const auto& entry : fs::recursive_directory_iterator(at))
    if (entry.is_regular_file() && entry.path().generic_string().ends_with(seeds.ending)) out.push_back(entry.path());
  std::sort(out.begin(), out.end());
  return out;
}

}  // namespace

Registry<Target>& targets() {
  static Registry<Target> all("fuzz target");
  return all;
}

std::vector<Seed> seeds_of(const Registry<Target>::Entry& target) {
  std::vector<Seed> out;
  const auto add = [&](const Seeds& seeds) {
    for (const fs::path& file : files_of(seeds))
      if (fs::file_size(file) <= target.value.longest) out.push_back({word_of(file), bytes_of(file)});
  };
  for (const Seeds& seeds : target.value.seeds) add(seeds);
  add({"tests/fuzz/found/" + target.name, ""});
  if (target.value.made != nullptr)
    for (std::string& bytes : target.value.made())
      out.push_back({"made-" + std::to_string(out.size()), std::move(bytes)});
  return out;
}

void run(const Target& target, std::string_view bytes) {
  try {
    target.run(bytes);
  } catch (const Error&) {  // Refused, as it should be.
  }
}

void require(bool holds, const std::string& fact) {
  if (!holds) throw std::logic_error(fact);
}

}  // namespace rehearse::fuzz
