// Ranks as threads, ranks over TCP and ranks that share memory do the same.

#include <atomic>
#include <cmath>
#include <future>
#include <mutex>
#include <numeric>
#include <thread>

#include "core/base/error.hpp"
#include "core/config/settings/choices.hpp"
#include "core/program/body.hpp"
#include "core/strategy/workload.hpp"
#include "gpu_backend/communicate/gloo_world.hpp"
#include "gpu_backend/communicate/local_world.hpp"
#include "gpu_backend/communicate/net/rendezvous.hpp"
#include "gpu_backend/cpu/cpu_device.hpp"
#include "gpu_backend/execute/executor.hpp"
#include "gpu_backend/train/launch.hpp"
#include "tests/support/catch.hpp"
#include "tests/unit/program/lowered.hpp"

using namespace rehearse;

namespace {

constexpr int kRanks = 3;
using Body = std::function<void(Transport&)>;

/// Throws what a rank has thrown; the others then end, too, if it is a value of the rendezvous that they wait for.
void joined(Neighbourhood neighbourhood, const Body& body) {
  net::RendezvousServer server("127.0.0.1", 0, {"test", kRanks});
  std::vector<std::future<void>> ranks;
  for (int r = 0; r < kRanks; ++r)
    ranks.push_back(std::async(std::launch::async, [&, r] {
      const auto transport = join_gloo(
          r, kRanks, {"127.0.0.1", server.port(), "test"}, [](const std::string&) {}, neighbourhood);
      try {
        body(*transport);
        std::vector<double> all{1};
        transport->sum(all);  // Nobody leaves while others still talk to it.
      } catch (const std::exception& e) {
        transport->fail(e.what());
        throw;
      }
    }));
  for (auto& r : ranks) r.get();
}

void complete_call(Communicator& who, CollectiveCall call) {
  std::promise<void> ended;
  who.start(std::move(call),
            [&](std::exception_ptr failed) { failed ? ended.set_exception(failed) : ended.set_value(); });
  ended.get_future().get();
}

CollectiveCall call_of(CollectiveOp op, std::vector<double>& send, std::vector<double>& receive,
                       std::vector<std::int64_t> send_counts, std::vector<std::int64_t> receive_counts) {
  CollectiveCall c;
  c.op = op;
  c.type = ElementType::real64;
  c.send = reinterpret_cast<std::byte*>(send.data());
  c.receive = reinterpret_cast<std::byte*>(receive.data());
  c.send_counts = std::move(send_counts);
  c.receive_counts = std::move(receive_counts);
  c.name = "test";
  return c;
}

/// Parts of 1, 2 and 0 elements, all equal to the sender's number plus a tenth of the receiver's.
void every_collective(Transport& t) {
  const auto me = static_cast<std::size_t>(t.rank());
  const std::vector<std::int64_t> parts{1, 2, 0};
  std::vector<int> members(kRanks);
  std::iota(members.begin(), members.end(), 0);
  const auto who = t.communicator("tp", members);
  std::vector<double> none, x{static_cast<double>(t.rank()), 1.0};

  complete_call(*who, call_of(CollectiveOp::all_reduce, none, x, {2}, {2}));
  CHECK(x == std::vector<double>{3, 3});

  std::vector<double> send(3, static_cast<double>(t.rank() + 1)), sum(static_cast<std::size_t>(parts[me]));
  complete_call(*who, call_of(CollectiveOp::reduce_scatter, send, sum, parts, {parts[me]}));
  for (const double v : sum) CHECK(v == 6);

  std::vector<double> mine(static_cast<std::size_t>(parts[me]), static_cast<double>(t.rank())), all(3);
  complete_call(*who, call_of(CollectiveOp::all_gather, mine, all, {parts[me]}, parts));
  CHECK(all == std::vector<double>{0, 1, 1});

  std::vector<double> to{10.0 * t.rank(), 10.0 * t.rank() + 1, 10.0 * t.rank() + 2}, from(3);
  complete_call(*who, call_of(CollectiveOp::all_to_all, to, from, {1, 1, 1}, {1, 1, 1}));
  CHECK(from == std::vector<double>{0.0 + t.rank(), 10.0 + t.rank(), 20.0 + t.rank()});

  std::vector<double> told{t.rank() == 2 ? 5.0 : 0.0};
  CollectiveCall broadcast = call_of(CollectiveOp::broadcast, none, told, {1}, {1});
  broadcast.root = 2;
  complete_call(*who, broadcast);
  CHECK(told[0] == 5);
}

void messages_in_order(Transport& t) {
  const auto channel = t.rank() < 2 ? t.channel("edge", 0, 1) : nullptr;
  std::vector<double> data{1, 2, 3};
  for (int i = 0; i < 3 && channel; ++i) {
    std::promise<void> ended;
    const Done done = [&](std::exception_ptr failed) { failed ? ended.set_exception(failed) : ended.set_value(); };
    std::byte* at = reinterpret_cast<std::byte*>(data.data());
    const auto label = static_cast<std::uint64_t>(i);
    if (t.rank() == 0) {
      data[0] = i;
      channel->send(at, 24, label, done);
    } else {
      channel->receive(at, 24, label, done);
    }
    ended.get_future().get();
    CHECK(data[0] == i);
  }
}

}  // namespace

