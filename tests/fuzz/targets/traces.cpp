// Traces of other programs: PyTorch's profiler (Kineto) and Chakra, from a stream and from a file.

#include <sstream>

#include <zlib.h>

#include "core/import/traces/chakra_reader.hpp"
#include "core/import/traces/kineto_reader.hpp"
#include "core/import/traces/measured_program.hpp"
#include "core/import/traces/measured_workload.hpp"
#include "core/import/traces/read_trace.hpp"
#include "tests/fuzz/inputs.hpp"
#include "tests/fuzz/target.hpp"

namespace rehearse::fuzz::traces {

namespace {

/// What a command does with traces once they are read.
void use(std::vector<RankTrace> ranks) {
  for (const RankTrace& rank : ranks) {
    require(rank.all_events >= static_cast<std::int64_t>(rank.events.size()), "more events than entries");
    for (const DeviceEvent& e : rank.events) require(e.duration.value() >= 0, "an event ends before it begins");
  }
  const JobTrace job = align(std::move(ranks));
  const Trace spans = to_trace(job);
  for (const Span& s : spans.spans) require(s.end >= s.begin, "a span ends before it begins");
  (void)measured_workload(job, "");
}

void run_kineto(std::string_view bytes) {
  std::istringstream in{std::string(bytes)};
  use(read_kineto(in, "fuzzed.json", {}));
}

void run_chakra(std::string_view bytes) {
  std::istringstream in{std::string(bytes)};
  use({read_chakra(in, "/nowhere/fuzzed.3.et", {})});
}

void run_chakra_json(std::string_view bytes) { use({read_chakra_json(written("fuzzed.2.json", bytes), {})}); }

void run_file(std::string_view bytes) { use(read_trace(written("fuzzed.1.json.gz", bytes))); }

void run_workload(std::string_view bytes) {
  const Overridden in = overridden(bytes);
  const MeasuredWorkload read = read_measured_workload(written("workload.json", in.text), in.overrides);
  require(!measured_workload_json(read).empty(), "a workload without text");
  (void)measured_program(read);
}

constexpr const char* kKineto = R"({"schemaVersion": 1, "distributedInfo": {"rank": 1, "world_size": 2, "pg_config":
 [{"pg_name": "0", "ranks": [0, 1]}]}, "deviceProperties": [{"id": 0, "name": "H100"}], "traceEvents": [
 {"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#5", "pid": 1, "tid": 1, "ts": 100, "dur": 900},
 {"ph": "X", "cat": "kernel", "name": "ampere_gemm_128", "pid": 0, "tid": 7, "ts": 110.5, "dur": 20.25,
  "args": {"stream": 7, "correlation": 3, "device": 0}},
 {"ph": "X", "cat": "kernel", "name": "ncclDevKernel_AllReduce_Sum_bf16_RING_LL", "pid": 0, "tid": 20, "ts": 140,
  "dur": 60, "args": {"stream": 20, "correlation": 4, "Collective name": "allreduce", "In msg nelems": 1024,
  "Out msg nelems": 1024, "Group size": 2, "dtype": "BFloat16", "Process Group Name": "0",
  "Process Group Ranks": "[0, 1]", "Seq": 2}},
 {"ph": "X", "cat": "gpu_memcpy", "name": "Memcpy HtoD", "pid": 0, "tid": 7, "ts": 220, "dur": 5, "args":
  {"stream": 7, "bytes": 4096}}]})";

std::string varint(std::uint64_t n) {
  std::string out;
  for (; n > 127; n >>= 7) out += static_cast<char>((n & 127) | 128);
  return out + static_cast<char>(n);
}
std::string field(int number, std::uint64_t value) {
  return varint(static_cast<std::uint64_t>(number) << 3) + varint(value);
}
std::string field(int number, const std::string& bytes) {
  return varint(static_cast<std::uint64_t>(number) << 3 | 2) + varint(bytes.size()) + bytes;
}
std::string message(const std::string& bytes) { return varint(bytes.size()) + bytes; }

