#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "core/api/build_info.hpp"
#include "core/api/session/session.hpp"
#include "core/cli/output.hpp"
#include "core/cli/run/optional_parts.hpp"
#include "core/cli/verbs.hpp"
#include "core/play/backend.hpp"

namespace rehearse::cli {

namespace {

int version(const Arguments& arguments, Console& console) {
  const std::vector<std::string> cuda = describe_cuda_devices();
  const std::string simgrid = simgrid_version();
  const nlohmann::ordered_json json{
      {"schema", "rehearse/version/v1"},
      {"version", rehearse_version()},
      {"backends", backends().names()},
      {"simgrid", simgrid.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(simgrid)},
      {"cuda_devices", cuda}};
  Facts facts{"",
              {{"rehearse", rehearse_version()},
               {"back ends", fmt::format("{}", fmt::join(backends().names(), ", "))},
               {"SimGrid", simgrid.empty() ? "not built in" : simgrid}}};
  for (const std::string& line : cuda) facts.rows.emplace_back("CUDA devices", line);
  Table records{"", {{"what"}, {"value"}}, {}};
  for (const auto& [what, value] : facts.rows) records.rows.push_back({what, value});
  print({{facts}, records, json.dump(2) + "\n"}, arguments, console);
  return 0;
}

}  // namespace

Verb version_verb() {
  Verb verb{"version",
            "Version, back ends and devices.",
            {"rehearse version", "rehearse version --format json"},
            {},
            result_options(),
            "",
            version};
  std::erase_if(verb.options, [](const Option& o) { return o.name == "--set"; });
  return verb;
}

}  // namespace rehearse::cli
