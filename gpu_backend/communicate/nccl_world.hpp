#pragma once
// Ranks as processes with a GPU each, that talk by NCCL. Present in every build; where NCCL is missing it throws.

#include <functional>
#include <memory>
#include <string>

#include "gpu_backend/communicate/communicator.hpp"
#include "gpu_backend/communicate/gloo_world.hpp"

namespace rehearse {

/// Joins as `rank` of `ranks` for `device`, a CUDA device that outlives the transport. The world communicator is made
/// at once, from an id that rank 0 leaves at the rendezvous; those of groups and channels are split from it by ready().
/// `on_failure` as in join_gloo. Throws Error (unavailable) in a build without NCCL, and Error (check_failed) with what
/// NCCL says.
[[nodiscard]] std::unique_ptr<Transport> join_nccl(int rank, int ranks, const MeetingPoint& at, ComputeDevice& device,
                                                   std::function<void(const std::string& cause)> on_failure);

/// "2.28.9", or empty in a build without NCCL.
[[nodiscard]] std::string nccl_version();

}  // namespace rehearse
