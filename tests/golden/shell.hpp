#pragma once
// Running a transcript's commands: one bash each, stdout and stderr in one stream, a fixed environment.

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "tests/golden/transcript.hpp"

namespace golden {

/// Makes output independent of the terminal and the user's settings (NO_COLOR, TERM, COLUMNS, LC_ALL, TZ) and puts
/// `program_directories` first on PATH. Changes this process's environment.
void prepare_environment(const std::vector<std::filesystem::path>& program_directories);

/// Runs `bash -c command.text` in `directory`. A command still running at its time limit is killed with its children.
/// Throws std::system_error when it cannot be started.
[[nodiscard]] Outcome run_command(const Command& command, const std::filesystem::path& directory);

/// A temporary directory that shows what another one holds, by links, and keeps what commands write; removed with the
/// object.
class ScratchDirectory {
 public:
  /// `links` adds names (which may hold slashes) with the path that each stands for; an entry they share a first part
  /// with is left out.
  ScratchDirectory(const std::filesystem::path& source,
                   const std::vector<std::pair<std::string, std::filesystem::path>>& links);
  ~ScratchDirectory();
  ScratchDirectory(const ScratchDirectory&) = delete;
  ScratchDirectory& operator=(const ScratchDirectory&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace golden
