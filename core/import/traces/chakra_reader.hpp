#pragma once
// Chakra execution traces (mlcommons/chakra, schema/protobuf/et_def.proto): protobuf and JSON. Private to core/import;
// read_trace.hpp is the way in.
//
// A protobuf file is a GlobalMetadata and then Nodes, each after its length as a varint. Read are name, type,
// start_time_micros, duration_micros, data_deps, ctrl_deps and the attributes is_cpu_op, num_ops (FLOPs), comm_type,
// comm_size (bytes), pg_name, stream and op_class (core/import/traces/job_trace.hpp has the names; else a kernel's name
// decides). Nodes of the CPU are passed over.
//
// Where no node has a start, as in what rehearse and generators of synthetic traces write, a node starts when what it
// depends on and what its stream did before it have ended: RankTrace::laid_out. Without durations that leaves all at 0,
// in order of the dependencies.

#include <istream>
#include <string>

#include "core/import/traces/job_trace.hpp"
#include "core/import/traces/read_trace.hpp"
#include "core/trace/chakra_format.hpp"

namespace rehearse {

[[nodiscard]] RankTrace read_chakra(std::istream& in, const std::string& origin, const TraceLimits& limits);
[[nodiscard]] RankTrace read_chakra_json(const std::string& path, const TraceLimits& limits);

}  // namespace rehearse
