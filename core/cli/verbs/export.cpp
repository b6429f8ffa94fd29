#include <algorithm>
#include <filesystem>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/api/fleet.hpp"
#include "core/api/session/exported.hpp"
#include "core/base/index.hpp"
#include "core/cli/output.hpp"
#include "core/cli/verbs.hpp"
#include "core/config/json_file.hpp"
#include "core/export/export.hpp"
#include "core/export/fleet/fleet_export.hpp"
#include "core/fleet/read_fleet.hpp"
#include "core/fleet/result.hpp"
#include "core/report/formats/text_output.hpp"
#include "core/strategy/workload.hpp"

namespace rehearse::cli {

namespace {

namespace fs = std::filesystem;

Document report_of(const Exported& e, const std::string& target, const std::string& folder) {
  Document out;
  nlohmann::ordered_json json{{"schema", "rehearse/export/v1"},
                              {"target", target},
                              {"framework", framework_of_target(target)},
                              {"folder", folder},
                              {"files", nlohmann::ordered_json::array()},
                              {"settings", nlohmann::ordered_json::array()},
                              {"left_out", nlohmann::ordered_json::array()},
                              {"notes", e.notes}};
  Facts facts{"", {{"target", target}}};
  for (const ExportedFile& f : e.files) {
    json["files"].push_back(f.name);
    if (facts.rows.size() < 8)
      facts.rows.emplace_back(facts.rows.size() == 1 ? "wrote" : "", (fs::path(folder) / f.name).string());
  }
  if (e.files.size() > 7) facts.rows.emplace_back("", fmt::format("and {} more", e.files.size() - 7));
  out.blocks.emplace_back(std::move(facts));
  Table left{"Left out, or not said as it stands", {{"key"}, {"value"}, {"why"}}, {}};
  out.records = {"", {{"key"}, {"value"}, {"flag"}, {"text"}}, {}};
  for (const ExportedSetting& s : e.settings) {
    json["settings"].push_back({{"key", s.key}, {"value", s.value}, {"flag", s.flag}, {"text", s.text}});
    out.records.rows.push_back({s.key, s.value, s.flag, s.text});
  }
  for (const LeftOutKey& l : e.left_out) {
    json["left_out"].push_back({{"key", l.key}, {"value", l.value}, {"why", l.why}});
    left.rows.push_back({l.key, l.value, l.why});
    out.records.rows.push_back({l.key, l.value, "", l.why});
  }
  if (left.rows.empty())
    out.blocks.emplace_back(Paragraph{"Every setting of the plan has a flag in the target."});
  else
    out.blocks.emplace_back(std::move(left));
  for (const std::string& note : e.notes) out.blocks.emplace_back(Paragraph{note});
  out.json = json.dump(2) + "\n";
  return out;
}

void write_files(const Exported& e, const std::string& folder) {
  std::error_code failed;
  fs::create_directories(folder, failed);
  if (failed) throw Error(ErrorKind::usage, "cannot be made: " + failed.message(), folder, "name a folder: -o FOLDER");
  for (const ExportedFile& f : e.files) {
    const fs::path path = fs::path(folder) / f.name;
    write_file(path.string(), f.text);
    if (f.executable)
      fs::permissions(path, fs::perms::owner_exec | fs::perms::group_exec | fs::perms::others_exec,
                      fs::perm_options::add, failed);
  }
}

/// What --to names, of those that write this kind of file.
template <class Targets>
std::string wanted_target(const Arguments& arguments, const Targets& targets) {
  const std::string target = arguments.text("--to");
  if (target.empty())
    throw Error(ErrorKind::usage, "--to is missing", "export",
                fmt::format("one of {}", fmt::join(targets.names(), ", ")));
  try {
    (void)targets.at(target);
  } catch (Error& e) {
    e.where = "--to";
    throw;
  }
  return target;
}

/// Arguments of the report: -o is the folder.
Arguments report_arguments(const Arguments& arguments) {
  Arguments out;
  if (arguments.has("--format")) out.add("--format", arguments.text("--format"));
  check_output(out);
  return out;
}

int export_fleet(const Arguments& arguments, Console& console) {
  const std::string file = arguments.text("SCENARIO"), target = wanted_target(arguments, fleet_exporters());
  const Arguments report = report_arguments(arguments);
  const fleet::Fleet fleet = open_fleet(file, arguments.all("--set"));
  fleet::check_fleet(fleet);
  const Exported e = fleet_exporters().at(target).value(fleet);
  const std::string folder = arguments.text("--output", fs::path(file).stem().string() + "." + target);
  write_files(e, folder);
  print(report_of(e, target, folder), report, console);
  return 0;
}

int export_plan(const Arguments& arguments, Console& console) {
  if (begins_with_schema(arguments.text("SCENARIO"), fleet::kFleetSchema)) return export_fleet(arguments, console);
  const std::string target = wanted_target(arguments, exporters());
  const Arguments report = report_arguments(arguments);
  const Session session = open_session(arguments.text("SCENARIO"), arguments.all("--set"));
  print_warnings(session.scenario, console);
  const Program program = session.lowered();
  const Exported e = exported(session, program, target);
  const std::string folder = arguments.text("--output", job_name(session.scenario.origin) + "." + target);
  write_files(e, folder);
  print(report_of(e, target, folder), report, console);
  return 0;
}

}  // namespace

Verb export_verb() {
  return {
      "export",
      "Launch files of a plan for other frameworks and schedulers; platforms and traces for simulators.",
      {"rehearse export scenarios/llama3_70b_h100_64.json --to megatron -o launch",
       "rehearse export scenarios/mixed_a100_v100.json --to kubernetes",
       "rehearse export scenarios/llama3_8b_h100_8.json --to chakra --format json",
       "rehearse export scenarios/fleets/two_teams.json --to kueue -o manifests"},
      {{"SCENARIO", "scenario file (rehearse/scenario/v1), or the file of a shared cluster (rehearse/fleet/v1)"}},
      {{"--to", "TARGET",
        fmt::format("{}; of a shared cluster {}", fmt::join(exporters().names(), ", "),
                    fmt::join(fleet_exporters().names(), ", "))},
       {"--set", "KEY=VALUE", "change a key of the scenario, such as strategy.tp=8 ('rehearse list keys')", "", true},
       format_option("form of the report", "table"),
       {"-o,--output", "FOLDER", "where the files go", "SCENARIO.TARGET"}},
      "What has no flag in the target is listed with the reason. 'rehearse explain target:NAME' shows the table of "
      "keys and flags.",
      export_plan};
}

}  // namespace rehearse::cli
