// Graphs of other programs' networks.

#include "core/import/graph/graph.hpp"
#include "tests/fuzz/target.hpp"

namespace rehearse::fuzz::graphs {

namespace {

void read_any_graph(std::string_view bytes) { (void)import_graph(std::string(bytes), "graph"); }

std::vector<std::string> graph_seeds() {
  return {
      R"({"schema":"rehearse/graph/v1","name":"Tiny","torch":"1.13.1","nodes":[
{"name":"x","op":"placeholder","inputs":[],"constants":[],"options":{},"attributes":{},"parameters":{},
"shape":[1,3,8,8]},
{"name":"c","op":"Conv2d","inputs":["x"],"constants":[],"options":{},"attributes":{"stride":[1,1],"kernel_size":[3,3],
"padding":[1,1],"dilation":[1,1],"groups":1},"parameters":{"weight":[4,3,3,3],"bias":[4]},"shape":[1,4,8,8]},
{"name":"r","op":"relu","inputs":["c"],"constants":[],"options":{},"attributes":{},"parameters":{},"shape":[1,4,8,8]},
{"name":"output","op":"output","inputs":["r"],"constants":[],"options":{},"attributes":{},"parameters":{},
"shape":[1,4,8,8]}]})",
      // ModelProto.graph with one node "Relu" from "x" to "y", input "x" [1, 2], output "y".
      std::string("\x3a\x30"
                  "\x0a\x0c\x0a\x01x\x12\x01y\x22\x04Relu"
                  "\x5a\x13\x0a\x01x\x12\x0e\x0a\x0c\x08\x01\x12\x08\x0a\x02\x08\x01\x0a\x02\x08\x02"
                  "\x62\x09\x0a\x01y\x12\x04\x0a\x02\x08\x01",
                  50)};
}

[[maybe_unused]] const bool registered =
    targets().add({"graphs",
                   "graphs of networks (torch.fx in JSON, ONNX)",
                   {},
                   {.run = read_any_graph,
                    .made = graph_seeds,
                    .limits = {.bytes = 0, .more = "64 deep; 2 GB of ONNX", .file = nullptr}}});

}  // namespace

}  // namespace rehearse::fuzz::graphs
