#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>

#include "core/base/error.hpp"
#include "core/collective/collective.hpp"
#include "machines.hpp"
#include "tests/support/catch.hpp"

using namespace rehearse;

namespace {

std::vector<DeviceId> first(const Cluster& c, int nodes, int per_node, int stride = 1) {
  std::vector<DeviceId> out;
  for (int n = 0; n < nodes; ++n)
    for (int g = 0; g < per_node; ++g) out.push_back(c.first_device(n) + g * stride);
  return out;
}

double total(const FluidPlan& p) {
  return std::accumulate(p.edges.begin(), p.edges.end(), 0.0,
                         [](double s, const FluidEdge& e) { return s + e.bytes.value(); });
}

constexpr CollectiveOp kOps[]{CollectiveOp::all_reduce, CollectiveOp::all_gather, CollectiveOp::reduce_scatter,
                              CollectiveOp::broadcast,  CollectiveOp::reduce,     CollectiveOp::all_to_all,
                              CollectiveOp::send_recv};

/// What a plan must obey on any machine.
void check_plan(const Cluster& c, const CollectiveModel& model, CollectiveOp op, Bytes bytes,
                const std::vector<DeviceId>& group) {
  const auto choice = model.choose(op, bytes, group);
  const auto plan = model.plan(op, bytes, group);
  INFO(c.name() << " " << name_of(op) << " " << bytes.value() << " B, " << group.size()
                << " ranks: " << choice.algorithm << " " << choice.protocol);
  CHECK(choice.time.value() == Approx((choice.latency + bytes / choice.bandwidth).value()));
  CHECK(choice.channels > 0);
  Bytes busiest;
  for (const auto& e : plan.edges) busiest = max(busiest, e.bytes);
  REQUIRE(busiest.value() > 0);
  CHECK((plan.latency + busiest / plan.rate_cap).value() == Approx(choice.time.value()));
  std::map<LinkId, double> load;
  for (const auto& e : plan.edges) {
    CHECK(e.src != e.dst);
    const double rate = e.bytes / busiest * plan.rate_cap.value();
    for (const LinkId l : c.route(e.src, e.dst).links) {
      CHECK(rate <= c.link_rate(l).value() * (1 + 1e-9));
      load[l] += rate;
    }
  }
  for (const auto& [link, rate] : load) {
    INFO(c.link(link).name << " carries " << rate / 1e9 << " of " << c.link_rate(link).value() / 1e9 << " GB/s");
    CHECK(rate <= c.link_rate(link).value() * (1 + 1e-9));
  }
}

}  // namespace

TEST_CASE("A plan alone takes exactly the chosen time and never beats a wire") {
  struct Shape {
    const char* machine;
    int nodes, per_node, stride;
  };
  for (const auto& s : std::vector<Shape>{{"dgx_a100", 1, 8, 1},
                                          {"dgx_a100", 1, 2, 1},
                                          {"dgx_a100", 2, 8, 1},
                                          {"dgx_a100", 3, 1, 1},
                                          {"dgx_a100", 4, 2, 4},
                                          {"dgx_a100", 5, 4, 2},
                                          {"dgx_h100", 1, 8, 1},
                                          {"dgx_h100", 1, 5, 1},
                                          {"dgx_h100", 2, 8, 1},
                                          {"dgx_h100", 7, 8, 1},
                                          {"dgx_h100", 6, 1, 1},
                                          {"dgx_b200", 1, 8, 1},
                                          {"dgx_b200", 4, 8, 1},
                                          {"dgx1v", 1, 8, 1},
                                          {"dgx1v", 1, 4, 1},
                                          {"dgx1v", 2, 8, 1},
                                          {"dgx1v", 3, 1, 1},
                                          {"p4d", 2, 8, 1},
                                          {"p4d", 3, 4, 1}}) {
    const auto cluster = machines::cluster(s.machine, s.nodes);
    const auto group = first(cluster, s.nodes, s.per_node, s.stride);
    for (const bool measured : {true, false}) {
      const CollectiveModel model(cluster, {"", "", measured});
      for (const auto op : kOps)
        for (const double bytes : {8.0, 65536.0, 1048576.0, 33554432.0, 1073741824.0})
          check_plan(cluster, model, op, Bytes{bytes}, group);
    }
  }
}

