// Collectives on a torus of chips: time by the bucket algorithm's formulas, links filled evenly, no NCCL.

#include "core/base/index.hpp"
#include "core/cluster/make_cluster.hpp"
#include "core/collective/collective.hpp"
#include "core/collective/torus_rings.hpp"
#include "core/hardware/catalogue.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/source_path.hpp"

using namespace rehearse;

namespace {

const Catalogue& catalogue_torus() {
  static const Catalogue made(rehearse::testing::source_path("topologies"));
  return made;
}

const Cluster& tpus(const std::string& name) {
  static std::map<std::string, Cluster> made;
  auto at = made.find(name);
  if (at == made.end()) at = made.emplace(name, make_cluster(catalogue_torus(), name)).first;
  return at->second;
}

std::vector<DeviceId> all_torus(const Cluster& c) {
  std::vector<DeviceId> out(static_cast<std::size_t>(c.device_count()));
  for (int d = 0; d < c.device_count(); ++d) nth(out, d) = d;
  return out;
}

const Bytes kBuffer{256e6};

/// Streaming part of the price.
double streaming(const CollectiveChoice& c) { return (c.time - c.latency).value(); }

}  // namespace

TEST_CASE("an all-reduce fills every link of a closed torus: 2 S (N-1)/N over all links of a chip") {
  for (const auto& [name, chips, links, rate] :
       {std::tuple{"tpu_v3_256", 256, 4, 83e9}, {"tpu_v3_1024", 1024, 4, 83e9}, {"tpu_v4_64", 64, 6, 268e9 / 6}}) {
    const Cluster& c = tpus(name);
    const CollectiveChoice choice = CollectiveModel(c).choose(CollectiveOp::all_reduce, kBuffer, all_torus(c));
    CHECK(choice.algorithm == "Torus");
    CHECK(choice.channels == 0);  // Chips reduce beside their compute units.
    const double n = chips;
    CHECK(streaming(choice) == Approx(2 * kBuffer.value() * (n - 1) / n / (links * rate)).epsilon(1e-6));
  }
}

TEST_CASE("gathers and scatters are half an all-reduce, and latency counts hops along each side") {
  const Cluster& c = tpus("tpu_v3_256");
  const CollectiveModel model(c);
  const auto reduce = model.choose(CollectiveOp::all_reduce, kBuffer, all_torus(c));
  for (const CollectiveOp half : {CollectiveOp::all_gather, CollectiveOp::reduce_scatter})
    CHECK(model.choose(half, kBuffer, all_torus(c)).time.value() == Approx(reduce.time.value() / 2));
  CHECK(reduce.latency.value() == Approx(2 * (15 + 15) * c.route(0, 1).latency.value()));
}

TEST_CASE("a row uses its own two rings, a part of a row one") {
  const Cluster& c = tpus("tpu_v3_256");
  const CollectiveModel model(c);
  std::vector<DeviceId> row, half;
  for (int x = 0; x < 16; ++x) row.push_back(x);
  for (int x = 0; x < 8; ++x) half.push_back(x);
  const double s = kBuffer.value();
  CHECK(streaming(model.choose(CollectiveOp::all_reduce, kBuffer, row)) ==
        Approx(2 * s * 15 / 16 / (2 * 83e9)).epsilon(1e-6));
  CHECK(streaming(model.choose(CollectiveOp::all_reduce, kBuffer, half)) == Approx(2 * s * 7 / 8 / 83e9).epsilon(1e-6));
}

TEST_CASE("no link of the torus carries more than its rate in the time of the call, and the busiest is full") {
  for (const char* name : {"tpu_v3_256", "tpu_v4_64"}) {
    const Cluster& c = tpus(name);
    const CollectiveModel model(c);
    const FluidPlan plan = model.plan(CollectiveOp::all_reduce, kBuffer, all_torus(c));
    const double time = streaming(model.choose(CollectiveOp::all_reduce, kBuffer, all_torus(c)));
    std::map<LinkId, double> load;
    for (const FluidEdge& e : plan.edges)
      for (const LinkId link : c.route(e.src, e.dst).links) load[link] += e.bytes.value();
    double most = 0;
    for (const auto& [link, bytes] : load) most = std::max(most, bytes / time / c.link_rate(link).value());
    CHECK(most == Approx(1).epsilon(1e-5));
    // What a chip sends is what every reduce-scatter and gather must: 2 S (N-1)/N.
    double sent = 0;
    for (const FluidEdge& e : plan.edges) sent += e.src == 0 ? e.bytes.value() : 0;
    CHECK(sent == Approx(2 * kBuffer.value() * (1 - 1.0 / c.device_count())));
  }
}

TEST_CASE("groups that fill no box, and messages, are not the torus's") {
  const Cluster& c = tpus("tpu_v3_256");
  const std::vector<DeviceId> corner{0, 1, 16};
  CHECK_FALSE(torus_box(c, corner).has_value());
  CHECK(CollectiveModel(c).choose(CollectiveOp::all_reduce, kBuffer, corner).algorithm != "Torus");
  CHECK(CollectiveModel(c).choose(CollectiveOp::all_to_all, kBuffer, all_torus(c)).algorithm == "P2P");
  // A torus of servers with GPUs runs NCCL.
  ClusterSpec spec;
  spec.parts = {{"dgx_a100_80gb", 64}};
  spec.network = "torus_8x8";
  const Cluster servers = make_cluster(catalogue_torus(), spec);
  CHECK_FALSE(torus_box(servers, all_torus(servers)).has_value());
}
