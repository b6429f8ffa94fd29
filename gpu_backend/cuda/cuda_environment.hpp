#pragma once
// What CUDA reads from the environment of a process, once, at its first call.

#include <string>
#include <utility>
#include <vector>

namespace rehearse {

/// Variables for a process that is one of `ranks`; none for a rank alone. Kernels are loaded at the start
/// (CUDA_MODULE_LOADING): a first launch that loads may wait for the device, and with it for kernels of NCCL that wait
/// for a peer. Streams get hardware queues of their own (CUDA_DEVICE_MAX_CONNECTIONS, 8 by default, at most 32): two
/// that share one wait for each other.
[[nodiscard]] std::vector<std::pair<std::string, std::string>> cuda_environment(int ranks);

/// Sets those that the user has not set, and returns what was set, as NAME=VALUE.
std::vector<std::string> set_cuda_environment(int ranks);

}  // namespace rehearse
