// Whole networks on a CUDA device, one rank: the same losses and gradients as on the CPU, memory as the plan counts it,
// types as the plan says.
#include <array>
#include <cmath>

#include "core/base/index.hpp"
#include "core/config/settings/choices.hpp"
#include "core/strategy/workload.hpp"
#include "gpu_backend/calibrate/calibrate.hpp"
#include "gpu_backend/calibrate/communication.hpp"
#include "gpu_backend/calibrate/kernel_cases.hpp"
#include "gpu_backend/calibrate/kernel_run.hpp"
#include "tests/gpu/device_under_test.hpp"
#include "tests/gpu/staged_transport.hpp"
#include "tests/parity/jobs.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/skip.hpp"

using namespace rehearse;
using namespace rehearse::test;

namespace {

#define ON_A_DEVICE() \
  if (const auto none = no_device()) REHEARSE_SKIP(*none)

struct Trained {
  std::vector<double> losses;
  std::vector<Gradients> gradients;
  StepResult last;
  Bytes device_peak;
};

Trained train_on_device(const Program& program, int steps, Numerics numerics) {
  Trained out;
  out.gradients.resize(static_cast<std::size_t>(steps));
  const auto data = synthetic_tokens(program.seed, kVocabulary);
  const auto device = device_under_test(numerics);
  LocalWorld world(1);
  const auto transport = world.transport(0);
  ExecutorOptions options;
  options.on_update = [&](const OperatorCall& call) {
    for (const TensorView& x : call.operands) {
      if (x.access != Access::read) continue;
      std::vector<std::byte> host(static_cast<std::size_t>(x.elements()) * size_of(x.type));
      device->peek(x.data, host);
      TensorView copy = x;
      copy.data = host.data();
      Gradients& into = out.gradients.at(static_cast<std::size_t>(call.step));
      if (x.type == ElementType::real64)
        collect<double>(copy, into);
      else
        collect<float>(copy, into);
    }
  };
  {
    Executor executor(program, *device, *transport, *data, options);
    for (int s = 0; s < steps; ++s) {
      out.last = executor.step();
      out.losses.push_back(out.last.loss);
    }
    executor.drain();
  }
  out.device_peak = cuda_memory(*device).peak;
  return out;
}

void check_same(const Program& program, int steps) {
  const Outcome expected = run(program, steps, Numerics::fp64);
  const Trained actual = train_on_device(program, steps, Numerics::fp64);
  for (std::size_t s = 0; s < expected.losses.size(); ++s) {
    INFO("step " << s);
    CHECK(actual.losses[s] == Approx(expected.losses[s]).epsilon(1e-9).margin(0));
    REQUIRE(actual.gradients[s].size() == expected.gradients[s].size());
    for (const auto& [name, values] : expected.gradients[s]) {
      INFO(name);
      CHECK(distance(values, actual.gradients[s].at(name)) <= 1e-9);
    }
  }
  CHECK(actual.last.gradient_norm == Approx(expected.last[0].gradient_norm).epsilon(1e-9));
  CHECK(actual.last.peak_bytes == expected.last[0].peak_bytes);
}

Job short_job(Net net) {
  Job job = small_job(net);
  job.microbatches = 2;
  return job;
}

}  // namespace

TEST_CASE("a GPU trains what the CPU trains, to rounding of fp64") {
  ON_A_DEVICE();
  for (const Net net : {Net::gpt, Net::llama, Net::neox}) {
    INFO("network " << static_cast<int>(net));
    check_same(short_job(net).lower(), 2);
  }
}

TEST_CASE("unfused kernels train the same") {
  ON_A_DEVICE();
  Job job = short_job(Net::gpt);
  job.workload.kernels.attention = AttentionKernel::unfused;
  job.workload.kernels.fused_norm = false;
  check_same(job.lower(), 1);
  job.workload.kernels.fused_cross_entropy = true;
  job.strategy.recompute = Recompute::full;
  check_same(job.lower(), 1);
}

