#pragma once
// Several ranks on one GPU, to test what several GPUs would do: correct, and slow, because their kernels take turns.

#include <string>
#include <utility>
#include <vector>

namespace rehearse {

/// Variables for NCCL in the process of a rank that shares its GPU. NCCL refuses two ranks of one host on one GPU, and
/// tells hosts apart by NCCL_HOSTID: with one of its own each rank is a host, and data goes through sockets on this
/// machine. Ring and Simple are set for speed: other protocols wait for each other's time slices at every line. Takes
/// effect before the process's first call of NCCL; a variable that the user has set stays.
[[nodiscard]] std::vector<std::pair<std::string, std::string>> share_gpu_environment(int rank);
/// Sets those that are not set.
void share_gpu(int rank);

}  // namespace rehearse
