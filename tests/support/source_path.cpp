#include "tests/support/source_path.hpp"

namespace rehearse::testing {

std::string source_path(const std::string& below) {
  return below.empty() ? REHEARSE_SOURCE_DIR : REHEARSE_SOURCE_DIR "/" + below;
}

}  // namespace rehearse::testing
