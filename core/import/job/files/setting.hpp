#pragma once
// Settings of a job as files and command lines state them, before anyone knows what they mean.

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace rehearse::job {

struct JobSetting {
  std::string name;                 ///< "--seq-length", "parallelism.tensor_parallel_degree"
  std::vector<std::string> values;  ///< Words; none: a bare switch. What is not known stands in marks (traced.hpp).
  std::string where;                ///< "train.sh:12"

  /// The words with blanks between them.
  [[nodiscard]] std::string text() const {
    std::string out;
    for (const std::string& v : values) out += (out.empty() ? "" : " ") + v;
    return out;
  }
};

/// Settings of one origin that are in one language.
struct Section {
  std::string origin;    ///< The file, or the command's place.
  std::string language;  ///< One of translate::languages(); empty: to be found out.
  std::vector<JobSetting> settings;
};

}  // namespace rehearse::job
