#include <algorithm>

#include "core/base/error.hpp"
#include "core/config/settings/strategy.hpp"
#include "core/import/traces/measured_program.hpp"
#include "core/import/traces/measured_workload.hpp"
#include "core/import/traces/read_trace.hpp"
#include "core/strategy/workload.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/source_path.hpp"
#include "tests/support/testbed.hpp"
#include "tests/unit/import/trace_files.hpp"

namespace rehearse {
namespace {

using testing::HandTrace;
using testing::ScratchFile;
using testing::source_path;

Seconds played(const MeasuredWorkload& w, int nodes = 1) {
  const MeasuredProgram made = measured_program(w);
  CostModel::Options options;
  options.task_times = made.times;
  const testing::Testbed bed(nodes, "selene", options);
  RunOptions run;
  run.fold = false;
  const RunResult result = bed.analytic(made.program, run);
  CHECK(result.breaches.empty());
  return result.step_time;
}

/// Two ranks: a product of 2 ms, an all-reduce beside a product of 3 ms, a product that waits for both.
MeasuredWorkload two_ranks(double bytes = 1e6) {
  const auto rank = [&](int r) {
    HandTrace t(r);
    t.kernel(0, 2e-3).kernel(2e-3, 3e-3).call(2e-3, 4e-3, "all_reduce", bytes).kernel(6.005e-3, 1e-3);
    std::stable_sort(t.trace.events.begin(), t.trace.events.end(),
                     [](const DeviceEvent& a, const DeviceEvent& b) { return a.begin < b.begin; });
    return t.trace;
  };
  return measured_workload(align({rank(0), rank(1)}), "");
}

TEST_CASE("A step played with its own times takes what it took") {
  MeasuredWorkload w = two_ranks();
  w.calls_measured = true;
  CHECK(played(w).value() == Approx(7.005e-3).epsilon(1e-6));
  const JobTrace real = align(read_trace(source_path("tests/unit/import/traces/nccl_data.json.gz")));
  for (const char* step : {"4", "5", "ProfilerStep#6"}) {
    MeasuredWorkload traced = measured_workload(real, step);
    traced.calls_measured = true;
    CHECK(played(traced) / traced.measured_step == Approx(1).epsilon(0.02));
  }
}

TEST_CASE("A call of no known name is refused") {
  std::string text = measured_workload_json(two_ranks());
  for (std::size_t at = text.find("all_reduce"); at != std::string::npos; at = text.find("all_reduce"))
    text.replace(at, 10, "foo");
  CHECK_THROWS_WITH(read_measured_workload(ScratchFile(text, ".json").path(), {}),
                    Catch::Matchers::ContainsSubstring("foo"));
}

TEST_CASE("What waits for a collective waits for a slower one, too") {
  // 1 GB between two GPUs over NVLink takes milliseconds longer than 4 ms; the last product comes after it.
  const MeasuredWorkload w = two_ranks(2e9);
  CHECK(played(w) > Seconds{9e-3});
  // And a quick one leaves the product beside it as the longest way: 2 + 3 ms, and the last.
  CHECK(played(two_ranks(8)).value() == Approx(6e-3).epsilon(0.02));
}

TEST_CASE("Messages between stages are played as traced where that is asked for, and never in silence") {
  const auto stage = [](int rank, const char* call) {
    HandTrace t(rank);
    t.kernel(0, 1e-3).call(1e-3, 2e-3, call, 1e6).kernel(3e-3, 1e-3);
    std::stable_sort(t.trace.events.begin(), t.trace.events.end(),
                     [](const DeviceEvent& a, const DeviceEvent& b) { return a.begin < b.begin; });
    return t.trace;
  };
  MeasuredWorkload w = measured_workload(align({stage(0, "send"), stage(1, "receive")}), "");
  CHECK(std::any_of(w.notes.begin(), w.notes.end(),
                    [](const std::string& n) { return n.find("messages=measured") != std::string::npos; }));
  CHECK_THROWS_WITH(measured_program(w), Catch::Matchers::ContainsSubstring("other end is not traced"));
  const ScratchFile file(measured_workload_json(w), ".json");
  CHECK_THROWS_AS(measured_program(read_measured_workload(file.path())), Error);
  CHECK(played(read_measured_workload(file.path(), {"messages=measured"})).value() == Approx(4e-3).epsilon(1e-6));
  CHECK(played(read_measured_workload(file.path(), {"calls=measured"})).value() == Approx(4e-3).epsilon(1e-6));
  CHECK_THROWS_AS(read_measured_workload(file.path(), {"messages=priced"}), Error);
}

/// Two stages: a forward pass of 1 ms each, a message between them, and the way back.
std::vector<RankTrace> two_stages(double bytes) {
  HandTrace first(0), second(1);
  first.kernel(0, 1e-3).call(1e-3, 1e-4, "send", bytes, -1, {}, 1).call(1.1e-3, 2.1e-3, "receive", bytes, -1, {}, 2);
  first.kernel(3.2e-3, 2e-3);
  second.call(0, 1.1e-3, "receive", bytes, -1, {}, 1).kernel(1.1e-3, 1e-3).kernel(2.1e-3, 1e-3);
  second.call(3.1e-3, 1e-4, "send", bytes, -1, {}, 2);
  std::vector<RankTrace> out{first.trace, second.trace};
  for (RankTrace& r : out)
    for (CommunicationCall& c : r.calls) c.peer = 1 - r.rank;
  return out;
}

TEST_CASE("Messages whose two ends are traced are priced, and waited for") {
  const MeasuredWorkload w = measured_workload(align(two_stages(8)), "");
  const MeasuredOperation& sent = w.ranks[0].operations[1];
  CHECK(sent.peer == 1);
  CHECK(sent.edge >= 0);
  REQUIRE(sent.group >= 0);
  CHECK(w.groups[static_cast<std::size_t>(sent.group)].size == 2);
  // Small ones take a latency: forward and backward of either stage are left, one after the other.
  CHECK(played(w).value() == Approx(5e-3).epsilon(0.02));
  // Large ones take as long as the wire says, both ways.
  const double more = (played(measured_workload(align(two_stages(2e9)), "")) - played(w)).value();
  CHECK(more > 2 * 2e9 / 600e9);
  const ScratchFile file(measured_workload_json(w), ".json");
  CHECK(measured_workload_json(read_measured_workload(file.path())) == measured_workload_json(w));
  CHECK(played(read_measured_workload(file.path(), {"messages=measured"})).value() == Approx(5.2e-3).epsilon(0.05));
}

TEST_CASE("Messages of which one end is missing, or is of another size, stay unpriced") {
  std::vector<RankTrace> ranks = two_stages(8);
  ranks[1].calls[0].bytes = Bytes{16};
  const MeasuredWorkload w = measured_workload(align(ranks), "");
  CHECK(w.ranks[0].operations[1].edge < 0);
  CHECK_THROWS_WITH(measured_program(w), Catch::Matchers::ContainsSubstring("other end is not traced"));
}

TEST_CASE("Kernels of a faster GPU take their share of the time") {
  MeasuredWorkload w = two_ranks();
  w.calls_measured = true;
  w.kernel_scale = 0.5;
  CHECK(played(w).value() == Approx(1e-3 + 4e-3 + 5e-6 + 0.5e-3).epsilon(1e-6));
}

TEST_CASE("Data parallelism grows in ranks, and its collective in partners") {
  MeasuredWorkload w = two_ranks(2e9);
  const Seconds two = played(w);
  w.data_parallel = 8;
  CHECK(measured_program(w).program.mesh.ranks() == 8);
  CHECK(played(w) >= two);
  w.data_parallel = 16;
  CHECK(played(w, 2) > two);
}

TEST_CASE("Groups keep their stride where data parallelism around them grows") {
  MeasuredWorkload w = two_ranks();
  w.world_size = 4;
  w.groups = {{1, 2, false}, {2, 2, true}};
  w.data_parallel = 3;
  const Program p = measured_program(w).program;
  CHECK(p.mesh.ranks() == 6);
  CHECK(p.mesh.members(p.groups[0], 3, p.exprs) == std::vector<int>{2, 3});
  CHECK(p.mesh.members(p.groups[1], 3, p.exprs) == std::vector<int>{1, 3, 5});
  w.groups = {{1, 3, true}};
  CHECK_THROWS_AS(measured_program(w), Error);
}

TEST_CASE("A workload is what its file says") {
  const MeasuredWorkload w = two_ranks();
  const ScratchFile file(measured_workload_json(w), ".json");
  CHECK(is_measured_workload(file.path()));
  const MeasuredWorkload again = read_measured_workload(file.path());
  CHECK(measured_workload_json(again) == measured_workload_json(w));
  const MeasuredWorkload changed = read_measured_workload(
      file.path(), {"cluster.machine=dgx_h100", "cluster.nodes=2", "data_parallel=16", "calls=measured"});
  REQUIRE(changed.cluster);
  CHECK(changed.cluster->parts[0].nodes == 2);
  CHECK(changed.data_parallel == 16);
  CHECK(changed.calls_measured);
  CHECK_THROWS_AS(read_measured_workload(file.path(), {"tensor_parallel=2"}), Error);
  CHECK_THROWS_AS(read_measured_workload(file.path(), {"kernel_scale=0"}), Error);
}

TEST_CASE("Ranks of a sample, whose calls differ, all do as the first") {
  const JobTrace job = align([] {
    std::vector<RankTrace> ranks = read_trace(source_path("tests/unit/import/traces/sampled_rank-0.json.gz"));
    for (RankTrace& r : read_trace(source_path("tests/unit/import/traces/sampled_rank-1.json.gz")))
      ranks.push_back(std::move(r));
    return ranks;
  }());
  MeasuredWorkload w = measured_workload(job, "");
  CHECK(w.world_size == 128);
  CHECK(measured_program(w).notes.size() == 2);
  CHECK_THROWS_AS(measured_workload(job, "99"), Error);
}

}  // namespace
}  // namespace rehearse
