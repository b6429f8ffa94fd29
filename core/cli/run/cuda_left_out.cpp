#include "core/cli/run/optional_parts.hpp"

namespace rehearse::cli {

std::vector<std::string> describe_cuda_devices() { return {"none: this build has no real back end (REHEARSE_GPU)"}; }

}  // namespace rehearse::cli
