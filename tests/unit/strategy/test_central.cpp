// A funnel and a parameter server: who holds what, and how many bytes cross whose wire.

#include "core/base/index.hpp"
#include "core/config/settings/choices.hpp"
#include "core/program/body.hpp"
#include "core/strategy/workload.hpp"
#include "tests/support/catch.hpp"
#include "tests/unit/program/lowered.hpp"

using namespace rehearse;
using namespace rehearse::test;

namespace {

Job central(DataParallelism kind, int ranks, int servers = 1, int microbatches = 1) {
  Job job(tiny_gpt());
  job.strategy.dp = job.strategy.dp_replicate = ranks;
  job.strategy.data_parallel = kind;
  job.strategy.servers = servers;
  job.microbatches = microbatches;
  job.strategy.bucket = Bytes{4e4};
  job.workload.training.gradient_dtype = GradientDtype::model;
  return job;
}

double held(const Program& p, int rank) {
  double out = 0;
  for (const auto c : {MemoryCategory::weights, MemoryCategory::gradients, MemoryCategory::optimizer})
    out += persistent_bytes(p, rank, c);
  return out;
}

double parameters_central(const Job& job) { return static_cast<double>(job.workload.network.parameter_count()); }

struct CentralWire {
  double sent = 0, received = 0;
};

/// Bytes of messages at one rank whose tasks are called `name`.
CentralWire messages(const Program& p, int rank, const std::string& name) {
  CentralWire out;
  for_each_task(p, rank, [&](const Entry& e, const Body& body, const Task& task) {
    const auto* m = std::get_if<P2pTask>(&task.kind);
    if (m == nullptr || task.name != name) return;
    double bytes = 0;
    for (const Operand& o : task.operands) bytes += bytes_of(p, body, o, context_of(p, rank, e));
    (m->direction == P2pTask::Direction::send ? out.sent : out.received) += bytes;
  });
  return out;
}

double collective(const Program& p, int rank, CollectiveOp op) {
  double bytes = 0;
  for_each_task(p, rank, [&](const Entry& e, const Body& body, const Task& task) {
    if (const auto* c = std::get_if<CollectiveTask>(&task.kind); c != nullptr && c->op == op)
      bytes += collective_bytes(p, body, task, context_of(p, rank, e));
  });
  return bytes;
}

}  // namespace

TEST_CASE("a funnel keeps parameters and optimizer state on GPU 0 alone, in one process") {
  const Job job = central(DataParallelism::funnel, 4);
  const Program p = job.lower();
  validate(p);
  CHECK(held(p, 0) == 16 * parameters_central(job));
  CHECK(held(p, 1) == 0);
  CHECK(p.process_of_rank == std::vector<int>(4, 0));
  const auto memory = peak_memory(p, Bytes{0}, Bytes{0});
  REQUIRE(memory.size() == 2);
  CHECK(memory[0].peak > memory[1].peak + Bytes{12 * parameters_central(job)});
}

TEST_CASE("a funnel broadcasts the parameters before every forward and reduces gradients after every backward") {
  for (const int m : {1, 3}) {
    const Job job = central(DataParallelism::funnel, 4, 1, m);
    const Program p = job.lower();
    validate(p);
    for (const int rank : {0, 3}) {
      CHECK(collective(p, rank, CollectiveOp::broadcast) == m * 2 * parameters_central(job));
      CHECK(collective(p, rank, CollectiveOp::reduce) == m * 2 * parameters_central(job));
    }
  }
}

TEST_CASE("GPU 0 of a funnel hands out the other ranks' inputs and collects their outputs") {
  const Job job = central(DataParallelism::funnel, 4);
  const Program p = job.lower();
  const double tokens = 8.0 * 32, logits = 2.0 * 32 * 256;
  CHECK(messages(p, 0, "inputs").sent == 3 * 2 * tokens);  // Tokens and labels.
  CHECK(messages(p, 1, "inputs").received == 2 * tokens);
  CHECK(messages(p, 1, "outputs").sent == logits);
  CHECK(messages(p, 1, "outputs").received == logits);
  CHECK(messages(p, 0, "outputs").sent == 3 * logits);
}

TEST_CASE("variables are dealt to servers; together they hold the model once") {
  for (const int servers : {1, 2, 4}) {
    const Job job = central(DataParallelism::parameter_server, 4, servers);
    const Program p = job.lower();
    validate(p);
    double all = 0, most = 0;
    for (int rank = 0; rank < 4; ++rank) {
      all += held(p, rank);
      most = std::max(most, held(p, rank));
    }
    CHECK(all == 16 * parameters_central(job));
    CHECK(most < 16 * parameters_central(job) / servers * 1.35);
  }
}

TEST_CASE("a server's wire carries its variables once per worker and direction") {
  const Job job = central(DataParallelism::parameter_server, 4, 1, 3);
  const Program p = job.lower();
  const double psi = 2 * parameters_central(job);
  CHECK(messages(p, 0, "parameters").sent == 3 * psi);
  CHECK(messages(p, 0, "gradients").received == 3 * psi);
  CHECK(messages(p, 2, "parameters").received == psi);
  CHECK(messages(p, 2, "gradients").sent == psi);
}

TEST_CASE("a funnel or a server copies whole networks: sharding and splitting are refused") {
  for (const auto kind : {DataParallelism::funnel, DataParallelism::parameter_server}) {
    Job job = central(kind, 2);
    job.strategy.tp = 2;
    CHECK_THROWS_AS(job.lower(), Error);
    job.strategy.tp = 1;
    job.strategy.zero_stage = 1;
    CHECK_THROWS_AS(job.lower(), Error);
  }
  CHECK_THROWS_AS(central(DataParallelism::parameter_server, 2, 3).lower(), Error);
}

TEST_CASE("offloading leaves parameters and gradients on the device and the rest in host memory") {
  Job job(tiny_gpt());
  job.strategy.offload = Offload::optimizer;
  job.workload.training.gradient_dtype = GradientDtype::model;
  for (const int dp : {1, 2}) {
    job.strategy.dp = job.strategy.dp_replicate = dp;
    job.strategy.zero_stage = dp == 1 ? 0 : 3;
    job.strategy.zero3.persistence_threshold = 0;
    const Program p = job.lower();
    validate(p);
    double device = 0, host = 0;
    for (const Role::Persistent& q : p.roles[0].persistent) {
      const Tensor& t = nth(p.tensors, q.tensor);
      if (t.alias_of < 0 && t.name != "gradient_norm")
        (t.space == MemorySpace::device ? device : host) += p.local_bytes(t, p.mesh.context(0));
    }
    CHECK(device == 4 * parameters_central(job) / dp);
    CHECK(host == 14 * parameters_central(job) / dp);
    // Every gradient goes to the host once and every parameter comes back once.
    double out = 0, back = 0;
    for_each_task(p, 0, [&](const Entry& e, const Body& body, const Task& task) {
      if (task.name == "to_host")
        for (const Operand& o : task.operands)
          out += o.access == Access::read ? bytes_of(p, body, o, context_of(p, 0, e)) : 0;
      if (task.name == "to_device" && body.name == "update")
        back += bytes_of(p, body, task.operands.at(0), context_of(p, 0, e));
    });
    CHECK(out == 2 * parameters_central(job) / dp);
    CHECK(back == 2 * parameters_central(job) / dp);
  }
}
