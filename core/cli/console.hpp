#pragma once
// Where a verb prints: results on `out`, everything else on `err`.

#include <ostream>

#include "core/report/formats/document.hpp"

namespace rehearse::cli {

struct Console {
  std::ostream& out;
  std::ostream& err;
  TextStyle style;  ///< Of results on `out`.
};

/// Style for the standard output of this process: as wide as COLUMNS or the terminal says, else 100; colours only on a
/// terminal, and neither with NO_COLOR set nor with TERM=dumb.
[[nodiscard]] TextStyle terminal_style();

}  // namespace rehearse::cli
