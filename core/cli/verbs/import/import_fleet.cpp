#include "core/import/fleet/import_fleet.hpp"

#include "core/cli/verbs/import/import_parts.hpp"
#include "core/config/json_file.hpp"
#include "core/report/formats/text_output.hpp"

namespace rehearse::cli {

namespace {

constexpr std::size_t kMostFleetBytes = 512'000'000;

}  // namespace

int import_fleet(const Arguments& arguments, Console& console) {
  std::vector<FleetFile> files;
  for (const std::string& file : arguments.all("FILE")) files.push_back({file, read_text(file, kMostFleetBytes)});
  FleetImportOptions options;
  options.nodes = static_cast<int>(arguments.whole("--nodes", 1, 0, 1'000'000));
  options.gpus_per_node = static_cast<int>(arguments.whole("--gpus", 1, options.gpus_per_node, 1024));
  options.machine = arguments.text("--machine");
  const ImportedFleet fleet = rehearse::import_fleet(files, options);
  for (const std::string& note : fleet.notes) console.err << "note: " << note << "\n";
  const std::string output = arguments.text("--output", "-");
  if (output == "-") {
    console.out << fleet.json;
    return 0;
  }
  write_file(output, fleet.json);
  console.err << "wrote " << output << "\n";
  return 0;
}

}  // namespace rehearse::cli
