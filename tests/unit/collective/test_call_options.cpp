// Grouped calls, fp8, reductions that switches do not know, thread blocks, and switches that reduce (CollNet).

#include <cmath>
#include <numeric>

#include "core/base/error.hpp"
#include "core/collective/collective.hpp"
#include "core/collective/prepared_group.hpp"
#include "machines.hpp"
#include "tests/support/catch.hpp"

using namespace rehearse;
using nccl::Algorithm;
using nccl::Protocol;

namespace {

Cluster cluster_with(const std::string& machine, int nodes, bool sharp) {
  const auto m = machines::make(machine);
  NetworkSpec network;
  network.id = network.name = "switch";
  network.kind = "single_switch";
  network.collectives.sharp = sharp;
  return Cluster("c", {{m.spec, m.gpu, nodes}}, network);
}

std::vector<DeviceId> all_call_options(const Cluster& c) {
  std::vector<DeviceId> out(std::size_t(c.device_count()));
  std::iota(out.begin(), out.end(), 0);
  return out;
}

PreparedGroup prepared(const Cluster& c, int min_channels = 0) {
  return prepare(c, layout_of(c, all_call_options(c)), nccl::Filter{}, min_channels);
}

constexpr auto kCallOptionsAr = CollectiveOp::all_reduce;

}  // namespace

TEST_CASE(
    "Collectives of one group share the latency of a ring once per wave of channels, of other algorithms once per ten "
    "waves") {
  const Cluster c = machines::cluster("dgx_h100", 1);
  const auto g = prepared(c);
  const double channels = nccl::final_channels(g.shape);
  const nccl::TuningTable ring(g.shape, nccl::Filter::parse("Ring", "LL")),
      tree(g.shape, nccl::Filter::parse("Tree", "LL"));
  const auto latency = [](const nccl::TuningTable& t, int calls) {
    return t.pick(kCallOptionsAr, Bytes{65536}, {calls, false, true}).latency.value();
  };
  for (const int calls : {1, int(channels), int(channels) + 1, int(channels) * 12}) {
    const double waves = std::ceil(calls / channels);
    CHECK(latency(ring, calls) == Approx(latency(ring, 1) * waves));
    CHECK(latency(tree, calls) == Approx(latency(tree, 1) * std::ceil(waves / 10)));
  }
  // Ten calls in a group cost less than ten calls.
  const CollectiveModel model(c);
  const double one = model.choose(kCallOptionsAr, Bytes{1e5}, all_call_options(c)).time.value(),
               grouped = model.choose(kCallOptionsAr, Bytes{1e6}, all_call_options(c), {10, false, true}).time.value();
  CHECK(grouped < 10 * one);
  CHECK(grouped > one);
  CHECK_THROWS_AS(model.choose(kCallOptionsAr, Bytes{1}, all_call_options(c), {0, false, true}), Error);
}

TEST_CASE(
    "A gather of packed pieces off 16 bytes streams at the share of its bandwidth that is measured, whatever else does "
    "not") {
  const Cluster c = machines::cluster("dgx_a100", 2);
  const CollectiveModel model(c);
  const double share = c.gpu(0).collectives->bytewise, ranks = 16;
  CHECK(share < 0.5);
  const CallOptions packed{.packed = true};
  const auto streaming = [&](CollectiveOp op, double piece, const CallOptions& options) {
    const CollectiveChoice choice = model.choose(op, Bytes{ranks * piece}, all_call_options(c), options);
    return (choice.time - choice.latency).value();
  };
  constexpr auto kGather = CollectiveOp::all_gather;
  const double piece = 1e9;
  CHECK(streaming(kGather, piece + 2, packed) == Approx(streaming(kGather, piece + 2, {}) / share).epsilon(0.01));
  for (const double whole : {16.0, 160.0})
    CHECK(streaming(kGather, piece + whole, packed) == streaming(kGather, piece + whole, {}));
  for (const auto op : {kCallOptionsAr, CollectiveOp::reduce_scatter, CollectiveOp::broadcast})
    CHECK(streaming(op, piece + 2, packed) == streaming(op, piece + 2, {}));
  // LL moves 8 bytes with a flag whatever their place.
  const CollectiveModel small(c, {.algorithm = {}, .protocol = "LL"});
  CHECK(small.choose(kGather, Bytes{ranks * 1002}, all_call_options(c), packed).time ==
        small.choose(kGather, Bytes{ranks * 1002}, all_call_options(c)).time);
}

