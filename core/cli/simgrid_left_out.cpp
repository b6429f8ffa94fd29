#include "core/cli/optional_parts.hpp"

namespace rehearse::cli {

void register_simgrid() {}
std::string simgrid_version() { return {}; }

}  // namespace rehearse::cli
