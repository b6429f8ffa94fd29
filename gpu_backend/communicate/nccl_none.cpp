#include "core/base/error.hpp"
#include "gpu_backend/communicate/nccl_world.hpp"

namespace rehearse {

// NOLINTBEGIN(performance-unnecessary-value-param): as in nccl_world.cpp, where it is kept.
std::unique_ptr<Transport> join_nccl(int, int, const MeetingPoint&, ComputeDevice&,
                                     std::function<void(const std::string&)>) {
  throw Error(ErrorKind::unavailable, "this build has no NCCL: ranks with GPUs cannot talk", "--device cuda",
              "build where NCCL is installed, run one rank, or use --device cpu");
}
// NOLINTEND(performance-unnecessary-value-param)
std::string nccl_version() { return {}; }

}  // namespace rehearse
