#include "gpu_backend/communicate/share_gpu.hpp"

#include <cstdlib>

namespace rehearse {

std::vector<std::pair<std::string, std::string>> share_gpu_environment(int rank) {
  return {{"NCCL_HOSTID", "sim-r" + std::to_string(rank)},
          {"NCCL_SOCKET_IFNAME", "lo"},
          {"NCCL_SOCKET_FAMILY", "AF_INET"},
          {"NCCL_NET", "Socket"},
          {"NCCL_IB_DISABLE", "1"},
          {"NCCL_NVLS_ENABLE", "0"},
          {"NCCL_MNNVL_ENABLE", "0"},
          {"NCCL_PROTO", "Simple"},
          {"NCCL_ALGO", "Ring"},
          {"NCCL_MAX_NCHANNELS", "2"}};
}

void share_gpu(int rank) {
  for (const auto& [name, value] : share_gpu_environment(rank)) ::setenv(name.c_str(), value.c_str(), 0);
}

}  // namespace rehearse
