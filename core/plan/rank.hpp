#pragma once
// All candidates, best first, and why the first is first.

#include <functional>
#include <string>
#include <vector>

#include "core/plan/candidate.hpp"

namespace rehearse {

struct PlanAnswer {
  Plan plan;
  std::string question;  ///< The plan's, or one made of its figures.
  std::string model;
  double parameters = 0;
  std::vector<CandidateAnswer> ranked;  ///< Best first.
  std::string why;                      ///< One paragraph with numbers.
  bool interrupted = false;             ///< Of some candidate not all was tried.
  std::string export_line;              ///< A command that exports the first candidate's point; empty: none is known.
};

/// What the objective counts of a candidate that has a point: dollars, seconds, joules or dollars.
[[nodiscard]] double objective_value(PlanObjective objective, const PlanPoint& point);

/// Sorts: first what meets deadline and budgets, then what meets the deadline, then what runs at all, each by the
/// objective (those that miss the deadline by their days), equal ones by name; writes question and `why`.
[[nodiscard]] PlanAnswer rank_candidates(Plan plan, const std::string& model, double parameters,
                                         std::vector<CandidateAnswer> candidates);

}  // namespace rehearse
