#pragma once
// The closed form against a back end that plays the same rows.

#include <string>
#include <vector>

#include "core/scoreboard/scoreboard.hpp"

namespace rehearse {

struct AgreementOptions {
  std::string backend;  ///< Registered.
  int most_gpus = 64;   ///< Larger jobs are left out: flows of each rank take time to play.
  int every = 10;       ///< Of each source, every how many of the rows that count, from the first.
};

struct AgreedRow {
  std::string id, source;
  Seconds closed_form, played;
  TimeCategory most;     ///< Category of the breakdown that differs most.
  Seconds most_differs;  ///< By this much: played less closed form.
  [[nodiscard]] double difference() const { return closed_form / played - 1; }
};

struct Agreement {
  std::string backend;
  std::vector<AgreedRow> rows;
  ErrorStatistics difference;        ///< Of AgreedRow::difference.
  std::vector<std::string> refused;  ///< Rows that the back end does not play, with its reason.
};

/// `rows` are those that `board`, in closed form, was made from. Throws Error (usage) for a back end that is not
/// registered.
[[nodiscard]] Agreement agreement(const Scoreboard& board, const std::vector<Measurement>& rows,
                                  const PredictorPaths& paths, const AgreementOptions& options);

}  // namespace rehearse
