#include <filesystem>

#include <fmt/format.h>

#include "core/base/error.hpp"
#include "core/cli/output.hpp"
#include "core/cli/verbs/import/import_parts.hpp"
#include "core/import/traces/measured_workload.hpp"
#include "core/import/traces/read_trace.hpp"
#include "core/import/traces/trace_report.hpp"
#include "core/report/formats/text_output.hpp"
#include "core/strategy/workload.hpp"

namespace rehearse::cli {

int import_trace(const Arguments& arguments, Console& console) {
  Arguments report;  // -o is where the workload goes; the report is for whoever reads.
  if (arguments.has("--format")) report.add("--format", arguments.text("--format"));
  check_output(report);
  if (arguments.has("--step") && !arguments.has("--output"))
    throw Error(ErrorKind::usage, "no workload is written", "--step", "add -o FILE, where that step goes");
  std::vector<RankTrace> ranks;
  const std::vector<std::string> files = arguments.all("FILE");
  for (const std::string& file : files) {
    if (files.size() > 1 && std::filesystem::path(file).filename() == "comm_group.json") {
      console.err << "passed over " << file << ": groups of a Chakra trace, no trace\n";
      continue;
    }
    for (RankTrace& r : read_trace(file)) ranks.push_back(std::move(r));
  }
  const JobTrace job = align(std::move(ranks));
  const std::string output = arguments.text("--output");
  if (output.empty()) {
    print(trace_document(job, nullptr), report, console);
    return 0;
  }
  const MeasuredWorkload workload = measured_workload(job, arguments.text("--step"));
  write_file(output, measured_workload_json(workload));
  console.err << fmt::format("wrote {}\n", output);
  print(trace_document(job, &workload), report, console);
  return 0;
}

}  // namespace rehearse::cli
