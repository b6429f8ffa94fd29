#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>

#include <unistd.h>

#include <fmt/format.h>

#include "core/base/error.hpp"
#include "core/base/index.hpp"
#include "core/config/settings/strategy.hpp"
#include "core/import/traces/call_words.hpp"
#include "core/import/traces/measured_workload.hpp"
#include "core/import/traces/read_trace.hpp"
#include "core/import/traces/trace_report.hpp"
#include "core/report/formats/text_output.hpp"
#include "core/strategy/workload.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/source_path.hpp"
#include "tests/unit/import/trace_files.hpp"

namespace rehearse {
namespace {

using testing::ScratchFile;

std::string kernel(const std::string& name, double ts, double dur, int stream = 7, const std::string& more = {}) {
  return fmt::format(
      R"({{"ph": "X", "cat": "kernel", "name": "{}", "pid": 0, "tid": {}, "ts": {}, "dur": {}, "args": {{"device": 0,
      "stream": {}{}}}}})",
      name, stream, ts, dur, stream, more);
}
std::string trace(const std::string& events, const std::string& more = {}) {
  return "{" + more + "\"traceEvents\": [" + events + "]}";
}

RankTrace read(const std::string& text, const std::string& suffix = ".json") {
  const ScratchFile file(text, suffix);
  std::vector<RankTrace> ranks = read_trace(file.path());
  REQUIRE(ranks.size() == 1);
  return ranks.front();
}

void check_refused(const std::string& text, const std::string& what, const std::string& suffix = ".json") {
  const ScratchFile file(text, suffix);
  try {
    (void)read_trace(file.path());
    FAIL("read: " << text.substr(0, 60));
  } catch (const Error& e) {
    CHECK(e.kind == ErrorKind::usage);
    CHECK(e.where.find(file.path()) != std::string::npos);
    CHECK(std::string(e.what()).find(what) != std::string::npos);
  }
}

TEST_CASE("A kernel's name tells its class") {
  CHECK(class_of_kernel("ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_64x3_tn") == OperationClass::matmul);
  CHECK(class_of_kernel("void cutlass::Kernel<cutlass_80_tensorop_s1688gemm_256x64_16x4_nn_align4>(...)") ==
        OperationClass::matmul);
  CHECK(class_of_kernel("void flash_fwd_kernel<Flash_fwd_kernel_traits<128, 64, 64, 4>>") == OperationClass::attention);
  CHECK(class_of_kernel("sm80_xmma_fprop_implicit_gemm_tf32f32") == OperationClass::convolution);
  CHECK(class_of_kernel("void cudnn::bn_bw_1C11_kernel_new<float>") == OperationClass::norm);
  CHECK(class_of_kernel("void at::native::vectorized_elementwise_kernel<4, CUDAFunctor_add<float>>") ==
        OperationClass::elementwise);
  CHECK(class_of_kernel("void at::native::multi_tensor_apply_kernel<TensorListMetadata<2>, FusedAdamMathFunctor>") ==
        OperationClass::optimizer);
  CHECK(class_of_kernel("ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)") ==
        OperationClass::communication);
  CHECK(class_of_kernel("void my_kernel()") == OperationClass::other);
}

TEST_CASE("Every profiler's word for a collective is read as one") {
  for (const char* word : {"allreduce", "nccl:all_reduce", "ncclKernel_AllReduce_RING_LL_Sum_float(ncclDevComm*)",
                           "ALL_REDUCE", "allreduce_coalesced"})
    CHECK(call_name(word) == "all_reduce");
  for (const char* word :
       {"_reduce_scatter_base", "nccl:reduce_scatter_tensor_coalesced", "ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL"})
    CHECK(call_name(word) == "reduce_scatter");
  CHECK(call_name("_allgather_base") == "all_gather");
  CHECK(call_name("all_to_allv") == "all_to_all");
  CHECK(call_name("recv") == "receive");
  CHECK(call_name("vectorized") == "unknown");
  CHECK(rank_list("[0, 8, 16]") == std::vector<int>{0, 8, 16});
  CHECK(rank_list("[0, ..., 7]").empty());
}

TEST_CASE("Fields of a call are taken from its kernel") {
  const RankTrace t = read(trace(
      kernel("ncclDevKernel_AllGather_RING_LL", 100.5, 20, 40,
             R"(, "Collective name": "_allgather_base", "In msg nelems": 10, "Out msg nelems": 80, "dtype": "BFloat16",
          "Group size": 8,
                                           "Process Group Name": "3",
                                           "Process Group Ranks": "[0, 1, 2, 3, 4, 5, 6, 7]", "Seq": 12)"),
      R"("distributedInfo": {"rank": 5, "world_size": 16}, "baseTimeNanoseconds": 2000, )"));
  CHECK(t.rank == 5);
  CHECK(t.world_size == 16);
  REQUIRE(t.calls.size() == 1);
  CHECK(t.calls[0].op == "all_gather");
  CHECK(t.calls[0].bytes == Bytes{160});  // The larger side, two bytes an element.
  CHECK(t.calls[0].group == "3");
  CHECK(t.calls[0].members.size() == 8);
  CHECK(t.calls[0].sequence == 12);
  CHECK(t.base_us == 102);  // 100.5 us rounded down, and 2 us.
  CHECK(t.events[0].begin.value() == Approx(0.5e-6));
}