TEST_CASE("collectives between threads") { run_locally(kRanks, every_collective); }
TEST_CASE("messages between threads") { run_locally(kRanks, messages_in_order); }
TEST_CASE("collectives over TCP", "[tcp]") { joined(Neighbourhood::over_tcp, every_collective); }
TEST_CASE("messages over TCP", "[tcp]") { joined(Neighbourhood::over_tcp, messages_in_order); }
TEST_CASE("collectives through memory", "[tcp]") { joined(Neighbourhood::through_memory, every_collective); }
TEST_CASE("messages through memory", "[tcp]") { joined(Neighbourhood::through_memory, messages_in_order); }

/// Losses and gradient norms of some steps in fp64, by however many ranks the job asks for.
std::vector<double> told_by_steps(const test::Job& job) {
  const Program program = job.lower();
  const auto data = synthetic_tokens(program.seed, 64);
  std::mutex mutex;
  std::vector<double> out;
  run_locally(job.ranks(), [&](Transport& t) {
    const auto device = make_cpu_device(Numerics::fp64);
    Executor executor(program, *device, t, *data, {});
    for (int i = 0; i < 3; ++i) {
      const StepResult r = executor.step();
      const std::lock_guard lock(mutex);
      if (t.rank() == 0) out.insert(out.end(), {r.loss, r.gradient_norm});
    }
  });
  return out;
}

TEST_CASE("gradients of many thousand elements are averaged over replicas, every one of them") {
  test::Job job(test::changed("tiny_gpt2", {{"n_layer", 1},
                                            {"n_embd", 64},
                                            {"n_head", 4},
                                            {"n_inner", 1100},
                                            {"embd_pdrop", 0.0},
                                            {"attn_pdrop", 0.0},
                                            {"resid_pdrop", 0.0}}),
                16);
  job.workload.training.precision = Precision::fp32;
  job.microbatches = 2;
  const std::vector<double> one = told_by_steps(job);  // Two samples of one rank, then one of each of two.
  job.strategy.dp = 2, job.microbatches = 1;
  const std::vector<double> two = told_by_steps(job);
  REQUIRE(one.size() == two.size());
  for (std::size_t i = 0; i < one.size(); ++i) CHECK(std::abs(one[i] - two[i]) <= 1e-9 * std::abs(one[i]));
  CHECK(one[4] != one[0]);
}

TEST_CASE("a thread that fails ends the others with its cause") {
  try {
    run_locally(kRanks, [](Transport& t) {
      if (t.rank() == 1) throw Error(ErrorKind::check_failed, "disk full");
      std::vector<double> x{1};
      t.sum(x);
    });
    FAIL("nobody failed");
  } catch (const Error& e) {
    CHECK(std::string(e.what()).find("disk full") != std::string::npos);
  }
}

