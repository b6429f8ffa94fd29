// Calibration without timing: what it would measure, that it can be called, and that a measured step adds up.

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <thread>

#include "core/base/index.hpp"
#include "core/config/settings/choices.hpp"
#include "core/program/body.hpp"
#include "core/report/results/validation_report.hpp"
#include "core/strategy/workload.hpp"
#include "gpu_backend/calibrate/calibrate.hpp"
#include "gpu_backend/calibrate/kernel_cases.hpp"
#include "gpu_backend/calibrate/kernel_run.hpp"
#include "gpu_backend/calibrate/machine_load.hpp"
#include "gpu_backend/calibrate/measured_steps.hpp"
#include "gpu_backend/calibrate/probes.hpp"
#include "gpu_backend/communicate/local_world.hpp"
#include "gpu_backend/cpu/cores.hpp"
#include "gpu_backend/cpu/cpu_device.hpp"
#include "tests/support/catch.hpp"
#include "tests/unit/program/lowered.hpp"

using namespace rehearse;

TEST_CASE("calibration measures every operator that a plan of sequences uses, at sizes that differ") {
  const auto device = make_cpu_device(Numerics::fp32);
  std::set<std::string> measured;
  std::set<std::pair<std::string, std::vector<double>>> places;
  for (const KernelCase& c : kernel_cases(*device)) {
    REQUIRE(c.op != nullptr);
    CHECK(c.what.axes.size() == c.what.size.size());
    CHECK(places.emplace(c.what.name, c.what.size).second);
    measured.insert(c.what.name);
  }
  for (const char* precision : {"fp32", "bf16_mixed"})
    for (const bool llama : {false, true})
      for (const AttentionKernel kernel : {AttentionKernel::flash, AttentionKernel::unfused})
        for (const Optimizer optimizer : {Optimizer::sgd, Optimizer::adam, Optimizer::adamw})
          for (const int tp : {1, 2}) {
            test::Job job(llama ? test::tiny_llama() : test::tiny_gpt());
            job.workload.training.precision =
                std::string(precision) == "fp32" ? Precision::fp32 : Precision::bf16_mixed;
            job.workload.training.optimizer = optimizer;
            job.workload.kernels.attention = kernel;
            job.strategy.tp = tp;
            const Program p = job.lower();
            for (const Body& body : p.bodies)
              for (const auto v : body.graph.vertices())
                if (const auto* c = std::get_if<ComputeTask>(&body.graph[v].kind)) {
                  INFO(measured_name(*c));
                  CHECK(measured.contains(measured_name(*c)));
                }
          }
}

TEST_CASE("an operator of rows, widths or elements is measured at several of each") {
  const auto device = make_cpu_device(Numerics::fp32);
  std::map<std::string, std::vector<std::set<double>>> sizes;
  for (const KernelCase& c : kernel_cases(*device)) {
    auto& of_axes = sizes[c.what.name];
    of_axes.resize(c.what.size.size());
    for (std::size_t i = 0; i < of_axes.size(); ++i) of_axes[i].insert(c.what.size[i]);
  }
  for (const char* name : {"rope", "rope_grad", "activation.gelu", "activation_grad.gelu", "activation.silu_mul",
                           "activation_grad.silu_mul", "norm.rms_norm", "norm.layer_norm", "add"}) {
    INFO(name);
    REQUIRE(sizes.contains(name));
    for (const std::set<double>& axis : sizes.at(name)) CHECK(axis.size() >= 2);
  }
}

