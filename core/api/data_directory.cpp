#include "core/api/data_directory.hpp"

#include <cstdlib>
#include <vector>

#include "core/api/build_info.hpp"
#include "core/base/error.hpp"

namespace rehearse {

namespace fs = std::filesystem;

namespace {

std::vector<fs::path>& installed_folders() {
  static std::vector<fs::path> folders;
  return folders;
}

bool holds_data(const fs::path& root) {
  std::error_code unreadable;
  return fs::is_directory(root / "topologies", unreadable);
}

}  // namespace

bool add_installed_data(const fs::path& folder) {
  installed_folders().push_back(folder);
  return true;
}

DataDirectory find_data() {
  if (const char* given = std::getenv("REHEARSE_DATA"); given != nullptr && *given != '\0') {
    if (!holds_data(given))
      throw Error(ErrorKind::usage, "holds no folder 'topologies'", std::string("REHEARSE_DATA=") + given);
    return {given};
  }
  std::error_code unreadable;
  const fs::path program = fs::read_symlink("/proc/self/exe", unreadable);
  std::vector<fs::path> roots = installed_folders();
  roots.push_back(program.parent_path().parent_path() / "share" / "rehearse");
  roots.emplace_back(source_directory());
  for (const fs::path& root : roots)
    if (holds_data(root)) return {root};
  throw Error(ErrorKind::usage, "the catalogue of machines is neither beside the program nor in its source tree",
              program.string(), "set REHEARSE_DATA to the folder that holds 'topologies'");
}

DataDirectory data_in(const fs::path& folder) {
  if (folder.empty()) return find_data();
  if (!holds_data(folder)) throw Error(ErrorKind::usage, "holds no folder 'topologies'", folder.string());
  return {folder};
}

}  // namespace rehearse
