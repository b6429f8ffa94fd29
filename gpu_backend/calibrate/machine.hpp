#pragma once
// What this machine says of itself.

#include <string>

#include "core/units/units.hpp"

namespace rehearse {

struct MachineFacts {
  std::string processor;  ///< "unknown processor" where the system does not tell.
  Bytes memory;           ///< Installed.
};
[[nodiscard]] MachineFacts machine_facts();

}  // namespace rehearse
