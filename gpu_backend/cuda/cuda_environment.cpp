#include "gpu_backend/cuda/cuda_environment.hpp"

#include <cstdlib>

namespace rehearse {

std::vector<std::pair<std::string, std::string>> cuda_environment(int ranks) {
  if (ranks <= 1) return {};
  return {{"CUDA_MODULE_LOADING", "EAGER"}, {"CUDA_DEVICE_MAX_CONNECTIONS", "32"}};
}

std::vector<std::string> set_cuda_environment(int ranks) {
  std::vector<std::string> out;
  for (const auto& [name, value] : cuda_environment(ranks)) {
    if (std::getenv(name.c_str()) != nullptr) continue;
    ::setenv(name.c_str(), value.c_str(), 0);
    out.push_back(name + "=" + value);
  }
  return out;
}

}  // namespace rehearse
