#pragma once
// Steps that the user measured: what `--observed FILE` reads. They tell the effect of the user's own source (its
// machines, its software, its way to measure), which shifts the ranges of that user's predictions and narrows them
// (PredictionRanges::with_own).

#include <string>
#include <vector>

#include "core/api/data_directory.hpp"
#include "core/scoreboard/prediction_range.hpp"

namespace rehearse {

struct Session;

/// Errors of the rows of `files`, which are measurements as `validate` reads them, each predicted in closed form; by
/// kind of job. Throws Error (usage): files that cannot be read or are of another form, and where no row counts.
[[nodiscard]] std::vector<ErrorGroup> errors_of_rows(const std::vector<std::string>& files, const DataDirectory& data);

/// Makes the steps of `files` known to the session, whose answers then have ranges with and without them. Beside
/// measurements these may be traces of the job that the session's scenario describes, one file or one for each rank:
/// together they are one step, the mean of those that the profiler marked, and without marks all that was traced.
/// Throws Error (usage) as errors_of_rows() does.
void observe(Session& session, const std::vector<std::string>& files);

/// The shipped ranges, with the session's own steps where it has some. Throws as PredictionRanges::load() does.
[[nodiscard]] PredictionRanges ranges_for(const Session& session);
/// That of the session's own kind of job.
[[nodiscard]] PredictionRange range_of(const Session& session);
/// Of peak memory of a kind of job, in the words that answers say; no rows where nothing is known.
[[nodiscard]] PeakRange peak_range_in(const PredictionRanges& ranges, const PredictionKind& kind);
/// That of the session's own kind of job.
[[nodiscard]] PeakRange peak_range_of(const Session& session);

}  // namespace rehearse
