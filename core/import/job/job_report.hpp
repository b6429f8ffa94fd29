#pragma once
// What became of a job's settings, for people and programs.

#include "core/import/job/import_job.hpp"
#include "core/report/formats/document.hpp"

namespace rehearse::job {

/// Tables of what was taken and what is asked for, what was ignored by reason, notes; JSON is rehearse/job_import/v1.
/// `file` is the job's, as the report names it; `written` where the scenario went, may be empty.
[[nodiscard]] Document job_document(const ImportedJob& job, const std::string& file, const std::string& written);

/// One sentence for what is missing, and what to type.
struct Missing {
  std::string what, hint;
};
[[nodiscard]] Missing missing_of(const ImportedJob& job);

}  // namespace rehearse::job
