// Facts that hold for every registered algorithm that is not NCCL's.

#include "core/cluster/make_cluster.hpp"
#include "core/collective/algorithm.hpp"
#include "core/collective/nccl/nccl_tuning.hpp"
#include "core/collective/traffic.hpp"
#include "core/hardware/catalogue.hpp"
#include "machines.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/source_path.hpp"

using namespace rehearse;

namespace {

/// A node, two nodes, and chips on a torus.
const std::vector<Cluster>& algorithm_sites() {
  static const std::vector<Cluster> sites = [] {
    const Catalogue catalogue(rehearse::testing::source_path("topologies"));
    std::vector<Cluster> out;
    out.push_back(machines::cluster("dgx_h100", 1));
    out.push_back(machines::cluster("dgx_a100", 2));
    out.push_back(make_cluster(catalogue, "tpu_v4_64"));
    return out;
  }();
  return sites;
}

/// Bytes that each rank must receive at least, whatever the algorithm.
double least_received(CollectiveOp op, double bytes, double ranks) {
  switch (op) {
    case CollectiveOp::all_gather:
    case CollectiveOp::reduce_scatter: return bytes * (ranks - 1) / ranks;
    default: return 0;
  }
}

/// Whether it runs the call, which it is then held to.
bool check_call(const std::string& name, const CollectiveAlgorithm& own, const Cluster& cluster, CollectiveOp op) {
  std::vector<DeviceId> group;
  for (DeviceId d = 0; d < cluster.device_count(); ++d) group.push_back(d);
  if (!own.runs(cluster, op, group)) return false;
  INFO(name << " " << name_of(op) << " on " << cluster.name());
  const Bytes bytes{64e6};
  CollectiveModel::Options options;
  options.algorithm = name;
  const CollectiveModel model(cluster, options);
  const CollectiveChoice choice = model.choose(op, bytes, group);
  CHECK(choice.algorithm == name);
  CHECK(choice.time >= choice.latency);
  CHECK(choice.time >= traffic::node_time(cluster, own.edges(cluster, op, bytes, group)) * (1 - 1e-9));
  const FluidPlan plan = model.plan(op, bytes, group);
  std::map<DeviceId, double> received;
  for (const FluidEdge& e : plan.edges) received[e.dst] += e.bytes.value();
  for (const DeviceId d : group)
    CHECK(received[d] >= least_received(op, bytes.value(), static_cast<double>(group.size())) * (1 - 1e-9));
  CHECK_FALSE(own.sources(cluster).empty());
  return true;
}

}  // namespace

TEST_CASE("an algorithm moves what every rank must get, no faster than the wires") {
  for (const auto& entry : collective_algorithms().entries()) {
    CHECK_FALSE(entry.summary.empty());
    if (entry.value == nullptr) continue;
    int checked = 0;
    for (const CollectiveOp op : {CollectiveOp::all_reduce, CollectiveOp::all_gather, CollectiveOp::reduce_scatter})
      for (const Cluster& cluster : algorithm_sites()) checked += check_call(entry.name, *entry.value, cluster, op);
    CHECK(checked > 0);
  }
}

TEST_CASE("NCCL's algorithms are named as its own filter takes them") {
  for (const auto& entry : collective_algorithms().entries())
    if (entry.value == nullptr) CHECK_NOTHROW(nccl::Filter::parse(entry.name, ""));
}
