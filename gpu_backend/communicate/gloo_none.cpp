#include "core/base/error.hpp"
#include "gpu_backend/communicate/gloo_world.hpp"

namespace rehearse {

std::unique_ptr<Transport> join_gloo(int, int, const MeetingPoint&, std::function<void(const std::string&)>,
                                     Neighbourhood) {
  throw Error(ErrorKind::unavailable, "several ranks need Gloo, which is not built in", "--device cpu",
              "install libgloo-dev and build again, or run one rank with --ranks 1");
}

}  // namespace rehearse
