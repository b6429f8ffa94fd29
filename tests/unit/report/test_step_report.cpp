// What simulate says, from hand-made results.

#include <nlohmann/json.hpp>

#include "core/config/settings/choices.hpp"
#include "core/report/formats/format.hpp"
#include "core/report/results/step_report.hpp"
#include "core/strategy/workload.hpp"
#include "tests/support/catch.hpp"
#include "tests/unit/report/plans.hpp"

using namespace rehearse;

namespace {

StepReport report() {
  const Cluster cluster = test::one_machine();
  const Workload workload = test::tiny_workload();
  const Program program = lower(workload, test::eight_gpus(), cluster);
  StepReport r;
  r.head = {
      "9.9", "{\"schema\": \"rehearse/scenario/v1\"}", {"tiny", 124672, 8, "one machine", "dp 2 x tp 2 x pp 2", 4}};
  r.metrics = step_metrics(program, cluster, workload.training, Seconds{1});
  r.memory = memory_report(program, cluster, {});
  r.breakdown[TimeCategory::matmul] = Seconds{0.6};
  r.breakdown[TimeCategory::bubble] = Seconds{0.3};
  r.breakdown[TimeCategory::exposed_tp] = Seconds{0.1};
  r.slowest_role = "stage 1";
  r.backend = "analytic";
  r.evidence = {{"gemm", Evidence::published, "a table", {10, 0.02, 0.05, 0}},
                {"norm", Evidence::estimate, "a guess", {}}};
  return r;
}

nlohmann::json json_of(const StepReport& r) { return nlohmann::json::parse(step_document(r).json); }

}  // namespace

TEST_CASE("MFU is model FLOPs over what the GPUs could do in the step", "[metrics]") {
  const Cluster cluster = test::one_machine();
  const Workload workload = test::tiny_workload();
  const Program program = lower(workload, test::eight_gpus(), cluster);
  const StepMetrics m = step_metrics(program, cluster, workload.training, Seconds{2});
  CHECK(m.mfu == Approx(program.model_flops_per_step / (2.0 * 8 * 312e12)));
  CHECK(m.hfu >= m.mfu);
  CHECK(m.tokens_per_s == Approx(8 * 128 / 2.0));
  CHECK(m.tokens_per_s_per_gpu == Approx(m.tokens_per_s / 8));
  REQUIRE(m.run_time);
  CHECK(m.run_time->value() == Approx(2 * 86400));
}

TEST_CASE("the peak is that of the precision the products run in", "[metrics]") {
  const Cluster cluster = test::one_machine();
  Workload workload = test::tiny_workload();
  const Program program = lower(workload, test::eight_gpus(), cluster);
  const double bf16 = step_metrics(program, cluster, workload.training, Seconds{1}).mfu;
  workload.training.precision = Precision::tf32;
  CHECK(step_metrics(program, cluster, workload.training, Seconds{1}).mfu == Approx(2 * bf16));
  CHECK(arithmetic_of(Precision::fp8_mixed) == DType::fp8);
}

TEST_CASE("JSON has the keys that others build on", "[step]") {
  const auto json = json_of(report());
  for (const char* key : {"step_time_s", "tokens_per_s", "model_flops_per_s_per_gpu", "mfu", "hfu", "fits", "bound_by",
                          "breakdown", "memory", "backend", "folded", "evidence", "schema", "scenario",
                          "tokens_per_s_per_gpu", "busiest_links", "version"}) {
    INFO(key);
    CHECK(json.contains(key));
  }
  CHECK(json.at("schema") == "rehearse/result/v1");
  CHECK(json.at("bound_by") == "matmul");
  CHECK(json.at("memory").at(0).contains("capacity_bytes"));
}

TEST_CASE("the breakdown in JSON holds every category and adds up to the step", "[step]") {
  const auto json = json_of(report());
  double sum = 0;
  for (const auto& [category, seconds] : json.at("breakdown").items()) sum += seconds.get<double>();
  CHECK(json.at("breakdown").size() == kTimeCategories);
  CHECK(sum == Approx(json.at("step_time_s").get<double>()));
}

TEST_CASE("a known bias is applied to all of the answer, and said", "[step]") {
  StepReport r = report();
  r.range = {1.0, 1.44, 1.2, 90, 4, "models with experts on hopper", "no framework is stated"};
  const auto json = json_of(r);
  CHECK(json.at("step_time_s").get<double>() == Approx(1.2));
  CHECK(json.at("modelled_step_time_s").get<double>() == Approx(1));
  CHECK(json.at("bias").get<double>() == Approx(0.2));
  CHECK(json.at("step_time_s_p10").get<double>() == Approx(1.0));
  CHECK(json.at("step_time_s_p90").get<double>() == Approx(1.44));
  CHECK(json.at("tokens_per_s").get<double>() == Approx(json_of(report()).at("tokens_per_s").get<double>() / 1.2));
  CHECK(json.at("mfu").get<double>() == Approx(json_of(report()).at("mfu").get<double>() / 1.2));
  double sum = 0;
  for (const auto& [category, seconds] : json.at("breakdown").items()) sum += seconds.get<double>();
  CHECK(sum == Approx(1.2));
  const std::string text = formats().at("table").value(step_document(r), {120, false});
  CHECK(text.find("1.2 s") != std::string::npos);
  CHECK(text.find("1 s as modelled; such steps took 20 % longer, which is applied") != std::string::npos);
  CHECK(text.find("by 90 rows of 4 sources") != std::string::npos);
}

TEST_CASE("steps of one's own show the range without them", "[step]") {
  StepReport r = report();
  r.range = {0.9, 1.1, 1, 90, 4, "dense models", "", 3, 0.7, 1.5, 1.05};
  CHECK(json_of(r).at("range_before").at("step_time_s_p90").get<double>() == Approx(1.5));
  CHECK(json_of(r).at("range_own_rows") == 3);
  const std::string text = formats().at("table").value(step_document(r), {120, false});
  CHECK(text.find("and 3 steps of your own") != std::string::npos);
  CHECK(text.find("without the 3 steps of your own") != std::string::npos);
}

TEST_CASE("the table names what bounds the step with its number, and leaves out what took no time", "[step]") {
  const std::string text = formats().at("table").value(step_document(report()), {120, false});
  CHECK(text.find("matrix products: 600 ms of 1 s (60 %)") != std::string::npos);
  CHECK(text.find("30.0") != std::string::npos);
  CHECK(text.find("\noptimizer  ") == std::string::npos);
  CHECK(text.find("2.0 % median, 10 rows") != std::string::npos);
  CHECK(text.find("not tested") != std::string::npos);
}

TEST_CASE("equal reports give equal bytes in every format", "[step]") {
  for (const auto& entry : formats().entries()) {
    INFO(entry.name);
    CHECK(entry.value(step_document(report()), {}) == entry.value(step_document(report()), {}));
  }
}

TEST_CASE("csv is one record with one column per number", "[step]") {
  const Document d = step_document(report());
  REQUIRE(d.records.rows.size() == 1);
  CHECK(d.records.rows.front().size() == d.records.columns.size());
}

TEST_CASE("where it does not fit there is no time, but the memory", "[step]") {
  const StepReport r = report();
  const auto json = nlohmann::json::parse(memory_document(r.head, r.memory).json);
  CHECK_FALSE(json.contains("step_time_s"));
  CHECK(json.contains("memory"));
  CHECK(json.contains("suggestion"));
}
