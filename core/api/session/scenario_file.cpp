#include "core/api/session/scenario_file.hpp"

#include <filesystem>

#include <fmt/format.h>

#include "core/api/data_directory.hpp"
#include "core/base/error.hpp"
#include "core/config/json_file.hpp"
#include "core/config/json_text.hpp"
#include "core/import/traces/measured_workload.hpp"
#include "core/import/traces/read_trace.hpp"
#include "core/plan/plan_scenario.hpp"

namespace rehearse {

namespace {

/// `given`, or the shipped file of that name where there is none in the working directory.
std::string own_or_shipped(const std::string& given) {
  if (is_json_text(given)) return given;
  std::error_code unreadable;
  if (std::filesystem::path(given).is_absolute() || std::filesystem::exists(given, unreadable)) return given;
  try {
    const std::filesystem::path shipped = find_data().root / given;
    return std::filesystem::is_regular_file(shipped, unreadable) ? shipped.generic_string() : given;
  } catch (const Error&) {
    return given;
  }
}

}  // namespace

Scenario load_scenario_file(const std::string& given, const std::vector<std::string>& overrides) {
  const std::string path = own_or_shipped(given);
  if (is_measured_workload(path))
    throw Error(ErrorKind::usage, "a step of a traced job, not a scenario", origin_of(path),
                "rehearse simulate plays it, on other clusters too");
  if (begins_with_schema(path, kPlanSchema)) return plan_scenario(read_text(path), origin_of(path), overrides);
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
