#include "gpu_backend/calibrate/machine.hpp"

#include <fstream>

#include <unistd.h>

namespace rehearse {

HostFacts host_facts() {
  HostFacts out;
  out.processor = "unknown processor";
  out.memory = Bytes{static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGE_SIZE))};
  std::ifstream facts("/proc/cpuinfo");
  for (std::string line; std::getline(facts, line);)
    if (line.starts_with("model name"))
      if (const auto colon = line.find(": "); colon != std::string::npos) {
        out.processor = line.substr(colon + 2);
        break;
      }
  return out;
}

}  // namespace rehearse
