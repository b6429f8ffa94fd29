#include "tests/fuzz/inputs.hpp"

#include <filesystem>
#include <fstream>

#include "tests/support/folder.hpp"
#include "tests/support/source_path.hpp"

namespace rehearse::fuzz {

namespace {

namespace fs = std::filesystem;

}  // namespace

const Catalogue& shipped() {
  static const Catalogue catalogue(testing::source_path("topologies"));
  return catalogue;
}

Overridden overridden(std::string_view bytes) {
  constexpr std::string_view kMark = "\n--set ";
  Overridden out;
  std::size_t at = bytes.find(kMark);
  out.text = bytes.substr(0, at);
  while (at != std::string_view::npos) {
    const std::size_t begin = at + kMark.size(), end = bytes.find('\n', begin);
    out.overrides.emplace_back(bytes.substr(begin, end == std::string_view::npos ? end : end - begin));
    at = bytes.find(kMark, begin);
  }
  return out;
}

std::string written(const std::string& name, std::string_view bytes) {
  static const test::Folder folder("fuzz", fs::is_directory("/dev/shm") ? "/dev/shm" : fs::temp_directory_path());
  const fs::path file = folder.path() / name;
  std::ofstream(file, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  return file.string();
}

}  // namespace rehearse::fuzz
