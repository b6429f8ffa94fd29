#pragma once
// The files at hand while a job is read: those that the user gave, those that they name and that lie beside them, and
// those that a script writes. Nothing is written to disk.

#include <cstddef>
#include <string>
#include <vector>

#include "core/import/job/shell/traced.hpp"

namespace rehearse::job {

class JobFiles {
 public:
  struct File {
    std::string path;
    Traced text;
    bool given = false;  ///< By the user.
  };

  /// Reads a file that the user gave. Throws Error (usage) where it cannot be read, or is larger than 4 MB.
  int give(const std::string& path);
  /// A text that is no file: a launch line.
  int add(const std::string& name, const std::string& text);
  /// What a script writes to `path`, in place of what was there.
  void write(const std::string& path, Traced text, bool append);

  /// The file that `path` means where file `from` says it: that one, beside `from`, or the given file of that name. One
  /// that lies on disk beside `from` is read. -1: none.
  [[nodiscard]] int find(const std::string& path, int from);
  [[nodiscard]] const File& at(int index) const { return files_[static_cast<std::size_t>(index)]; }
  [[nodiscard]] int count() const { return static_cast<int>(files_.size()); }
  /// "train.sh:12"; the file's name alone where the line is unknown.
  [[nodiscard]] std::string where(Place place) const;

 private:
  [[nodiscard]] int known(const std::string& path) const;
  int read(const std::string& path, bool given);

  std::vector<File> files_;
};

}  // namespace rehearse::job
