#pragma once
// What the tests of this folder share: files in a directory of their own, and errors as values.

#include <filesystem>
#include <fstream>
#include <string>

#include "core/base/error.hpp"
#include "tests/support/catch.hpp"

namespace rehearse::test {

inline bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

/// The usage Error that `action` throws; any other outcome fails the test.
template <class Action>
Error refused(Action&& action) {
  try {
    action();
  } catch (const Error& e) {
    CHECK(e.kind == ErrorKind::usage);
    return e;
  }
  FAIL("accepted");
  throw std::logic_error("unreachable");
}

/// A directory that goes away with the test.
class Directory {
 public:
  explicit Directory(const std::string& name)
      : path_(std::filesystem::temp_directory_path() / ("rehearse_config_" + name)) {
    std::filesystem::remove_all(path_);
    std::filesystem::create_directories(path_);
  }
  ~Directory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  Directory(const Directory&) = delete;
  Directory& operator=(const Directory&) = delete;

  std::string write(const std::string& name, const std::string& text) const {
    const std::filesystem::path file = path_ / name;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file, std::ios::binary) << text;
    return file.string();
  }
  std::string at(const std::string& name) const { return (path_ / name).string(); }

 private:
  std::filesystem::path path_;
};

}  // namespace rehearse::test
