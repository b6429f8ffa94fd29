// The product's nccl_world.cpp over an NCCL that blocks wherever NCCL may (on_cpu/nccl.cpp), on streams that do nothing
// before they must: every strategy and schedule runs to its end and gives the losses of one rank. What CUDA's variables
// are set for is shown by what hangs without them.

#include "core/config/settings/strategy.hpp"
#include "core/strategy/workload.hpp"
#include "gpu_backend/communicate/nccl_world.hpp"
#include "gpu_backend/communicate/net/rendezvous.hpp"
#include "gpu_backend/cuda/cuda_environment.hpp"
#include "tests/gpu/device_under_test.hpp"
#include "tests/gpu/on_cpu/streams.hpp"
#include "tests/parity/jobs.hpp"
#include "tests/support/catch.hpp"

using namespace rehearse;
using namespace rehearse::test;

namespace {

struct Losses {
  std::vector<double> losses, norms;
};

/// As `run` sets CUDA up for several ranks.
on_cpu::GpuSettings as_runs_are() { return on_cpu::gpu_with(cuda_environment(2)); }

Losses over_nccl(const Program& program, int steps, on_cpu::GpuSettings settings) {
  const on_cpu::LateStreams late(settings);
  net::RendezvousServer server("127.0.0.1", 0, {"test", program.mesh.ranks()});
  Losses out;
  std::mutex mutex;
  const auto data = program.tokens_per_step > 0 ? synthetic_tokens(program.seed, kVocabulary)
                                                : synthetic_images(program.seed, kClasses);
  run_locally(program.mesh.ranks(), [&](Transport& plain) {
    const auto device = device_under_test(Numerics::fp64);
    const auto transport = join_nccl(plain.rank(), plain.ranks(), {"127.0.0.1", server.port(), "test"}, *device, {});
    Executor executor(program, *device, *transport, *data, {});
    for (int s = 0; s < steps; ++s) {
      const StepResult result = executor.step();
      const std::lock_guard lock(mutex);
      if (plain.rank() > 0) continue;
      out.losses.push_back(result.loss);
      out.norms.push_back(result.gradient_norm);
    }
    executor.drain();
  });
  return out;
}

const Outcome& alone(Net net, int steps) {
  static std::map<std::pair<Net, int>, Outcome> done;
  const auto [at, fresh] = done.try_emplace({net, steps});
  if (fresh) at->second = run(spread(small_job(net), {}), steps, Numerics::fp64);
  return at->second;
}

void check_over_nccl(Net net, const std::vector<Variation>& chosen, int steps) {
  std::string names;
  for (const Variation& v : chosen) names += v.name + "; ";
  INFO("network " << static_cast<int>(net) << ", " << names);
  try {
    const Losses got = over_nccl(spread(small_job(net), chosen), steps, as_runs_are());
    const Outcome& expected = alone(net, steps);
    for (int s = 0; s < steps; ++s) {
      CHECK(nth(got.losses, s) == Approx(nth(expected.losses, s)).epsilon(1e-9));
      CHECK(nth(got.norms, s) == Approx(nth(nth(expected.norms, s), 0)).epsilon(1e-9));
    }
  } catch (const std::exception& e) {
    FAIL_CHECK("it does not run: " << e.what());
  }
}

/// Why a step does not end, or nothing: without its numbers, so not where the data decides how much is exchanged.
std::string hangs(const Program& program, on_cpu::GpuSettings settings, int steps) {
  settings.computes = false;
  try {
    (void)over_nccl(program, steps, settings);
  } catch (const std::exception& e) {
    return e.what();
  }
  return {};
}
bool has_experts(Net net) { return net == Net::mixtral; }

/// Stages and microbatches enough for a schedule at eight ranks.
Program at_eight(const std::string& schedule, int stages) {
  Job job = small_job(Net::gpt);
  job.workload.network = changed("tiny_gpt2", {{"n_layer", 16},
                                               {"n_embd", 16},
                                               {"n_head", 4},
                                               {"n_inner", 32},
                                               {"n_positions", 16},
                                               {"vocab_size", kVocabulary}});
  StrategySettings& s = job.strategy;
  s.pp = stages;
  s.dp_replicate = s.dp = 8 / stages;
  s.schedule = schedule;
  job.microbatches = 2 * stages;
  try {
    schedules().at(schedule).value->check({stages, 1, job.microbatches});
  } catch (const Error&) {
    s.virtual_stages = 2;
  }
  return job.lower();
}

}  // namespace

