#pragma once
// A run against its simulation: operators, communication and the step, predicted beside measured.

#include <optional>
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
  // How far the machine was left to the run; nothing where that is not known.
  std::optional<double> taken_by_others;  ///< Share of the processors' time that other programs took meanwhile.
  /// The same while the profile was measured.
  std::optional<double> profile_taken_by_others;
  std::optional<double> pace;  ///< Time that the machine takes for the same work, over that in the profile.
};

/// Of the processors' time: what other programs take beyond it is told, because steps of ranks that wait for each other
/// are as slow as the one that was held up.
inline constexpr double kBusyShare = 0.05;
/// A machine that takes so much longer or shorter for the same work is not the one that the profile is of.
inline constexpr double kPaceApart = 0.10;

/// "other programs took 48 % of the processors' time while 2 ranks were measured": for what is above kBusyShare.
[[nodiscard]] std::optional<std::string> busy_words(std::optional<double> taken_by_others, int ranks);

/// Why the comparison is none of a quiet machine, a sentence each; empty where nothing speaks against it.
[[nodiscard]] std::vector<std::string> doubts_of(const Validation& validation);

/// predicted / measured - 1; 0 where nothing was measured.
[[nodiscard]] double relative_error(Seconds predicted, Seconds measured);

/// The table, its records, and JSON: rows[{id, quantity, unit, predicted, measured, error, skipped}] and a summary:
/// error figures (core/scoreboard/errors.hpp) over the rows that were measured, without the step.
[[nodiscard]] Document validation_document(const Validation& validation);

}  // namespace rehearse
