// What a data-parallel group puts on the wire, counted on the links that leave each GPU after a step was played.

#include <cmath>

#include <fmt/format.h>

#include "core/base/index.hpp"
#include "core/config/settings/choices.hpp"
#include "core/config/settings/training.hpp"
#include "core/program/body.hpp"
#include "core/strategy/operators/expert_plan.hpp"
#include "core/strategy/workload.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/testbed.hpp"
#include "tests/unit/program/lowered.hpp"

using namespace rehearse;
using namespace rehearse::test;
using namespace rehearse::testing;

namespace {

/// 25 million parameters, their gradients in one bucket.
Job job_of(int dp, int tp) {
  Job job(changed("tiny_gpt2", {{"n_embd", 1024}, {"n_inner", 4096}, {"n_head", 16}}), 128);
  job.strategy.dp = job.strategy.dp_replicate = dp;
  job.strategy.tp = tp;
  job.strategy.bucket = Bytes{1e12};
  return job;
}

/// Bytes over all links from a GPU of the node to something else, by device.
std::vector<double> sent(const Cluster& cluster, const std::vector<double>& link_bytes) {
  std::vector<double> out(static_cast<std::size_t>(cluster.device_count()));
  for (std::size_t l = 0; l < link_bytes.size(); ++l) {
    if (link_bytes[l] == 0) continue;
    const std::string name = cluster.link(static_cast<LinkId>(l)).name;
    for (DeviceId d = 0; d < cluster.device_count(); ++d)
      if (name.starts_with(fmt::format("node{}/GPU{}>", cluster.node_of(d), cluster.local_index(d))))
        nth(out, d) += link_bytes[l];
  }
  return out;
}

std::vector<double> played(const Testbed& bed, const Program& p) {
  return sent(bed.cluster, bed.analytic(p).link_bytes);
}

/// Bytes of the data-parallel calls of a rank. Calls under 64 KB are latency and nothing else: the player has no flows
/// for them.
double reduced(const Program& p, int rank, CollectiveOp op) {
  double bytes = 0;
  for_each_task(p, rank, [&](const Entry& e, const Body& body, const Task& task) {
    const auto* c = std::get_if<CollectiveTask>(&task.kind);
    if (c == nullptr || c->op != op || nth(p.groups, c->group).name != "dp") return;
    const double size = collective_bytes(p, body, task, context_of(p, rank, e));
    if (size >= 65536) bytes += size;
  });
  return bytes;
}

}  // namespace

TEST_CASE("a ring all-reduce moves 2(n-1)/n of the gradients out of every rank") {
  for (const int nodes : {2, 4, 5}) {
    const Testbed bed(nodes, "selene", only("Ring"));
    const Program p = job_of(nodes, 8).lower();
    const double gradients = persistent_bytes(p, 0, MemoryCategory::gradients);
    CHECK(reduced(p, 0, CollectiveOp::all_reduce) == gradients);
    for (const double bytes : played(bed, p))
      CHECK(bytes == Approx(2.0 * (nodes - 1) / nodes * gradients).epsilon(1e-12));
  }
}

TEST_CASE("a ring over every GPU of several nodes moves the same out of each, whichever wires it takes") {
  const Testbed bed(2, "single_switch", only("Ring"));
  const Program p = job_of(16, 1).lower();
  const double gradients = persistent_bytes(p, 0, MemoryCategory::gradients);
  for (const double bytes : played(bed, p)) CHECK(bytes == Approx(2.0 * 15 / 16 * gradients).epsilon(1e-12));
}

TEST_CASE("ZeRO-1 moves in reduce-scatter and all-gather what the all-reduce moved") {
  constexpr int kNodes = 4;
  const Testbed bed(kNodes, "selene", only("Ring"));
  Job job = job_of(kNodes, 8);
  job.strategy.zero_stage = 1;
  job.workload.training.gradient_dtype = GradientDtype::model;
  const Program p = job.lower();
  const double scattered = reduced(p, 0, CollectiveOp::reduce_scatter),
               gathered = reduced(p, 0, CollectiveOp::all_gather);
  CHECK(scattered == persistent_bytes(p, 0, MemoryCategory::gradients));
  CHECK(gathered == Approx(scattered).epsilon(2e-3));  // The head's norm is gathered in a call of 4 KB.
  for (const double bytes : played(bed, p))
    CHECK(bytes == Approx((kNodes - 1.0) / kNodes * (scattered + gathered)).epsilon(1e-12));
}

TEST_CASE("experts: out of every rank go (ep-1)/ep of k b s h, four times a layer, and nothing else of the rows") {
  const Testbed bed(2, "single_switch", only("Ring"));  // Without rails no GPU hands on what another sends.
  Job job(changed("tiny_mixtral", {{"hidden_size", 1024},
                                   {"num_attention_heads", 16},
                                   {"num_key_value_heads", 16},
                                   {"num_local_experts", 16},
                                   {"max_position_embeddings", 1024}}),
          1024);
  job.strategy.dp = job.strategy.dp_replicate = job.strategy.ep = 16;
  job.strategy.bucket = Bytes{1e12};
  const Program p = job.lower();
  constexpr double k = 2, layers = 4, microbatches = 4, tokens = 1024, row = 2 * 1024;
  // Two ways carry the weight of a row.
  const double rows = layers * microbatches * k * tokens * (4 * row + 2 * 4.0);
  for (const double bytes : played(bed, p))
    CHECK(bytes == Approx(15.0 / 16 * (rows + 2 * reduced(p, 0, CollectiveOp::all_reduce))).epsilon(1e-12));
}

TEST_CASE("experts: hierarchical dispatch puts on the network the copies for other nodes, and no rows") {
  const Testbed bed(4, "selene", only("Ring"));
  Job job(changed("tiny_mixtral", {{"hidden_size", 1024},
                                   {"num_attention_heads", 16},
                                   {"num_key_value_heads", 16},
                                   {"num_local_experts", 32},
                                   {"num_experts_per_tok", 8},
                                   {"max_position_embeddings", 1024}}),
          1024);
  job.strategy.dp = job.strategy.dp_replicate = job.strategy.ep = 32;
  job.strategy.bucket = Bytes{1e12};
  const auto network_bytes = [&](const Program& p) {
    const std::vector<double> bytes = bed.analytic(p).link_bytes;
    double out = 0;
    for (std::size_t l = 0; l < bytes.size(); ++l) {
      const std::string name = bed.cluster.link(static_cast<LinkId>(l)).name;
      if (name.find("NIC") != std::string::npos && name.find('>') != std::string::npos &&
          name.find("NIC") < name.find('>') && name.find("GPU") == std::string::npos &&
          name.find("PLX") == std::string::npos && name.find("CPU") == std::string::npos)
        out += bytes[l];
    }
    return out;
  };
  const double flat = network_bytes(job.lower());
  job.strategy.dispatch = Dispatch::hierarchical;
  job.strategy.dispatch_node = 8;
  const Program p = job.lower();
  const double saved = flat - network_bytes(p);
  const double copies = std::round(1024 * nodes_visited({.experts = 32, .top_k = 8}, 4));
  CHECK(saved == Approx(32 * 4 * 4 * 4 * (8 * 1024 - copies) * 3 / 4 * 2048).epsilon(1e-9));
}
