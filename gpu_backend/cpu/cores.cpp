#include "gpu_backend/cpu/cores.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>
#include <tuple>

#include <sched.h>
#include <unistd.h>

namespace rehearse {

namespace {

/// A number that the system tells of a processor; 0 where it does not.
int topology(int core, const char* what) {
  int out = 0;
  std::ifstream("/sys/devices/system/cpu/cpu" + std::to_string(core) + "/topology/" + what) >> out;
  return out;
}

}  // namespace

Cores::Cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) == 0)
    for (int i = 0; i < CPU_SETSIZE; ++i)
      if (CPU_ISSET(i, &set)) all_.push_back(i);
  if (all_.empty()) all_.push_back(0);
  std::vector<std::tuple<int, int, int>> places;
  for (const int core : all_)
    places.emplace_back(topology(core, "physical_package_id"), topology(core, "core_id"), core);
  std::sort(places.begin(), places.end());
  std::transform(places.begin(), places.end(), all_.begin(), [](const auto& place) { return std::get<2>(place); });
}

bool Cores::chosen() const { return count() < sysconf(_SC_NPROCESSORS_ONLN); }

int Cores::bind(int index, int of) const {
  if (of > count()) return 1;
  const std::vector<int> mine = part_of(all_, index, of);
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int core : mine) CPU_SET(static_cast<std::size_t>(core), &set);
  // Threads may end meanwhile: those need no processor.
  std::error_code gone;
  for (std::filesystem::directory_iterator thread("/proc/self/task", gone), end; thread != end; thread.increment(gone))
    (void)sched_setaffinity(std::stoi(thread->path().filename().string()), sizeof set, &set);
  return static_cast<int>(mine.size());
}

std::vector<int> part_of(const std::vector<int>& cores, int index, int of) {
  const auto n = static_cast<int>(cores.size());
  const auto at = [&](int i) { return cores.begin() + static_cast<std::ptrdiff_t>(n) * i / of; };
  return {at(index), at(index + 1)};
}

}  // namespace rehearse
