#include "core/cli/scenario_file.hpp"

#include <fmt/format.h>

#include "core/base/error.hpp"
#include "core/import/traces/measured_workload.hpp"
#include "core/import/traces/read_trace.hpp"

namespace rehearse::cli {

Scenario load_scenario_file(const std::string& path, const std::vector<std::string>& overrides) {
  if (is_measured_workload(path))
    throw Error(ErrorKind::usage, "a step of a traced job, not a scenario", path,
                "rehearse simulate plays it, on other clusters too");
  try {
    return load_scenario(path, overrides);
  } catch (const Error&) {
    if (is_trace(path))
      throw Error(ErrorKind::usage, "a profiler's trace, not a scenario", path,
                  fmt::format("rehearse import trace {} -o job.json, then rehearse simulate job.json", path));
    throw;
  }
}

}  // namespace rehearse::cli