/// GlobalMetadata, then two nodes (et_def.proto).
std::vector<std::string> chakra() {
  const std::string matmul = field(1, 1) + field(2, std::string("gemm")) + field(3, 4) + field(7, 5) + field(8, 9) +
                             field(10, field(1, std::string("is_cpu_op")) + field(27, 0)) +
                             field(10, field(1, std::string("num_ops")) + field(5, 4096));
  const std::string reduce = field(1, 2) + field(2, std::string("all_reduce")) + field(3, 7) + field(5, 1) +
                             field(8, 3) + field(10, field(1, std::string("comm_type")) + field(5, 0)) +
                             field(10, field(1, std::string("comm_size")) + field(5, 1 << 20)) +
                             field(10, field(1, std::string("pg_name")) + field(29, std::string("1")));
  return {message(field(1, std::string("0.0.4"))) + message(matmul) + message(reduce)};
}

std::vector<std::string> chakra_json() {
  return {R"({"nodes": [{"id": 1, "name": "gemm", "type": "COMP_NODE", "duration_micros": 9, "start_time_micros": 5,
 "attr": [{"name": "is_cpu_op", "bool_val": false}, {"name": "num_ops", "int64_val": 4096}]},
 {"id": 2, "name": "ar", "type": 7, "data_deps": [1], "duration_micros": 3, "attr": [{"name": "comm_type",
 "int64_val": 0}, {"name": "comm_size", "uint64_val": 1048576}, {"name": "pg_name", "string_val": "1"}]}]})"};
}

std::string packed(const std::string& text) {
  std::string out(text.size() + 256, '\0');
  z_stream z{};
  if (deflateInit2(&z, 6, Z_DEFLATED, 31, 8, Z_DEFAULT_STRATEGY) != Z_OK) return {};
  z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  z.avail_in = static_cast<uInt>(text.size());
  z.next_out = reinterpret_cast<Bytef*>(out.data());
  z.avail_out = static_cast<uInt>(out.size());
  deflate(&z, Z_FINISH);
  out.resize(z.total_out);
  deflateEnd(&z);
  return out;
}

std::vector<std::string> files() { return {kKineto, packed(kKineto), chakra_json().front(), chakra().front()}; }
std::vector<std::string> kineto() { return {kKineto}; }

std::vector<std::string> workloads() {
  std::istringstream in{std::string(kKineto)};
  return {measured_workload_json(measured_workload(align(read_kineto(in, "seed.json", {})), "")) +
          "--set cluster.machine=dgx_h100\n--set data_parallel=2"};
}

constexpr const char* kLimits = "64 deep, 50,000,000 device events, names of 1,000,000 bytes";

const bool registered_kineto = targets().add({"kineto",
                                              "traces of PyTorch's profiler",
                                              {},
                                              {.run = run_kineto, .made = kineto, .limits = {0, kLimits, nullptr}}});
const bool registered_chakra =
    targets().add({"chakra",
                   "Chakra's execution traces (protobuf)",
                   {},
                   {.run = run_chakra,
                    .made = chakra,
                    .limits = {0, "messages of 64,000,000 bytes, 50,000,000 device events", nullptr}}});
const bool registered_chakra_json =
    targets().add({"chakra_json",
                   "Chakra's execution traces (JSON)",
                   {},
                   {.run = run_chakra_json, .made = chakra_json, .limits = {1'000'000'000, "64 deep", nullptr}}});
const bool registered_files = targets().add({"trace_files",
                                             "trace files, plain and gzip, told by what they hold",
                                             {},
                                             {.run = run_file, .made = files, .limits = {0, kLimits, nullptr}}});
const bool registered_workloads =
    targets().add({"measured_workloads",
                   "workloads that 'import trace' wrote, with overrides",
                   {},
                   {.run = run_workload, .made = workloads, .limits = {1'000'000'000, "64 deep", nullptr}}});

}  // namespace

}  // namespace rehearse::fuzz::traces