TEST_CASE("Algorithms move the bytes they are known to move") {
  const auto cluster = machines::cluster("dgx_h100", 5);
  const double s = 1e9;
  for (const int nodes : {1, 2, 3, 5}) {
    const auto group = first(cluster, nodes, 8);
    const double n = double(group.size());
    const CollectiveModel ring(cluster, {"Ring", "", true});
    CHECK(total(ring.plan(CollectiveOp::all_reduce, Bytes{s}, group)) == Approx(2 * (n - 1) * s));
    CHECK(total(ring.plan(CollectiveOp::all_gather, Bytes{s}, group)) == Approx((n - 1) * s));
    CHECK(total(ring.plan(CollectiveOp::reduce_scatter, Bytes{s}, group)) == Approx((n - 1) * s));
    CHECK(total(ring.plan(CollectiveOp::broadcast, Bytes{s}, group)) == Approx((n - 1) * s));
    CHECK(total(ring.plan(CollectiveOp::all_to_all, Bytes{s}, group)) == Approx((n - 1) * s));
    const CollectiveModel tree(cluster, {"Tree", "", true});
    CHECK(total(tree.plan(CollectiveOp::all_reduce, Bytes{s}, group)) == Approx(2 * (n - 1) * s));
  }
}

TEST_CASE("Every rank of a ring all-reduce sends and receives 2(n-1)/n of the buffer") {
  const auto cluster = machines::cluster("dgx_a100", 3);
  const auto group = first(cluster, 3, 8);
  const auto plan = CollectiveModel(cluster, {"Ring", "", true}).plan(CollectiveOp::all_reduce, Bytes{24e6}, group);
  std::map<DeviceId, double> out, in;
  std::map<NodeId, double> leaves;
  for (const auto& e : plan.edges) {
    out[e.src] += e.bytes.value();
    in[e.dst] += e.bytes.value();
    if (cluster.node_of(e.src) != cluster.node_of(e.dst)) leaves[cluster.node_of(e.src)] += e.bytes.value();
  }
  CHECK(out.size() == 24);
  for (const auto& [d, b] : out) CHECK(b == Approx(2.0 * 23 / 24 * 24e6));
  for (const auto& [d, b] : in) CHECK(b == Approx(2.0 * 23 / 24 * 24e6));
  for (const auto& [n, b] : leaves) CHECK(b == Approx(2.0 * 23 / 24 * 24e6));  // a ring crosses each node once
}

TEST_CASE("Rings leave a node through all its NICs alike") {
  const auto cluster = machines::cluster("dgx_h100", 4);
  const auto plan =
      CollectiveModel(cluster, {"Ring", "", true}).plan(CollectiveOp::all_reduce, Bytes{1e9}, first(cluster, 4, 8));
  std::map<int, double> by_nic;
  for (const auto& e : plan.edges)
    if (cluster.node_of(e.src) == 0 && cluster.node_of(e.dst) != 0) by_nic[cluster.nic_of(e.src)] += e.bytes.value();
  CHECK(by_nic.size() == 8);
  for (const auto& [nic, bytes] : by_nic) CHECK(bytes == Approx(by_nic.begin()->second));
}

TEST_CASE("Groups that are alike cost the same, and machines that tell their GPUs apart have unlike ones") {
  const auto likenesses = [](const Cluster& c, int per_node) {
    const CollectiveModel model(c);
    std::map<int, std::vector<DeviceId>> firsts;
    for (int start = 0; start + per_node <= 8; start += per_node) {
      std::vector<DeviceId> group;
      for (int n = 0; n < c.node_count(); ++n)
        for (int g = 0; g < per_node; ++g) group.push_back(c.first_device(n) + start + g);
      const auto& like = firsts.try_emplace(model.likeness(group), group).first->second;
      for (const CollectiveOp op : kOps)
        for (const double bytes : {1e3, 1e6, 1e9})
          CHECK(model.choose(op, Bytes{bytes}, group).time == model.choose(op, Bytes{bytes}, like).time);
    }
    return firsts.size();
  };
  CHECK(likenesses(machines::cluster("dgx_h100", 2), 1) == 1);
  CHECK(likenesses(machines::cluster("dgx_h100", 2), 4) == 1);
  CHECK(likenesses(machines::cluster("dgx1v", 1), 4) == 2);  // Priced link by link.
  const auto two = machines::cluster("dgx_h100", 2);
  const CollectiveModel model(two);
  CHECK(model.likeness(first(two, 2, 4)) != model.likeness(first(two, 2, 2)));
  CHECK(model.likeness(first(two, 1, 4)) != model.likeness(first(two, 2, 2)));
}