TEST_CASE("messages that do not belong together are refused") {
  CHECK_THROWS_AS(run_locally(2,
                              [](Transport& t) {
                                const auto channel = t.channel("edge", 0, 1);
                                double x = 0;
                                std::promise<void> ended;
                                const Done done = [&](std::exception_ptr failed) {
                                  failed ? ended.set_exception(failed) : ended.set_value();
                                };
                                std::byte* at = reinterpret_cast<std::byte*>(&x);
                                t.rank() == 0 ? channel->send(at, 8, 1, done) : channel->receive(at, 8, 2, done);
                                ended.get_future().get();
                              }),
                  Error);
}

namespace {

std::optional<Place> place(const std::map<std::string, std::string>& set) {
  return place_from(
      [&](const std::string& name) { return set.contains(name) ? std::optional(set.at(name)) : std::nullopt; });
}

}  // namespace

TEST_CASE("a rank finds its place by the variables of its launcher") {
  CHECK_FALSE(place({}).has_value());
  const auto torchrun = place({{"RANK", "3"},
                               {"WORLD_SIZE", "8"},
                               {"LOCAL_WORLD_SIZE", "4"},
                               {"MASTER_ADDR", "node7"},
                               {"MASTER_PORT", "1234"}});
  CHECK(torchrun->rank == 3);
  CHECK(torchrun->ranks == 8);
  CHECK(torchrun->local_ranks == 4);
  CHECK(torchrun->host == "node7");
  CHECK(torchrun->port == 1234);
  const auto slurm = place({{"SLURM_PROCID", "1"}, {"SLURM_NTASKS", "2"}, {"SLURM_LAUNCH_NODE_IPADDR", "10.0.0.1"}});
  CHECK(slurm->rank == 1);
  CHECK(slurm->host == "10.0.0.1");
  const auto mpi =
      place({{"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", "2"}, {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}});
  CHECK(mpi->ranks == 2);
  CHECK(mpi->host == "127.0.0.1");
}

TEST_CASE("ranks of one run have its id, whoever started them") {
  const std::map<std::string, std::string> here{{"RANK", "0"}, {"WORLD_SIZE", "1"}, {"MASTER_ADDR", "a"}};
  const auto id = [&](std::map<std::string, std::string> set) {
    set.insert(here.begin(), here.end());
    return place(set)->run_id;
  };
  CHECK(id({}).empty());
  CHECK(id({{"REHEARSE_RUN_ID", "mine"}, {"TORCHELASTIC_RUN_ID", "7"}}) == "mine");
  CHECK(id({{"TORCHELASTIC_RUN_ID", "7"}}) == "torchrun 7");
  CHECK(id({{"SLURM_JOB_ID", "12"}, {"SLURM_STEP_ID", "0"}}) != id({{"SLURM_JOB_ID", "12"}, {"SLURM_STEP_ID", "1"}}));
  CHECK_THROWS_WITH(id({{"REHEARSE_RUN_ID", std::string(200, 'x')}}), Catch::Matchers::ContainsSubstring("at most 96"));
}

TEST_CASE("variables that say nonsense are named") {
  CHECK_THROWS_WITH(place({{"RANK", "0"}}), Catch::Matchers::ContainsSubstring("WORLD_SIZE"));
  CHECK_THROWS_WITH(place({{"RANK", "2"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "a"}}),
                    Catch::Matchers::ContainsSubstring("RANK=2"));
  CHECK_THROWS_WITH(place({{"RANK", "x"}, {"WORLD_SIZE", "2"}}), Catch::Matchers::ContainsSubstring("RANK='x'"));
  CHECK_THROWS_WITH(place({{"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", "2"}}),
                    Catch::Matchers::ContainsSubstring("MASTER_ADDR"));
}
