#include "core/api/session/scenario_file.hpp"

#include <filesystem>

#include <fmt/format.h>

#include "core/base/error.hpp"
#include "core/import/traces/measured_workload.hpp"
#include "core/import/traces/read_trace.hpp"

namespace rehearse {

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

Scenario with_overrides(const Scenario& scenario, const std::vector<std::string>& overrides) {
  const std::string folder = std::filesystem::path(scenario.origin).parent_path().generic_string();
  return parse_scenario(resolved_json(scenario, folder), scenario.origin, overrides);
}

}  // namespace rehearse
