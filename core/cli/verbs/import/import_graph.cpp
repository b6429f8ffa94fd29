#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/base/error.hpp"
#include "core/cli/verbs/import/import_parts.hpp"
#include "core/config/json_file.hpp"
#include "core/import/graph/graph.hpp"
#include "core/report/formats/text_output.hpp"

namespace rehearse::cli {

namespace {

constexpr std::size_t kMostGraphBytes = std::size_t{2}
                                        << 30;  // An ONNX model holds its weights; protobuf allows 2 GiB.

void tell(const ImportedGraph& g, std::ostream& err) {
  err << fmt::format(
      "{}: {} operators in {} blocks ({} of them distinct), {} parameters, {:.6g} G multiply-adds forward\n", g.name,
      g.nodes, g.instances, g.blocks, g.parameters, g.forward_flops / 2e9);
  for (const auto& [op, count] : g.unknown)
    err << fmt::format(
        "warning: '{}' is no operator that is known here: left out {} times, {:.1f} % of the operators; "
        "it has no parameters and keeps its shape\n",
        op, count, 100.0 * count / g.nodes);
  for (const std::string& note : g.notes) err << "note: " << note << "\n";
}

}  // namespace

int import_graph(const Arguments& arguments, Console& console) {
  if (arguments.all("FILE").size() > 1)
    throw Error(ErrorKind::usage, fmt::format("'{}' after the file", arguments.all("FILE")[1]), "import graph",
                "one file holds one network");
  const std::string file = arguments.text("FILE"), output = arguments.text("--output", "-");
  const ImportedGraph g = rehearse::import_graph(read_text(file, kMostGraphBytes), file);
  tell(g, console.err);
  if (output == "-") {
    console.out << g.layer_list;
    return 0;
  }
  write_file(output, g.layer_list);
  console.err << "wrote " << output << "\n";
  return 0;
}

}  // namespace rehearse::cli
