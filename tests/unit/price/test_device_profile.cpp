// Device profiles: what is written is read back, bad files are refused with their place, and a Program takes what its
// operators take.

#include <cmath>

#include <nlohmann/json.hpp>

#include "core/base/error.hpp"
#include "core/collective/collective_table.hpp"
#include "core/config/settings/choices.hpp"
#include "core/play/backend.hpp"
#include "core/play/player/player.hpp"
#include "core/price/calibration/device_profile.hpp"
#include "core/program/body.hpp"
#include "core/strategy/workload.hpp"
#include "tests/support/catch.hpp"
#include "tests/unit/price/support.hpp"
#include "tests/unit/program/lowered.hpp"

using namespace rehearse;

namespace {

constexpr double kDispatch = 3e-6;

/// Operator times that can be worked out by hand: everything takes so many seconds per unit of work.
double synthetic(const std::vector<double>& size) {
  double work = 1;
  for (const double x : size) work *= x;
  return 1e-9 * work;
}

void learn(DeviceProfile::Setting& setting, const Program& program) {
  for (const Body& body : program.bodies)
    for (const auto v : body.graph.vertices()) {
      if (!std::holds_alternative<ComputeTask>(body.graph[v].kind)) continue;
      for (const SizedOperation& o : sized_operations(program, body.graph[v], body, program.mesh.context(0))) {
        auto& op = setting.operators[o.name];
        op.axes = o.axes;
        const std::vector<double> one(o.axes.size(), 1.0), many(o.axes.size(), 1e6);
        op.rows = {{one, Seconds{synthetic(one)}, 0.01}, {many, Seconds{synthetic(many)}, 0.02}};
        for (std::size_t d = 0; d < o.axes.size(); ++d) {  // Corners: a power law has no other points.
          for (std::size_t bits = 1; bits + 1 < (std::size_t{1} << o.axes.size()); ++bits) {
            std::vector<double> corner;
            for (std::size_t i = 0; i < o.axes.size(); ++i) corner.push_back((bits >> i & 1u) != 0 ? 1e6 : 1.0);
            if (d == 0) op.rows.push_back({corner, Seconds{synthetic(corner)}, 0});
          }
        }
      }
    }
}

DeviceProfile profile_of(const std::vector<std::pair<int, const Program*>>& programs) {
  DeviceProfile p;
  p.kind = "cpu";
  p.name = "toy";
  p.math_library = "loops";
  p.cores = 4;
  p.memory = Bytes{16e9};
  p.date = "2026-01-01";
  p.sources = {{"calibrate", "made up for the test", Evidence::measured_here}};
  for (const auto& [ranks, program] : programs) {
    DeviceProfile::Setting s;
    s.ranks = ranks;
    s.threads = 4 / ranks;
    s.dispatch = Seconds{kDispatch};
    s.copy_rate = BytesPerSecond{1e10};
    s.taken_by_communication = ranks > 1 ? 0.25 : 0;
    if (ranks > 1) s.taken_by_others = 0.125, s.pace = Seconds{0.03125};
    learn(s, *program);
    p.settings.push_back(std::move(s));
  }
  p.collectives = {{CollectiveOp::all_reduce, 2, {{Bytes{1e3}, Seconds{1e-4}}, {Bytes{1e6}, Seconds{2e-3}}}}};
  return p;
}

Program small(int dp) {
  test::Job job(test::shipped("tiny_gpt2"), 16);
  job.workload.training.precision = Precision::fp32;
  job.strategy.dp = job.strategy.dp_replicate = dp;
  job.microbatches = 2;
  return job.lower();
}

NetworkSpec one_switch() {
  NetworkSpec n;
  n.id = n.kind = "single_switch";
  return n;
}

CostModel cost_of(const std::shared_ptr<const DeviceProfile>& profile, const Cluster& cluster) {
  CostModel::Options options;
  options.profile = profile;
  if (const std::string table = collective_table_text(*profile); !table.empty())
    options.collectives.table = std::make_shared<const CollectiveTable>(CollectiveTable::parse(table, "toy"));
  return {cluster, {{"cpu_rank", cost_test::toy_profile()}}, options};
}

std::string changed(const std::string& text, const std::string& pointer, const nlohmann::json& value) {
  nlohmann::json json = nlohmann::json::parse(text);
  json[nlohmann::json::json_pointer(pointer)] = value;
  return json.dump();
}

}  // namespace

