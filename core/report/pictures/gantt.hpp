#pragma once
// A pipeline as text: one row per rank, one character per slice of time.
//
//   stage 0 |00112233....aabbccddoo|
//
// Digits are forward passes (microbatch modulo 10), letters backward passes (a is microbatch 0, modulo 26), 'o' the
// optimizer, '=' gradient reduction while nothing computes, '.' idle. A step too long for one character per forward
// pass is shown by its beginning and its end, which is where a pipeline differs from stage to stage. A pass that is
// shorter than a character gets one where its neighbours leave it one, and the legend counts those that get none:
//
//   stage 0 |0011223344556677aabb ~ yy88zz99aabb==oo|

#include <string>
#include <vector>

#include "core/report/formats/document.hpp"
#include "core/trace/trace.hpp"

namespace rehearse {

struct GanttRow {
  std::string label;
  int rank = 0;
};

/// At most `most` of `rows`, evenly spaced, first and last kept; the first alone where `most` is 1.
[[nodiscard]] std::vector<GanttRow> sampled(const std::vector<GanttRow>& rows, std::size_t most = 16);

struct GanttOptions {
  /// Draw every collective, message and copy as '=', not gradient reduction alone, and input as 'i'.
  bool communication = false;
  bool cut = true;       ///< A step too long for one character per pass shows its ends only.
  bool axis = true;      ///< With the line of time and the legend.
  Seconds until{1e300};  ///< Nothing is drawn after it, not even idle time.
};

/// The time from `begin` to `end` > begin, as wide as `style` says, with a time axis and a legend. Each character shows
/// what filled most of its slice. Ends in a newline.
[[nodiscard]] std::string draw_gantt(const Trace& trace, const std::vector<GanttRow>& rows, Seconds begin, Seconds end,
                                     const TextStyle& style, const GanttOptions& options = {});

/// Whether such a picture leaves the middle out.
[[nodiscard]] bool is_cut(const Trace& trace, const std::vector<GanttRow>& rows, Seconds begin, Seconds end,
                          const TextStyle& style, const GanttOptions& options = {});

}  // namespace rehearse
