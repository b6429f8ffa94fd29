#include "core/estimate/quick/stand_in.hpp"

#include <algorithm>

#include "core/estimate/quick/chunk_layout.hpp"

namespace rehearse {

std::optional<Stand> stand_in(const std::function<bool(const Schedule&)>& suits, int stages, int chunks, int least) {
  for (const auto& entry : schedules().entries()) {
    if (!suits(*entry.value)) continue;
    for (int m = least; m <= std::max(least, 4 * stages); ++m)
      if (runs(*entry.value, {stages, chunks, m})) return Stand{entry.name, entry.value.get(), m};
  }
  return {};
}

}  // namespace rehearse