TEST_CASE("fp8 reductions avoid rings of more than eight ranks, and only those") {
  const nccl::CallKind fp8{1, true, true};
  const auto one = prepared(machines::cluster("dgx_a100", 1)), two = prepared(machines::cluster("dgx_a100", 2));
  CHECK(one.table.pick(kCallOptionsAr, Bytes{1e9}, fp8).algorithm == Algorithm::ring);
  CHECK(two.table.pick(kCallOptionsAr, Bytes{4e9}).algorithm == Algorithm::ring);
  CHECK(two.table.pick(kCallOptionsAr, Bytes{4e9}, fp8).algorithm == Algorithm::tree);
  CHECK(two.table.pick(CollectiveOp::all_gather, Bytes{1e9}, fp8).algorithm == Algorithm::ring);
  // Where nothing but a ring is left, its time is not multiplied: the penalty is NCCL's way of choosing.
  const auto scatter = two.table.pick(CollectiveOp::reduce_scatter, Bytes{1e9}, fp8);
  CHECK(scatter.time == two.table.pick(CollectiveOp::reduce_scatter, Bytes{1e9}).time);
}

TEST_CASE("Switches take no part in reductions that they do not know, but gather anything") {
  const auto g = prepared(machines::cluster("dgx_h100", 1));
  const nccl::CallKind product{1, false, false};
  CHECK(g.table.pick(kCallOptionsAr, Bytes{1e9}).algorithm == Algorithm::nvls);
  CHECK(g.table.pick(kCallOptionsAr, Bytes{1e9}, product).algorithm == Algorithm::ring);
  CHECK(g.table.pick(CollectiveOp::all_gather, Bytes{1e9}, product).algorithm ==
        g.table.pick(CollectiveOp::all_gather, Bytes{1e9}).algorithm);
}

TEST_CASE("NCCL_MIN_NCHANNELS adds thread blocks and what their LL128 carries, and changes no choice") {
  const Cluster c = machines::cluster("dgx_h100", 4);
  const auto plain = prepared(c), wide = prepared(c, 32);
  CHECK(nccl::final_channels(wide.shape) == 32);
  for (const double bytes : {1e3, 1e6, 1e9})
    CHECK(plain.table.pick(kCallOptionsAr, Bytes{bytes}).algorithm ==
          wide.table.pick(kCallOptionsAr, Bytes{bytes}).algorithm);
  const auto ll128 = [](const nccl::TuningTable& t) {
    return t.bandwidth(kCallOptionsAr, Algorithm::ring, Protocol::ll128, Bytes{1e9}).value();
  };
  CHECK(ll128(wide.table) == ll128(plain.table));
  CHECK(ll128(wide.achieved) > ll128(plain.achieved));
  // 92 % of eight NICs' channels of 48 GB/s, as algorithm bandwidth.
  CHECK(ll128(wide.achieved) == Approx(0.92 * 8 * 48e9 * 32 / 62));
}

TEST_CASE("Ranks wait for each other at every collective, at no hop of a ring and no message between stages") {
  const Cluster c = machines::cluster("dgx_h100", 1);
  CollectiveModel::Options options;
  options.skew = Seconds{1e-4};
  const CollectiveModel plain(c), late(c, options);
  const auto added = [&](CollectiveOp op) {
    return (late.choose(op, Bytes{1e7}, all_call_options(c)).time -
            plain.choose(op, Bytes{1e7}, all_call_options(c)).time)
        .value();
  };
  CHECK(added(CollectiveOp::all_gather) == Approx(1e-4));
  CHECK(added(CollectiveOp::all_to_all) == Approx(1e-4));
  CHECK(added(CollectiveOp::halo_exchange) == Approx(1e-4));
  CHECK(added(CollectiveOp::send_recv) == 0);
  CHECK(late.send(Bytes{1e7}, 0, 1).time == plain.send(Bytes{1e7}, 0, 1).time);
}

TEST_CASE("CollNet takes part only where the network reduces and the group leaves its node") {
  const auto algorithm = [](const Cluster& c, double bytes) {
    return prepared(c).table.pick(kCallOptionsAr, Bytes{bytes}).algorithm;
  };
  CHECK(prepared(cluster_with("dgx_a100", 1, true)).shape.search.collnet_chain.channels == 0);
  CHECK(prepared(cluster_with("dgx_a100", 4, false)).shape.search.collnet_chain.channels == 0);
  const Cluster with = cluster_with("dgx_a100", 16, true), without = cluster_with("dgx_a100", 16, false);
  const auto chosen = algorithm(with, 1e9);
  CHECK((chosen == Algorithm::collnet_chain || chosen == Algorithm::collnet_direct));
  CHECK(algorithm(without, 1e9) == Algorithm::ring);
}