TEST_CASE("Large groups stay cheap: no edge per pair of ranks") {
  const auto cluster = machines::cluster("dgx_h100", 64);
  const auto group = first(cluster, 64, 8);
  const CollectiveModel model(cluster);
  const auto plan = model.plan(CollectiveOp::all_to_all, Bytes{1e9}, group);
  CHECK(total(plan) == Approx(511 * 1e9));
  CHECK(plan.edges.size() <= 512 * (7 + 8));
  CHECK(model.plan(CollectiveOp::all_reduce, Bytes{1e9}, group).edges.size() <= 512 * 8);
}

TEST_CASE("More bytes take longer; more nodes are not faster") {
  const auto cluster = machines::cluster("dgx_h100", 16);
  const CollectiveModel model(cluster);
  for (const auto op : kOps)
    for (const int nodes : {1, 4}) {
      const auto group = first(cluster, nodes, 8);
      Seconds before;
      for (double bytes = 1e6; bytes < 4e9; bytes *= 4) {
        const auto t = model.choose(op, Bytes{bytes}, group).time;
        CHECK(t > before);
        before = t;
      }
    }
  Seconds before;
  for (const int nodes : {1, 2, 4, 8, 16}) {
    const auto t = model.choose(CollectiveOp::all_reduce, Bytes{1e9}, first(cluster, nodes, 8)).time;
    CHECK(t > before);
    before = t;
  }
}

TEST_CASE("A message takes its latency and then the wire") {
  const auto cluster = machines::cluster("dgx_a100", 2);
  const CollectiveModel model(cluster);
  const auto near = model.send(Bytes{1e9}, 0, 1), far = model.send(Bytes{1e9}, 0, 8);
  CHECK(near.bandwidth.value() == Approx(240e9));
  CHECK(far.bandwidth.value() == Approx(25e9 * 0.968));
  CHECK(far.latency > near.latency);
  CHECK(model.send(Bytes{1e9}, 3, 3).time.value() == 0);
}

TEST_CASE("Groups of one and empty calls cost nothing, bad calls are refused") {
  const auto cluster = machines::cluster("dgx_a100", 1);
  const CollectiveModel model(cluster);
  const std::vector<DeviceId> one{3}, twice{1, 1}, two{0, 1};
  CHECK(model.choose(CollectiveOp::all_reduce, Bytes{1e9}, one).algorithm == "none");
  CHECK(model.choose(CollectiveOp::all_reduce, Bytes{1e9}, one).time.value() == 0);
  CHECK(model.plan(CollectiveOp::all_reduce, Bytes{1e9}, one).edges.empty());
  CHECK(model.choose(CollectiveOp::all_reduce, Bytes{0}, two).time.value() == 0);
  CHECK_THROWS_AS(model.choose(CollectiveOp::all_reduce, Bytes{1}, twice), Error);
  CHECK_THROWS_AS(model.choose(CollectiveOp::all_reduce, Bytes{1}, {}), Error);
  CHECK_THROWS_AS(model.choose(CollectiveOp::all_reduce, Bytes{-1}, two), Error);
  CHECK_THROWS_AS(CollectiveModel(cluster, {"Rings", "", true}), Error);
}

TEST_CASE("The order of ranks does not change the price") {
  const auto cluster = machines::cluster("dgx_a100", 2);
  const CollectiveModel model(cluster);
  auto group = first(cluster, 2, 8);
  const auto t = model.choose(CollectiveOp::all_reduce, Bytes{1e8}, group).time;
  std::reverse(group.begin(), group.end());
  CHECK(model.choose(CollectiveOp::all_reduce, Bytes{1e8}, group).time == t);
}