TEST_CASE("every case of calibration can be called, again and again") {
  for (const Numerics n : {Numerics::fp32, Numerics::fp64}) {
    const auto device = make_cpu_device(n);
    int called = 0;
    for (const KernelCase& c : kernel_cases(*device)) {
      std::int64_t elements = 0;
      for (const auto& b : c.buffers) elements += b.elements;
      if (elements > 40'000) continue;
      KernelRun run(*device, c);
      CHECK(run.once() >= 0);
      CHECK(run.once() >= 0);
      ++called;
    }
    CHECK(called > 100);
  }
}

TEST_CASE("ranks are measured at work together in powers of two and all of them") {
  CHECK(calibrated_ranks(1) == std::vector<int>{1});
  CHECK(calibrated_ranks(2) == std::vector<int>{1, 2});
  CHECK(calibrated_ranks(6) == std::vector<int>{1, 2, 4, 6});
  CHECK(calibrated_ranks(8) == std::vector<int>{1, 2, 4, 8});
}

TEST_CASE("a spread is told by the middle half, and one outlier moves nothing") {
  const Spread s = spread_of({5, 1, 2, 3, 4});
  CHECK(s.median == 3);
  CHECK(std::abs(s.relative - 1.0 / 3) < 1e-12);
  CHECK(spread_of({1, 1, 1, 1, 1e9}).median == 1);
  CHECK(spread_of({1, 1, 1, 1, 1e9}).relative == 0);
  CHECK(spread_of({7}).median == 7);
}

TEST_CASE("a measured step is its kernels, its exposed communication and the rest, on every rank") {
  test::Job job(test::tiny_gpt(2, 0.0), 16);
  job.workload.training.precision = Precision::fp32;
  job.strategy.tp = 2;
  const Program program = job.lower();
  const auto data = synthetic_tokens(1, 64);
  std::mutex mutex;
  MeasuredSteps result;
  run_locally(2, [&](Transport& t) {
    const auto device = make_cpu_device(Numerics::fp32);
    MeasuredSteps mine = measure_steps(program, *device, t, *data, {.warm_up = 1, .steps = 3}, {});
    const std::lock_guard lock(mutex);
    if (t.rank() == 0) result = std::move(mine);
  });
  REQUIRE(result.ranks.size() == 2);
  REQUIRE(result.seconds.size() == 3);
  CHECK(result.times.counted == 3);
  for (int r = 0; r < 2; ++r) {
    const RankPlan plan(program, r);
    for (std::size_t s = 0; s < 3; ++s) {
      const auto& step = nth(result.ranks, r).steps[s];
      REQUIRE(step.size() == plan.step().size());
      const StepShares shares = shares_of(plan, step, result.seconds[s]);
      CHECK(std::abs(shares.compute + shares.exposed + shares.rest - result.seconds[s]) < 1e-12);
      CHECK(shares.compute > 0);
      CHECK(shares.exposed > 0);  // A tensor-parallel layer waits for its all-reduce.
    }
  }
}

TEST_CASE("gaps count as exposed where something was on the wire, and as the rest elsewhere") {
  test::Job job(test::tiny_gpt(1, 0.0), 16);
  job.strategy.tp = 2;
  const Program program = job.lower();
  const RankPlan plan(program, 0);
  std::vector<Interval> step(plan.step().size());
  // One after the other, a second each, half a second between them.
  double now = 0, compute = 0, exposed = 0, gap = 0;
  bool moved = false;
  for (std::size_t i = 0; i < step.size(); ++i) {
    const auto& kind = plan.step()[i].task->kind;
    const bool computes = std::holds_alternative<ComputeTask>(kind);
    now += 0.5, gap += 0.5;
    step[i] = {now, now + 1};
    now += 1;
    if (computes) {
      compute += 1;
      if (moved) exposed += gap;
      gap = 0, moved = false;
    } else {
      gap += 1;
      moved |= std::holds_alternative<CollectiveTask>(kind);
    }
  }
  const StepShares shares = shares_of(plan, step, now);
  CHECK(std::abs(shares.compute - compute) < 1e-9);
  CHECK(std::abs(shares.exposed - exposed - (moved ? gap : 0)) < 1e-9);
  CHECK(std::abs(shares.compute + shares.exposed + shares.rest - now) < 1e-9);
}

TEST_CASE("the table of a validation says what is off, and its JSON has a row per line") {
  Validation v;
  v.scenario = "toy", v.machine = "m", v.backend = "analytic";
  v.ranks = 2, v.steps = 5;
  v.rows = {{"matmul.linear", 10, Seconds{0.9}, Seconds{1.0}, true},
            {"norm", 2, Seconds{0.2}, Seconds{0.1}, true},
            {"dispatch and the rest", 0, Seconds{0.1}, Seconds{0.1}, false}};
  v.predicted = v.measured = Seconds{1.2};
  CHECK(std::abs(relative_error(Seconds{0.9}, Seconds{1.0}) + 0.1) < 1e-12);
  CHECK(relative_error(Seconds{1}, Seconds{0}) == 0);
  const Document d = validation_document(v);
  CHECK(d.records.rows.size() == 4);
  const auto json = nlohmann::json::parse(d.json);
  double predicted = 0, measured = 0;
  for (const auto& row : json.at("rows"))
    if (row.at("id") != "step")
      predicted += row.at("predicted").get<double>(), measured += row.at("measured").get<double>();
  CHECK(std::abs(predicted - json.at("step").at("predicted_s").get<double>()) < 1e-12);
  CHECK(std::abs(measured - json.at("step").at("measured_s").get<double>()) < 1e-12);
  CHECK(json.at("summary").at("worst_abs_error").get<double>() == Approx(1.0));
  // The median of -0.1, 1 and 0, not their mean.
  CHECK(json.at("summary").at("bias").get<double>() == Approx(0.0).margin(1e-12));
  CHECK(json.at("summary").at("p90_abs_error").get<double>() == Approx(0.1 + 0.8 * 0.9));
}

TEST_CASE("what processors worked is all but idle time and waiting for disks, by processor") {
  const auto p = processor_times(
      "cpu  0 0 0 0 0 0 0 0 0 0\n"
      "cpu0 100 10 20 500 70 1 2 7 90 0\n"
      "cpu2 300 0 0 100 0 0 0 0 0 0\n"
      "intr 5 0\n",
      100);
  REQUIRE(p.size() == 3);
  CHECK(p[0].worked == Approx(1.4));  // What a guest took is in the first number already.
  CHECK(p[0].all == Approx(7.1));
  CHECK(p[1].all == 0);  // Off.
  CHECK(p[2].worked == Approx(3.0));
  CHECK(p[2].all == Approx(4.0));
  CHECK(processor_times("", 100).empty());
}

TEST_CASE("a process beside a rank takes at least what it worked") {
  std::optional<double> taken;
  double worked = 0, seconds = 0;
  run_locally(1, [&](Transport& t) {
    const ProcessorWatch watch;
    const double begin = host_seconds();
    const pid_t child = ::fork();
    if (child == 0) {
      while (host_seconds() - begin < 1) {}
      ::_exit(0);
    }
    rusage used{};
    int status = 0;
    ::wait4(child, &status, 0, &used);
    worked = static_cast<double>(used.ru_utime.tv_sec) + 1e-6 * static_cast<double>(used.ru_utime.tv_usec);
    taken = watch.taken_by_others(t);
    seconds = host_seconds() - begin;
  });
  if (!taken) REQUIRE_FALSE(std::filesystem::exists("/proc/stat"));
  const double processors = Cores().count();
  CHECK(taken.value_or(1) <= 1);
  CHECK(taken.value_or(1) >= worked / (seconds * processors) - 0.05);  // Ticks are 10 ms.
}

TEST_CASE("what ranks work themselves is not others'") {
  const auto processors = static_cast<double>(Cores().count());
  const auto worked = [] {
    rusage used{};
    ::getrusage(RUSAGE_SELF, &used);
    return static_cast<double>(used.ru_utime.tv_sec) + 1e-6 * static_cast<double>(used.ru_utime.tv_usec);
  };
  run_locally(1, [&](Transport& t) {
    const ProcessorWatch watch;
    const double begin = host_seconds(), before = worked();
    std::vector<std::thread> all;
    for (int i = 0; i < Cores().count(); ++i)
      all.emplace_back([begin] {
        while (host_seconds() - begin < 1) {}
      });
    for (std::thread& thread : all) thread.join();
    const double taken = watch.taken_by_others(t).value_or(0), seconds = host_seconds() - begin;
    // Whatever others do, processors work no more than they can.
    CHECK(taken + (worked() - before) / (seconds * processors) <= 1.1);
  });
}

TEST_CASE("a validation tells a busy machine, a profile of one, and another pace") {
  Validation v;
  v.scenario = "toy", v.machine = "m", v.backend = "analytic";
  v.ranks = 2, v.steps = 5;
  v.predicted = v.measured = Seconds{1};
  CHECK(doubts_of(v).empty());
  v.taken_by_others = v.profile_taken_by_others = 0.04;
  v.pace = 1.08;
  CHECK(doubts_of(v).empty());
  CHECK(nlohmann::json::parse(validation_document(v).json).at("load").at("busy") == false);
  v.taken_by_others = 0.48;
  REQUIRE(doubts_of(v).size() == 1);
  CHECK(doubts_of(v)[0].find("other programs took 48 % of the processors' time while 2 ranks were measured") !=
        std::string::npos);
  v.profile_taken_by_others = 0.2;
  v.pace = 0.7;
  CHECK(doubts_of(v).size() == 3);
  const auto json = nlohmann::json::parse(validation_document(v).json);
  CHECK(json.at("load").at("busy") == true);
  CHECK(json.at("load").at("taken_by_others") == 0.48);
  CHECK(json.at("load").at("doubts").size() == 3);
}
