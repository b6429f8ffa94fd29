#include "core/cli/data_directory.hpp"

#include <cstdlib>
#include <vector>

#include "core/base/error.hpp"

namespace rehearse::cli {

namespace fs = std::filesystem;

DataDirectory find_data() {
  std::error_code unreadable;
  const auto holds_data = [&](const fs::path& root) { return fs::is_directory(root / "topologies", unreadable); };
  if (const char* given = std::getenv("REHEARSE_DATA"); given != nullptr && *given != '\0') {
    if (!holds_data(given))
      throw Error(ErrorKind::usage, "holds no folder 'topologies'", std::string("REHEARSE_DATA=") + given);
    return {given};
  }
  const fs::path program = fs::read_symlink("/proc/self/exe", unreadable);
  for (const fs::path& root :
       {program.parent_path().parent_path() / "share" / "rehearse", fs::path(REHEARSE_SOURCE_DATA)})
    if (holds_data(root)) return {root};
  throw Error(ErrorKind::usage, "the catalogue of machines is neither beside the program nor in its source tree",
              program.string(), "set REHEARSE_DATA to the folder that holds 'topologies'");
}

}  // namespace rehearse::cli
