#pragma once
// A file that is being written, and has its name when it is whole.

#include <filesystem>
#include <memory>
#include <string>

#include "core/report/formats/text_output.hpp"

namespace rehearse {

/// Throws Error of a file that could be opened (check_failed): a full disk, say, which no other command line would
/// help. What the system said is in errno.
[[noreturn]] void fail_late(const std::string& path);
/// Throws Error (usage) of a file that could not be opened, with what the system said in errno.
[[noreturn]] void fail_to_open(const std::string& path);

/// Where the text of `path` is written until it is whole: beside it, so that a rename replaces it at once. Devices and
/// pipes are written directly. What is not kept goes with the draft.
class DraftFile {
 public:
  /// Throws Error (usage) where `path` cannot be written.
  explicit DraftFile(const std::string& path);
  ~DraftFile();
  DraftFile(const DraftFile&) = delete;
  DraftFile& operator=(const DraftFile&) = delete;

  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] const char* file() const { return file_.c_str(); }
  /// Gives the file its name. Throws Error (usage) where that fails.
  void keep();

 private:
  std::string path_;
  std::filesystem::path target_, file_;
  bool direct_ = false, kept_ = false;
};

/// A gzip-compressed file. Throws Error: usage where it cannot be made, unavailable in a build without zlib.
[[nodiscard]] std::unique_ptr<TextOutput> open_gzip_output(const std::string& path);

}  // namespace rehearse
