// The parity suite on a CUDA device: every strategy and schedule at 2 ranks (4 where one takes as many) gives what one
// rank gives on the CPU, in fp64. Ranks are threads with a device each that are joined through the host; share_gpu.sh
// joins processes through NCCL.
#include "core/config/settings/strategy.hpp"
#include "core/strategy/workload.hpp"
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

const Elsewhere kDevice{[](Numerics numerics) { return device_under_test(numerics); },
                        [](Transport& inner, ComputeDevice& device) -> std::unique_ptr<Transport> {
                          return std::make_unique<StagedTransport>(inner, device);
                        }};

constexpr Net kNets[] = {Net::gpt, Net::llama, Net::neox,      Net::mixtral, Net::deepseek,
                         Net::mlp, Net::cnn,   Net::segmenter, Net::gan};

const Outcome& on_cpu_alone(Net net, int steps) {
  static std::map<std::pair<Net, int>, Outcome> done;
  const auto [at, fresh] = done.try_emplace({net, steps});
  if (fresh) at->second = run(spread(small_job(net), {}), steps, Numerics::fp64);
  return at->second;
}

void check_on_device(const Job& job, const Outcome& expected, const Variation& v, int steps) {
  const Outcome got = run(spread(job, {v}), steps, Numerics::fp64, {}, kDevice);
  for (std::size_t s = 0; s < got.losses.size(); ++s) {
    CHECK(got.losses[s] == Approx(expected.losses[s]).epsilon(1e-9));
    REQUIRE(got.gradients[s].size() == expected.gradients[s].size());
    for (const auto& [name, values] : expected.gradients[s]) {
      INFO(name);
      CHECK(distance(values, got.gradients[s].at(name)) <= 1e-9);
    }
  }
}

void check_on_device(Net net, const Variation& v, int steps) {
  INFO("network " << static_cast<int>(net) << ", " << v.name);
  try {
    check_on_device(small_job(net), on_cpu_alone(net, steps), v, steps);
  } catch (const std::exception& e) {
    FAIL_CHECK("it does not run: " << e.what());
  }
}

const Variation kOneRank{"one rank", 1, [](StrategySettings&) {}};

}  // namespace

TEST_CASE("networks of every kind train on a device as on the CPU") {
  ON_A_DEVICE();
  for (const Net net : kNets) check_on_device(net, kOneRank, 1);
}

TEST_CASE("products in fp8 on a device multiply what they multiply on the CPU") {
  ON_A_DEVICE();
  for (const Fp8Recipe recipe : {Fp8Recipe::delayed, Fp8Recipe::blockwise}) {
    INFO(name_of(recipe));
    Job job = small_job(Net::gpt);
    job.workload.training.precision = Precision::fp8_mixed;
    job.workload.training.fp8.recipe = recipe;
    const int steps = recipe == Fp8Recipe::delayed ? 2 : 1;  // The first has no scales yet.
    check_on_device(job, run(spread(job, {}), steps, Numerics::fp64), kOneRank, steps);
  }
}

TEST_CASE("what devices exchange and compute in parts gives the result of one rank", "[parity]") {
  ON_A_DEVICE();
  // One of each kind: threads of a GPU are slow on a CPU. All of them below.
  // Blocks of attention, merged.
  check_on_device(Net::gpt, variations().at("context_parallel").front(), 1);
  check_on_device(Net::llama, variations().at("overlapped_tensor_parallel").front(), 1);  // Pieces of products.
  // Exchanges that the data sizes.
  check_on_device(Net::deepseek, variations().at("expert_parallel").front(), 1);
  // Halos.
  for (const Variation& v : variations().at("tile_parallel"))
    check_on_device(v.name == "tile_h" ? Net::cnn : Net::segmenter, v, 1);
}

TEST_CASE("every strategy and schedule on devices, for every network, over steps", "[.slow]") {
  ON_A_DEVICE();
  for (const Net net : kNets)
    for (const Variation& v : all_variations())
      if (legal(net, {v})) check_on_device(net, v, 3);
}
