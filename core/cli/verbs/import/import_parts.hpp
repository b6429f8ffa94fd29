#pragma once
// What `import` brings in besides machines: one function per kind, in files of their own.

#include "core/cli/verb.hpp"

namespace rehearse::cli {

/// `import trace FILE...`: the report, and with -o a measured workload.
int import_trace(const Arguments& arguments, Console& console);
/// `import collectives FILE...`: a table of measured collectives.
int import_collectives(const Arguments& arguments, Console& console);
/// `import fleet FILE...`: a shared cluster with its queues and jobs, as other schedulers state them.
int import_fleet(const Arguments& arguments, Console& console);
/// `import graph FILE`: a network as a layer list, of a graph of torch.fx or ONNX.
int import_graph(const Arguments& arguments, Console& console);
/// `import job FILE...`: a scenario, and what became of every setting.
int import_job(const Arguments& arguments, Console& console);

}  // namespace rehearse::cli
