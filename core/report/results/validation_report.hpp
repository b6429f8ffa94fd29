#pragma once
// A run against its simulation: operators, communication and the step, predicted beside measured.

#include <string>
#include <vector>

#include "core/base/units.hpp"
#include "core/report/formats/document.hpp"

namespace rehearse {

/// One class of a step's time, mean over ranks.
struct ValidationRow {
  std::string name;  ///< "matmul.linear", "exposed communication", "dispatch and the rest"
  double calls = 0;  ///< Per rank and step; 0 where it isn't a number of calls.
  Seconds predicted, measured;
  bool kernel = true;  ///< Of the step's compute; otherwise between kernels.
};

struct Validation {
  std::string scenario, machine, backend;
  int ranks = 1, steps = 0;
  std::vector<ValidationRow> rows;          ///< Either column adds up to its step, to rounding.
  Seconds predicted;                        ///< Step.
  Seconds measured, p5, p95;                ///< Median step and its spread.
  std::vector<std::string> not_calibrated;  ///< Operators that the kernel model priced instead.
};

/// predicted / measured - 1; 0 where nothing was measured.
[[nodiscard]] double relative_error(Seconds predicted, Seconds measured);

/// The table, its records, and JSON: rows[{id, quantity, unit, predicted, measured, error, skipped}] and a summary:
/// error figures (core/scoreboard/errors.hpp) over the rows that were measured, without the step.
[[nodiscard]] Document validation_document(const Validation& validation);

}  // namespace rehearse