TEST_CASE("CollNet's cells are NCCL's formulas") {
  const Cluster c = cluster_with("dgx_a100", 16, true);
  const auto g = prepared(c);
  const auto& chain = g.shape.search.collnet_chain;
  const auto& direct = g.shape.search.collnet_direct;
  // Chain: up and down the seven hops of a node and once through the network; half of the channels' rate.
  const auto& a = g.table.at(kCallOptionsAr, Algorithm::collnet_chain, Protocol::simple);
  CHECK(a.latency.value() * 1e6 == Approx(2 * 7 * 2.8 + 30));
  CHECK(a.bandwidth.value() == Approx(chain.channels * chain.intra.value() / 2));
  // Direct: eight heads for eight GPUs, so nothing is lost to sharing heads.
  const auto& b = g.table.at(kCallOptionsAr, Algorithm::collnet_direct, Protocol::simple);
  CHECK(b.latency.value() * 1e6 == Approx(2 * (3.7 + 7 * 0.4) + 31));
  CHECK(b.bandwidth.value() == Approx(direct.channels * direct.intra.value() / 2));
  const auto& gather = g.table.at(CollectiveOp::all_gather, Algorithm::collnet_direct, Protocol::simple);
  CHECK(gather.bandwidth.value() == Approx(8 * std::min(direct.intra.value(), 0.9 * direct.inter.value())));
  CHECK(g.table.at(CollectiveOp::broadcast, Algorithm::collnet_chain, Protocol::simple).bandwidth.value() == 0);
}

TEST_CASE(
    "An all-reduce in the network leaves each node once: half of what rings send, and never faster than the NICs") {
  const Cluster with = cluster_with("dgx_a100", 16, true);
  const double bytes = 1e9;
  const auto out_of_node = [&](const char* algorithm) {
    const CollectiveModel model(with, {algorithm, "", true, 0, {}});
    double out = 0;
    for (const auto& e : model.plan(kCallOptionsAr, Bytes{bytes}, all_call_options(with)).edges)
      if (with.node_of(e.src) == 3 && with.node_of(e.dst) != 3) out += e.bytes.value();
    return out;
  };
  CHECK(out_of_node("CollNetChain") == Approx(bytes));
  CHECK(out_of_node("CollNetDirect") == Approx(bytes));
  CHECK(out_of_node("Ring") == Approx(2.0 * 127 / 128 * bytes));
  const auto choice = CollectiveModel(with, {"CollNetDirect", "", true, 0, {}})
                          .choose(kCallOptionsAr, Bytes{bytes}, all_call_options(with));
  CHECK(bytes / choice.time.value() <= 8 * 25e9);
}

TEST_CASE("With switches that reduce, NVLS may span nodes") {
  const auto g = prepared(cluster_with("dgx_h100", 4, true));
  CHECK(g.table.at(kCallOptionsAr, Algorithm::nvls, Protocol::simple).latency.value() * 1e6 == Approx(25 + 18));
  CHECK(prepared(cluster_with("dgx_h100", 4, false))
            .table.at(kCallOptionsAr, Algorithm::nvls, Protocol::simple)
            .bandwidth.value() == 0);
}

TEST_CASE("PAT serves gathers of one GPU per node and nothing else") {
  const Cluster c = machines::cluster("dgx_h100", 8);
  std::vector<DeviceId> one_each, two_each;
  for (NodeId n = 0; n < 8; ++n) {
    one_each.push_back(c.first_device(n));
    two_each.insert(two_each.end(), {c.first_device(n), c.first_device(n) + 1});
  }
  const auto pat = [&](const std::vector<DeviceId>& group, CollectiveOp op) {
    return prepare(c, layout_of(c, group), nccl::Filter{})
               .table.at(op, Algorithm::pat, Protocol::simple)
               .bandwidth.value() > 0;
  };
  CHECK(pat(one_each, CollectiveOp::all_gather));
  CHECK(pat(one_each, CollectiveOp::reduce_scatter));
  CHECK_FALSE(pat(one_each, kCallOptionsAr));
  CHECK_FALSE(pat(two_each, CollectiveOp::all_gather));
}