TEST_CASE("no strategy or schedule hangs at two ranks", "[nccl]") {
  for (const Variation& v : all_variations()) {
    if (has_experts(net_of(v))) continue;
    INFO(v.name);
    CHECK(hangs(spread(small_job(net_of(v)), {v}), as_runs_are(), 2) == "");
  }
}

TEST_CASE("no two strategies hang together at four ranks", "[nccl]") {
  int tested = 0;
  for (const Variation& v : all_variations())
    for (const char* other : {"data_parallel", "tensor_parallel", "pipeline_parallel", "zero3"}) {
      const Variation& w = variations().at(other).front();
      const Net net = net_of(v);
      if (v.ranks * w.ranks != 4 || has_experts(net)) continue;
      const auto program = spread_if_legal(net, {v, w});
      if (!program) continue;
      INFO(v.name << " with " << w.name);
      CHECK(hangs(*program, as_runs_are(), 1) == "");
      ++tested;
    }
  CHECK(tested > 80);
}

TEST_CASE("no schedule hangs at eight ranks", "[nccl]") {
  for (const Variation& v : schedule_variations())
    for (const int stages : {4, 8}) {
      INFO(v.name << " of " << stages << " stages");
      CHECK(hangs(at_eight(v.name, stages), as_runs_are(), 1) == "");
    }
}

TEST_CASE("kernels that are loaded at their first launch hang schedules that send both ways", "[nccl]") {
  const on_cpu::GpuSettings lazy = on_cpu::gpu_with({{"CUDA_DEVICE_MAX_CONNECTIONS", "32"}});
  for (const char* schedule : {"dualpipe", "zb_v"}) {
    INFO(schedule);
    CHECK(hangs(at_eight(schedule, 4), lazy, 1).find("to load a kernel") != std::string::npos);
  }
  CHECK(hangs(at_eight("1f1b", 4), lazy, 1) == "");
}

TEST_CASE("streams that share hardware queues hang schedules with many streams", "[nccl]") {
  const auto queues = [](const char* n) {
    return on_cpu::gpu_with({{"CUDA_MODULE_LOADING", "EAGER"}, {"CUDA_DEVICE_MAX_CONNECTIONS", n}});
  };
  for (const char* schedule : {"dualpipe", "zb_v", "interleaved_1f1b"}) {
    INFO(schedule);
    CHECK(hangs(at_eight(schedule, 4), queues("2"), 1).find("all ranks wait") != std::string::npos);
  }
  CHECK(hangs(at_eight("gpipe", 4), queues("1"), 1) == "");
}

// What scripts for GPUs run where ranks are no processes: [first] by first.sh, [share_...] by sections of gpu.sh.
TEST_CASE("two ranks over NCCL give the losses of one", "[nccl][first][share_gpt]") {
  check_over_nccl(Net::gpt, {variations().at("tensor_parallel").front()}, 2);
}
TEST_CASE("ranks that divide data, weights and layers over NCCL give the losses of one", "[nccl][share_gpt]") {
  for (const char* strategy : {"data_parallel", "zero3", "pipeline_parallel"})
    check_over_nccl(Net::gpt, {variations().at(strategy).front()}, 2);
}
TEST_CASE("schedules whose ranks send both ways give the losses of one rank over NCCL", "[nccl][share_schedules]") {
  for (const Variation& v : schedule_variations())
    if (v.name == "dualpipe" || v.name == "zb_v") check_over_nccl(net_of(v), {v}, 2);
}
TEST_CASE("experts over NCCL give the losses of one rank", "[nccl][share_experts]") {
  check_over_nccl(Net::mixtral, {variations().at("expert_parallel").front()}, 2);
}
TEST_CASE("tiles of images over NCCL give the losses of one rank", "[nccl][share_images]") {
  const Variation& v = variations().at("tile_parallel").front();
  check_over_nccl(net_of(v), {v}, 2);
}

TEST_CASE("every strategy and schedule over NCCL gives the losses of one rank", "[.slow]") {
  for (const Variation& v : all_variations()) check_over_nccl(net_of(v), {v}, 2);
  for (const Variation& v : variations().at("expert_parallel"))
    for (const char* other : {"data_parallel", "pipeline_parallel", "zero3"})
      check_over_nccl(Net::mixtral, {v, variations().at(other).front()}, 2);
}
