// What a step cannot be faster than: its storage, its decoders, its host, its one wire, its one process.

#include "core/config/settings/input.hpp"
#include "core/config/settings/strategy.hpp"
#include "core/strategy/workload.hpp"
#include "tests/support/catch.hpp"
#include "tests/unit/estimate/estimate_jobs.hpp"

using namespace rehearse;
using namespace rehearse::test;

namespace {

Workload gpt2(std::int64_t batch) {
  Workload w;
  w.network = ModelLibrary(kSource + "/scenarios/models").load("gpt2");
  w.training.global_batch = batch;
  w.training.sequence_length = 1024;
  return w;
}

StrategySettings replicas(int dp) {
  StrategySettings s;
  s.dp = s.dp_replicate = dp;
  return s;
}

Estimate with_input(const InputSettings& input, DataParallelism kind = DataParallelism::replicas) {
  Workload w = gpt2(8);
  w.input = input;
  CostModel::Options options;
  options.input = input;
  const auto site = make_site("dgx_h100", 1, "single_switch", options);
  StrategySettings s = replicas(8);
  s.data_parallel = kind;
  return estimate(lower(w, s, site->cluster), site->cost, s, 6);
}

Estimate on_h100(const StrategySettings& s, std::int64_t batch) {
  static const auto site = make_site("dgx_h100", 1, "single_switch");
  return estimate(lower(gpt2(batch), s, site->cluster), site->cost, s, 2);
}

}  // namespace

TEST_CASE("a step takes as long as storage needs to deliver its samples, where that is longer") {
  InputSettings input;
  input.sample = Bytes{1e9};
  input.storage = BytesPerSecond{2e9};
  const Estimate slow = with_input(input);
  CHECK(std::abs(slow.step_time.value() - 8e9 / 2e9) < 0.01 * 4);
  CHECK(slow.breakdown[TimeCategory::input] > slow.step_time * 0.9);
  input.storage = BytesPerSecond{2e15};
  CHECK(with_input(input).step_time < slow.step_time * 0.2);
}

TEST_CASE("a step takes as long as the cores need to decode, and half as long with twice the workers") {
  InputSettings input;
  input.sample = Bytes{1e5};
  input.decode_per_core = 0.25;  // One sample per GPU: a second with four workers.
  const double four = with_input(input).step_time.value();
  CHECK(std::abs(four - 1) < 0.01);
  input.workers = 8;
  CHECK(std::abs(with_input(input).step_time.value() - 0.5) < 0.01);
  input.gpudirect_storage = true;
  CHECK(with_input(input).step_time.value() < 0.2);
}

TEST_CASE("a funnel's one loader has its node's storage to itself, and the cores of all") {
  InputSettings input;
  input.sample = Bytes{1e9};
  input.storage = BytesPerSecond{2e9};
  CHECK(std::abs(with_input(input, DataParallelism::funnel).step_time.value() - 8e9 / 2e9) < 0.01 * 4);
  input = {};
  input.sample = Bytes{1e5};
  input.decode_per_core = 0.25;  // Eight samples on eight times four cores: a second.
  CHECK(std::abs(with_input(input, DataParallelism::funnel).step_time.value() - 1) < 0.1);
}

TEST_CASE("samples that are in GPU memory already cost nothing") {
  InputSettings copied, resident;
  resident.declared.set("input.resident", true);
  resident.sample = Bytes{1e9};
  resident.storage = BytesPerSecond{1e6};
  resident.decode_per_core = 0.01;
  CHECK(with_input(resident).step_time <= with_input(copied).step_time);
  CHECK(with_input(resident).breakdown[TimeCategory::input] == Seconds{0});
  CHECK_THROWS_AS(with_input(resident, DataParallelism::funnel), Error);
}

TEST_CASE("a funnel is slower than replicas, and gains less from every further GPU") {
  StrategySettings ddp = replicas(8), funnel = ddp;
  funnel.data_parallel = DataParallelism::funnel;
  CHECK(on_h100(funnel, 64).step_time > on_h100(ddp, 64).step_time * 1.2);
}

TEST_CASE("more servers spread what one server's wire must carry") {
  StrategySettings s = replicas(8);
  s.data_parallel = DataParallelism::parameter_server;
  const Seconds one = on_h100(s, 8).step_time;
  s.servers = 4;
  CHECK(on_h100(s, 8).step_time < one);
}

TEST_CASE("an offloaded update waits for CPU cores: as many bytes as the published rate moves in that time") {
  StrategySettings s = replicas(8), off = s;
  off.offload = Offload::optimizer;
  const double parameters = static_cast<double>(gpt2(8).network.parameter_count());
  // 30 bytes of gradient, state and new parameter for each, every rank updating all: eight times over two sockets.
  const double update = 8 * parameters * 30 / (10e9 * 28 / 2.57);
  const double more = (on_h100(off, 8).step_time - on_h100(s, 8).step_time).value();
  CHECK(more > 0.8 * update);
  CHECK(more < 1.4 * update);
}
