#pragma once
// Small scenarios of the source tree, and the toy machines whose data stays as it is.

#include <string>
#include <vector>

#include "core/api.hpp"
#include "tests/support/source_path.hpp"

namespace rehearse::testing {

inline std::string toys() { return source_path("tests/golden/toy"); }

inline Scenario toy(const std::string& name, const std::vector<std::string>& overrides = {}) {
  return load_scenario(source_path("tests/golden/toy/" + name + ".json"), overrides);
}

}  // namespace rehearse::testing
