#pragma once
// What this machine says of itself.

#include <string>

#include "core/base/units.hpp"

namespace rehearse {

struct HostFacts {
  std::string processor;  ///< "unknown processor" where the system does not tell.
  Bytes memory;           ///< Installed.
};
[[nodiscard]] HostFacts host_facts();

}  // namespace rehearse
