#include <limits>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/base/error.hpp"
#include "core/cli/verbs/import/import_parts.hpp"
#include "core/collective/collective_table.hpp"
#include "core/config/json_file.hpp"
#include "core/import/nccl_tests.hpp"
#include "core/report/formats/text_output.hpp"

namespace rehearse::cli {

namespace {

int count(const Arguments& arguments, const char* option) {
  return static_cast<int>(arguments.whole(option, 1, 0, std::numeric_limits<int>::max()));
}

}  // namespace

int import_collectives(const Arguments& arguments, Console& console) {
  const NcclTestsOptions options{arguments.text("--op"), count(arguments, "--ranks"), count(arguments, "--nodes"),
                                 arguments.has("--in-place")};
  std::vector<NcclTestsRun> runs;
  for (const std::string& file : arguments.all("FILE"))
    for (NcclTestsRun& run : parse_nccl_tests(read_text(file), file, options)) runs.push_back(std::move(run));
  for (const NcclTestsRun& run : runs)
    for (const std::string& note : run.notes) console.err << "note: " << note << '\n';
  const std::string text =
      collective_table_json(runs, fmt::format("nccl-tests: {}", fmt::join(arguments.all("FILE"), ", ")));
  const std::string output = arguments.text("--output", "-");
  (void)CollectiveTable::parse(text, output);  // As it will be read: a shape measured twice is an error now.
  if (output == "-") {
    console.out << text;
    return 0;
  }
  write_file(output, text);
  for (const NcclTestsRun& run : runs)
    console.err << fmt::format("{} between {} ranks on {} nodes: {} sizes\n", name_of(run.op), run.ranks, run.nodes,
                               run.rows.size());
  console.err << fmt::format("wrote {}; use it with --set collective_table={}\n", output,
                             output.find('/') == std::string::npos ? "./" + output : output);
  return 0;
}

}  // namespace rehearse::cli