TEST_CASE("a profile is read back as it was written") {
  const Program one = small(1), two = small(2);
  const DeviceProfile p = profile_of({{1, &one}, {2, &two}});
  const std::string text = to_json(p);
  const DeviceProfile back = parse_device_profile(text, "profile.json");
  CHECK(back.settings == p.settings);
  CHECK(back.collectives == p.collectives);
  CHECK(back.name == p.name);
  CHECK(back.memory == p.memory);
  CHECK(back.date == p.date);
  CHECK(to_json(back) == text);
  CHECK(is_device_profile(text, "x"));
  CHECK_FALSE(is_device_profile("{\"schema\": \"rehearse/calibration/v1\"}", "x"));
}

TEST_CASE("a bad profile is refused with its place") {
  const Program one = small(1);
  const std::string good = to_json(profile_of({{1, &one}}));
  REQUIRE_NOTHROW(parse_device_profile(good, "p"));
  const auto refused = [&](const std::string& pointer, const nlohmann::json& value, const std::string& place) {
    INFO(pointer << " = " << value.dump());
    try {
      (void)parse_device_profile(changed(good, pointer, value), "p");
      FAIL_CHECK("accepted");
    } catch (const Error& e) {
      CHECK(e.kind == ErrorKind::usage);
      CHECK(e.where.find(place) != std::string::npos);
    }
  };
  refused("/schema", "rehearse/device_profile/v2", "/schema");
  refused("/surprise", 1, "p");
  refused("/device/cores", 0, "/device/cores");
  refused("/device/kind", "abacus", "/device/kind");
  refused("/device/memory", "-1GB", "/device/memory");
  refused("/settings", nlohmann::json::array(), "/settings");
  refused("/settings/0/ranks", 0, "/settings/0/ranks");
  refused("/settings/0/arithmetic", "fp12", "/settings/0/arithmetic");
  refused("/settings/0/dispatch", "-1us", "/settings/0/dispatch");
  refused("/settings/0/taken_by_communication", 1.5, "/settings/0");
  refused("/settings/0/taken_by_others", -0.1, "/settings/0");
  refused("/settings/0/pace", "0s", "/settings/0/pace");
  refused("/settings/0/operators/0/rows", nlohmann::json::array(), "/settings/0/operators/0");
  refused("/settings/0/operators/0/rows/0/0", -8, "/settings/0/operators/0/rows");
  refused("/settings/0/operators/0/rows/0/0", "8", "/settings/0/operators/0/rows");
  refused("/settings/0/operators/0/rows/0", nlohmann::json::array({1, 2}), "/settings/0/operators/0/rows");
  refused("/settings/0/operators/0/columns", "time_ms", "/settings/0/operators/0/columns");
  refused("/settings/0/operators/1/name",
          nlohmann::json::parse(good).at("settings").at(0).at("operators").at(0).at("name"),
          "/settings/0/operators/1/name");
  refused("/collectives/tables/0/rows/0/1", "fast", "collectives");
  CHECK_THROWS_AS(parse_device_profile(good.substr(0, good.size() / 2), "p"), Error);
}

TEST_CASE("one rank takes its operators' times and their dispatch, added up, after the first input") {
  const Program program = small(1);
  const auto profile = std::make_shared<const DeviceProfile>(profile_of({{1, &program}}));
  const Cluster cluster = profile_cluster(*profile, 1, one_switch());
  const CostModel cost = cost_of(profile, cluster);
  double expected = 0, first_copy = 0;
  test::for_each_task(program, 0, [&](const Entry& e, const Body& body, const Task& task) {
    const ExprContext at = test::context_of(program, 0, e);
    if (first_copy == 0 && std::holds_alternative<CopyTask>(task.kind))
      first_copy = cost.price(program, task, body, 0, at).time.value();
    if (!std::holds_alternative<ComputeTask>(task.kind) || program.exprs.evaluate(e.predicate, at) == 0 ||
        program.exprs.evaluate(task.predicate, at) == 0)
      return;
    for (const SizedOperation& o : sized_operations(program, task, body, at)) expected += synthetic(o.size) * o.repeats;
    expected += kDispatch;
  });
  Trace trace({});
  const RunResult run = backends().at("analytic").value()->run(program, cluster, cost, {}, trace);
  expected += first_copy;  // Later ones run under kernels.
  CHECK(std::abs(run.step_time.value() - expected) <= 1e-9 * expected);
  CHECK(run.breaches.empty());
}

