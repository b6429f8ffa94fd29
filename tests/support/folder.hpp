#pragma once
// A folder that vanishes with the test.

#include <unistd.h>

#include <filesystem>
#include <string>
#include <system_error>

#include <fmt/format.h>

namespace rehearse::test {

class Folder {
 public:
  /// Empty, and of this process alone, in `base`.
  explicit Folder(const std::string& name, const std::filesystem::path& base = std::filesystem::temp_directory_path())
      : path_(base / fmt::format("rehearse-{}-{}", name, ::getpid())) {
    std::filesystem::remove_all(path_);
    std::filesystem::create_directories(path_);
  }
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace rehearse::test
