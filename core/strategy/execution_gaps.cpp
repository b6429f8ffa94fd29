#include "core/strategy/execution_gaps.hpp"

namespace rehearse {

Registry<std::string>& execution_gaps() {
  static Registry<std::string> registry("execution gap");
  return registry;
}

std::string execution_gap(std::string_view strategy) {
  for (const auto& entry : execution_gaps().entries())
    if (entry.name == strategy) return entry.value;
  return {};
}

}  // namespace rehearse