TEST_CASE("ranks that were not measured together are refused with the command that measures them") {
  const Program program = small(1);
  const DeviceProfile p = profile_of({{1, &program}});
  try {
    (void)profile_cluster(p, 3, one_switch());
    FAIL("accepted");
  } catch (const Error& e) {
    CHECK(e.hint.find("--ranks 3") != std::string::npos);
  }
}

TEST_CASE("a copy rate that was not measured stays unknown: no machine is made up from it") {
  const Program program = small(1);
  DeviceProfile p = profile_of({{1, &program}});
  p.settings[0].copy_rate.reset();
  const std::string text = to_json(p);
  CHECK(text.find("copy_rate") == std::string::npos);
  CHECK(parse_device_profile(text, "p").settings == p.settings);
  try {
    (void)profile_cluster(p, 1, one_switch());
    FAIL("accepted");
  } catch (const Error& e) {
    CHECK(std::string(e.what()).find("copy_rate") != std::string::npos);
    CHECK(e.hint.find("calibrate") != std::string::npos);
  }
}

TEST_CASE("measured collectives take the table's time, and what runs beside them is slowed as measured") {
  const Program two = small(2);
  const auto profile = std::make_shared<const DeviceProfile>(profile_of({{2, &two}}));
  const Cluster cluster = profile_cluster(*profile, 2, one_switch());
  const CostModel cost = cost_of(profile, cluster);
  const std::vector<DeviceId> both{0, 1};
  const CollectiveChoice choice = cost.collectives().choose(CollectiveOp::all_reduce, Bytes{1e6}, both);
  CHECK(std::abs(choice.time.value() - 2e-3) < 1e-12);
  const Interference load = cost.interference(CollectiveOp::all_reduce, choice, Bytes{1e6}, 2, both.front());
  CHECK(std::abs(overlap_rate(1, 0, load) - 0.75) < 1e-12);
}

TEST_CASE("a device with one real type stores every real tensor in it, and integers as they are") {
  test::Job job(test::shipped("tiny_gpt2"));
  job.workload.training.precision = Precision::bf16_mixed;
  const Program mixed = job.lower(), stored = with_real_type(mixed, DType::fp64);
  for (std::size_t i = 0; i < mixed.tensors.size(); ++i) {
    const DType before = mixed.tensors[i].dtype, after = stored.tensors[i].dtype;
    const bool integral = before == DType::int64 || before == DType::int32 || before == DType::uint8;
    CHECK(after == (integral ? before : DType::fp64));
  }
}

TEST_CASE("a product with several outputs is measured as one product each, and together they do its work") {
  const Program program = small(1);
  double outputs = 0, products = 0;
  for (const Body& body : program.bodies)
    for (const auto v : body.graph.vertices()) {
      const auto* c = std::get_if<ComputeTask>(&body.graph[v].kind);
      if (c == nullptr || c->op != ComputeOp::matmul || !c->variant.starts_with("linear")) continue;
      const auto parts = sized_operations(program, body.graph[v], body, program.mesh.context(0));
      double work = 0, whole = 1;
      for (const auto& p : parts) work += p.size[0] * p.size[1] * p.size[2];
      for (const ExprId d : c->dims) whole *= static_cast<double>(program.exprs.evaluate(d, program.mesh.context(0)));
      CHECK(std::abs(work - whole) <= 1e-9 * whole);
      outputs += static_cast<double>(parts.size());
      products += 1;
    }
  CHECK(products > 0);
  CHECK(outputs > products);  // Queries, keys and values come from one product.
}
