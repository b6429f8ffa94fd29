#pragma once
// A folder that vanishes with the test.

#include <unistd.h>

#include <filesystem>
#include <string>

#include <fmt/format.h>

namespace rehearse::test {

class Folder {
 public:
  explicit Folder(const std::string& name = "checkpoints")
      : path_((std::filesystem::temp_directory_path() / fmt::format("rehearse-{}-{}", name, ::getpid())).string()) {
    std::filesystem::remove_all(path_);
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace rehearse::test
