#include "tests/fuzz/inputs.hpp"

#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "tests/support/source_path.hpp"

namespace rehearse::fuzz {

namespace {

namespace fs = std::filesystem;

/// Gone when the process ends.
class Folder {
 public:
  Folder()
      : path_((fs::is_directory("/dev/shm") ? fs::path("/dev/shm") : fs::temp_directory_path()) /
              ("rehearse-fuzz-" + std::to_string(::getpid()))) {
    fs::create_directories(path_);
  }
  ~Folder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  [[nodiscard]] const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

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
  static const Folder folder;
  const fs::path file = folder.path() / name;
  std::ofstream(file, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  return file.string();
}

}  // namespace rehearse::fuzz
