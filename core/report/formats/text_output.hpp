#pragma once
// Writing large texts piece by piece, plain or compressed. A file appears under its name when it is whole: until
// close() it is a hidden draft beside it, which a failure takes away, so that what stood there before is whole, too.

#include <memory>
#include <string>
#include <string_view>

namespace rehearse {

class TextOutput {
 public:
  virtual ~TextOutput() = default;
  virtual void write(std::string_view text) = 0;
  /// Everything is in the file, which now has its name. Throws Error (usage), `where` the path, when it could not be
  /// written.
  virtual void close() = 0;
};

/// A file, gzip-compressed where `path` ends in ".gz" (no name or time in its header, so that equal text gives equal
/// bytes). Throws Error (usage) when it cannot be made.
[[nodiscard]] std::unique_ptr<TextOutput> open_output(const std::string& path);

/// Throws what open_output would for a path that cannot be: to be called before long work.
void check_output_path(const std::string& path);

/// `text` as a file, written as open_output does.
void write_file(const std::string& path, std::string_view text);

/// Takes away what is not whole yet: for a signal's handler that ends the process. Async-signal-safe.
void remove_drafts() noexcept;

}  // namespace rehearse