TEST_CASE("A message's peer is the rank that sends it or gets it") {
  const std::string message = R"(, "Collective name": "{}", "In msg nelems": 4, "dtype": "Float", "{} Rank": 3)";
  const auto peer = [&](const char* name, const char* end) {
    return read(trace(kernel("ncclDevKernel_SendRecv", 1, 2, 5, fmt::format(fmt::runtime(message), name, end))))
        .calls.at(0)
        .peer;
  };
  CHECK(peer("send", "Dst") == 3);
  CHECK(peer("recv", "Src") == 3);
  CHECK(peer("send", "Src") == -1);
  CHECK(peer("allreduce", "Dst") == -1);
}

TEST_CASE("Host work is not device time") {
  const RankTrace t = read(
      trace(kernel("gemm", 10, 5) +
            R"(, {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 9, "tid": 9, "ts": 1, "dur": 100, "args": {}},
    {"ph": "X", "cat": "gpu_user_annotation", "name": "forward", "pid": 0, "tid": 7, "ts": 10, "dur": 5, "args": {}},
    {"ph": "i", "name": "mark", "ts": 3})"));
  CHECK(t.events.size() == 1);
  CHECK(t.all_events == 4);
}

TEST_CASE("Without a device, operators of the CPU count with their own time") {
  const auto op = [](const std::string& name, double ts, double dur) {
    return fmt::format(R"({{"ph": "X", "cat": "cpu_op", "name": "{}", "pid": 9, "tid": 9, "ts": {}, "dur": {}}})", name,
                       ts, dur);
  };
  const RankTrace t = read(trace(op("aten::linear", 10, 100) + "," + op("aten::t", 12, 8) + "," +
                                 op("aten::addmm", 20, 80) + "," + op("aten::relu", 120, 5)));
  double linear = 0, all = 0;
  for (const DeviceEvent& e : t.events) {
    all += e.duration.value();
    if (t.names.at(static_cast<std::size_t>(e.name)) == "aten::linear") linear += e.duration.value();
    if (t.names.at(static_cast<std::size_t>(e.name)) == "aten::addmm") CHECK(e.cls == OperationClass::matmul);
  }
  CHECK(all == Approx(105e-6));
  CHECK(linear == Approx(12e-6));
}

TEST_CASE("Chrome's bare list of events is read, too") {
  CHECK(read("[" + kernel("gemm", 10, 5) + "]").events.size() == 1);
}

TEST_CASE("Damaged traces are refused with the place") {
  const std::string good = trace(kernel("gemm", 10, 5));
  check_refused("", "empty");
  check_refused(good.substr(0, good.size() - 2), "ends in the middle");
  check_refused(trace(kernel("gemm", 10, 5) + ", {"), "no JSON");
  check_refused(trace(kernel("gemm", 10, -5)), "lasts -5");
  check_refused(trace(R"({"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": "soon", "dur": 5})"),
                "no time");
  check_refused(trace(R"({"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": 1})"), "no duration");
  check_refused(trace(kernel("gemm", 1e300, 5)), "no time");
  check_refused(trace("[1, 2]"), "no object");
  check_refused(trace(""), "no device event");
  check_refused("{\"hello\": 1}", "traceEvents");
  check_refused(R"({"traceEvents": [{"args": )" + std::string(100'000, '['), "nested");
  check_refused("{\"traceEvents\": [{\"name\": \"" + std::string(2'000'000, 'x') + "\"}]}", "a text of");
  check_refused(std::string("\x1f\x8b\x08\x00", 4) + std::string(100, '\xff'), "compress", ".json.gz");
  CHECK_THROWS_AS(read_trace("/nowhere/trace.json"), Error);
}

TEST_CASE("A compressed trace that was cut is refused") {
  std::ifstream in(testing::source_path("tests/unit/import/traces/sampled_rank-0.json.gz"), std::ios::binary);
  const std::string whole{std::istreambuf_iterator<char>(in), {}};
  check_refused(whole.substr(0, whole.size() / 2), "ends in the middle", ".json.gz");
}

TEST_CASE("A scenario's number of nodes is no list of a Chakra trace's") {
  CHECK_FALSE(is_trace(testing::source_path("scenarios/llama3_70b_h100_64.json")));
  CHECK(is_trace(testing::source_path("tests/unit/import/traces/nccl_data.json.gz")));
  CHECK(is_trace(ScratchFile(R"({"nodes": [{"id": 1}]})", ".json").path()));
}

TEST_CASE("A class that the writer states goes before the kernel's name") {
  const RankTrace t = read(trace(kernel("mlp.fc1", 10, 5, 7, R"(, "class": "matmul")") + "," +
                                 kernel("gemm", 20, 5, 7, R"(, "class": "attention")") + "," +
                                 kernel("gemm", 30, 5, 7, R"(, "class": "no class")") + "," +
                                 kernel("ncclDevKernel_AllReduce", 40, 5, 7, R"(, "class": "matmul")")));
  CHECK(t.events[0].cls == OperationClass::matmul);
  CHECK(t.events[1].cls == OperationClass::attention);
  CHECK(t.events[2].cls == OperationClass::matmul);  // By its name.
  CHECK(t.events[3].cls == OperationClass::communication);
}

/// A node of a Chakra trace that says no start.
std::string chakra(int id, int type, double us, int stream, const std::string& after, const std::string& more = "") {
  return fmt::format(
      R"({{"id": {}, "name": "n{}", "type": {}, "duration_micros": {}, "data_deps": [{}], "attr":
      [{{"name": "is_cpu_op", "bool_val": false}}, {{"name": "stream", "int64_val": {}}}]{}}})",
      id, id, type, us, after, stream, more);
}

RankTrace read_nodes(const std::string& nodes) {
  return read_trace(ScratchFile("{\"nodes\": [" + nodes + "]}", ".json").path()).front();
}

TEST_CASE("Chakra nodes without starts are laid out by dependencies and streams") {
  // A call beside the second product; the third waits for both. 4 waits for nothing but its stream. The file's order is
  // no order of dependencies.
  const RankTrace t =
      read_nodes(chakra(3, 4, 10, 0, "1, 2") + "," + chakra(0, 4, 100, 0, "") + "," + chakra(1, 7, 50, 1, "\"0\"") +
                 "," + chakra(2, 4, 200, 0, "0") + "," + chakra(4, 7, 5, 1, ""));
  CHECK(t.laid_out);
  std::map<std::string, double> begins;
  for (const DeviceEvent& e : t.events) begins[nth(t.names, e.name)] = e.begin.value() * 1e6;
  CHECK(begins["n0"] == Approx(0));
  CHECK(begins["n2"] == Approx(100));
  CHECK(begins["n3"] == Approx(300));
  CHECK(begins["n1"] == Approx(100));
  CHECK(begins["n4"] == Approx(150));
  CHECK(std::is_sorted(t.events.begin(), t.events.end(),
                       [](const DeviceEvent& a, const DeviceEvent& b) { return a.begin < b.begin; }));
  CHECK(measured_workload(align({t}), "").measured_step.value() == Approx(310e-6));
}

TEST_CASE("An execution trace may be compressed, and PyTorch's has its own refusal then, too") {
  const auto packed = [](const std::string& text, const std::string& suffix) {
    auto file = std::make_unique<ScratchFile>("", suffix);
    write_file(file->path(), text);
    return file;
  };
  const std::string nodes = R"({"nodes": [)" + chakra(0, 4, 100, 0, "") + "]}";
  const auto read = read_trace(packed(nodes, ".json.gz")->path(), {});
  REQUIRE(read.size() == 1);
  CHECK(read[0].events.size() == 1);
  const auto host = packed(R"({"schema": "1.1.1-chakra.0.0.4", "nodes": [{"id": 1, "name": "aten::mm"}]})", ".json.gz");
  try {
    (void)read_trace(host->path(), {});
    FAIL("read");
  } catch (const Error& e) {
    CHECK(std::string(e.what()).find("ExecutionTraceObserver") != std::string::npos);
  }
}

TEST_CASE("Chakra nodes with starts stand where they say") {
  const RankTrace t =
      read_nodes(chakra(0, 4, 100, 0, "") + "," + chakra(1, 4, 5, 0, "", R"(, "start_time_micros": "700")"));
  CHECK_FALSE(t.laid_out);
  CHECK(t.events[1].begin.value() == Approx(700e-6));
}

TEST_CASE("Chakra nodes that wait for one another are refused") {
  check_refused("{\"nodes\": [" + chakra(0, 4, 1, 0, "1") + "," + chakra(1, 4, 1, 0, "0") + "]}",
                "2 nodes wait for one another");
}

TEST_CASE("Memory is bounded by a limit on device events") {
  const ScratchFile file(trace(kernel("a", 1, 1) + "," + kernel("b", 2, 1)), ".json");
  CHECK_THROWS_AS(read_trace(file.path(), {1, 64, 1000}), Error);
}

}  // namespace
}  // namespace rehearse