TEST_CASE("mixed precision stores what the plan says and learns as fp32 does") {
  ON_A_DEVICE();
  for (const Net net : {Net::gpt, Net::llama}) {
    Job job = short_job(net);
    job.workload.training.precision = Precision::bf16_mixed;
    const Program program = job.lower();
    const Outcome exact = run(program, 3, Numerics::fp32);
    const Trained mixed = train_on_device(program, 3, Numerics::plan);
    for (std::size_t s = 0; s < 3; ++s) CHECK(mixed.losses[s] == Approx(exact.losses[s]).epsilon(0.02));
    CHECK(mixed.losses[2] != exact.losses[2]);
    // Tensors alone: workspace comes on top, blocks are rounded up.
    CHECK(mixed.device_peak >= mixed.last.peak_bytes);
    CHECK(mixed.last.peak_bytes == exact.last[0].peak_bytes);
  }
}

TEST_CASE("calibration calls operators in the types of a plan, several in line") {
  ON_A_DEVICE();
  const auto device = device_under_test(Numerics::plan);
  const ProbeGrid grid{{8}, {16}, {16}, {32}, {16}, {2}, {64}, {{64, 256}}, true, 0};
  std::map<DType, int> called;
  for (const KernelCase& c : kernel_cases(*device, grid)) {
    std::int64_t elements = 0;
    for (const auto& b : c.buffers) elements += b.elements;
    if (elements > 10'000) continue;
    INFO(c.what.name);
    KernelRun run(*device, c);
    CHECK(run.once() > 0);
    if (called[c.arithmetic]++ < 3) CHECK(run.once() > 0);
  }
  CHECK(called[DType::bf16] > 5);
  CHECK(called[DType::fp32] > 0);
}

TEST_CASE("a calibration that has no time still knows memory's rate, and writes what it has") {
  ON_A_DEVICE();
  CalibrationRequest request;
  request.budget_s = 1e-6;
  request.numerics = {Numerics::plan};
  request.make_device = [](Numerics n) { return device_under_test(n); };
  request.grid = {{8}, {16}, {16}, {32}, {16}, {2}, {64}, {{64, 256}}, true, 0};
  request.apart = true;
  request.share_machine = [](int) { return 1; };
  LocalWorld world(1);
  const auto transport = world.transport(0);
  const DeviceProfile profile = calibrate(*transport, request);
  REQUIRE_FALSE(profile.settings.empty());
  for (const auto& setting : profile.settings) {
    CHECK(setting.copy_rate.has_value());
    REQUIRE(setting.operators.size() == 1);  // That copy, and nothing else.
    CHECK(setting.operators.begin()->second.rows.size() == 1);
  }
}

TEST_CASE("what communication takes of compute is measured by as many calls on every rank, and ends") {
  ON_A_DEVICE();
  std::array<double, 2> taken{-1, -2};
  run_locally(2, [&taken](Transport& plain) {
    const auto device = device_under_test(Numerics::fp32);
    StagedTransport transport(plain, *device);
    Team team(*device, transport, 2, "beside");
    nth(taken, plain.rank()) = taken_by_communication(team, transport, 0.01, {.side = 16, .elements = 256});
  });
  CHECK(taken[0] == taken[1]);  // The team's, on both.
}

TEST_CASE("a device without room says how much the plan expected to use") {
  ON_A_DEVICE();
  const Program program = short_job(Net::gpt).lower();
  const auto data = synthetic_tokens(program.seed, kVocabulary);
  const auto device = open_cuda_device({.numerics = Numerics::fp32, .memory_limit = Bytes{60e3}});
  LocalWorld world(1);
  const auto transport = world.transport(0);
  try {
    Executor executor(program, *device, *transport, *data, {});
    (void)executor.step();
    FAIL("it fits into 60 kB");
  } catch (const Error& e) {
    CHECK(e.kind == ErrorKind::infeasible);
    CHECK(std::string(e.what()).find("predicted peak") != std::string::npos);
  }
}
