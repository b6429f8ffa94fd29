#pragma once
// Reads traces of other people's programs.
//
//   PyTorch's profiler (Kineto): Chrome trace events as JSON, plain or gzip, one file a rank; also what `simulate
//   --trace` and `run --trace`
//     write, with many ranks in one file. Read as a stream: memory grows with device events, not with the file. A trace
//     without a device is one of operators on a CPU: each has its own time, without that of those it calls.
//   Chakra execution traces: protobuf (length-delimited GlobalMetadata and Node, et_def.proto of mlcommons/chakra) or
//   the JSON form
//     {"nodes": [...]}. The rank is the last number in the file's name ("llama.3.et").

#include <string>
#include <vector>

#include "core/import/traces/job_trace.hpp"

namespace rehearse {

struct TraceLimits {
  std::int64_t device_events = 50'000'000;  ///< Of one file.
  int depth = 64;                           ///< Objects and arrays inside each other.
  std::size_t text = 1'000'000;             ///< Bytes of one name.
};

/// The ranks of one file, in no particular order. Throws Error (usage), `where` the file with line or event, for files
/// that end early, damaged compression, text that is no JSON, events without a time, durations below zero, files that
/// are traces of something else (with what they are, where that can be told), and what is beyond `limits`.
[[nodiscard]] std::vector<RankTrace> read_trace(const std::string& path, const TraceLimits& limits = {});

/// Whether the file begins like one of these traces; false for files that cannot be read. Reads a few kilobytes.
[[nodiscard]] bool is_trace(const std::string& path);

}  // namespace rehearse
