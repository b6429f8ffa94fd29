#include "core/base/memory_room.hpp"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>

namespace rehearse {

namespace {

constexpr double kUnknown = 1024.0 * 1024 * 1024;

/// In bytes, where the group that this process is in has a limit; `most` otherwise.
double of_container(double most) {
  std::ifstream groups("/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    if (!line.starts_with("0::/")) continue;
    const std::filesystem::path root = "/sys/fs/cgroup";
    for (std::filesystem::path at = root / line.substr(4);; at = at.parent_path()) {
      double limit = 0;
      if (std::ifstream file(at / "memory.max"); file >> limit) most = std::min(most, limit);  // "max" is no number.
      if (at == root || !at.has_relative_path()) break;
    }
  }
  return most;
}

}  // namespace

Bytes memory_room() {
  double most = static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGE_SIZE));
  if (most <= 0) most = kUnknown;
  rlimit limit{};
  if (getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
    most = std::min(most, static_cast<double>(limit.rlim_cur));
  return Bytes{of_container(most)};
}

}  // namespace rehearse
