// Messages and all-to-alls: channels, rounds, wires.

#include <cmath>
#include <numeric>

#include "core/collective/point_to_point.hpp"
#include "machines.hpp"
#include "tests/support/catch.hpp"

using namespace rehearse;

namespace {

PreparedGroup first(const Cluster& c, int ranks) {
  std::vector<DeviceId> group(static_cast<std::size_t>(ranks));
  std::iota(group.begin(), group.end(), 0);
  return prepare(c, layout_of(c, group), nccl::Filter{});
}

}  // namespace

TEST_CASE("Messages spread over two channels per NVLink to the peer, over two to another node, at most all") {
  const auto h100 = machines::cluster("dgx_h100", 64);
  const P2pChannels inside = p2p_channels(first(h100, 8)), two = p2p_channels(first(h100, 16)),
                    many = p2p_channels(first(h100, 512));
  CHECK(inside.total == 32);     // 24, rounded up to a power of two
  CHECK(inside.per_peer == 32);  // 36 would fit 18 NVLinks
  CHECK(two.per_peer == 2);
  CHECK(two.at_once() == 64);
  CHECK(many.per_peer == 1);  // 2 x 512 > 4 x 16
  const auto v100 = machines::cluster("dgx1v", 1);
  CHECK(p2p_channels(first(v100, 8)).per_peer == 2);  // some pair has no NVLink
}

TEST_CASE("An all-to-all pays one latency per round of messages under way at once") {
  const auto c = machines::cluster("dgx_h100", 64);
  for (const int ranks : {16, 64, 512}) {
    const auto g = first(c, ranks);
    const auto choice = point_to_point(g, CollectiveOp::all_to_all, Bytes{1e6}, Seconds{});
    CHECK(choice.latency.value() ==
          Approx(g.measured.network.message->value() * std::ceil(double(ranks - 1) / p2p_channels(g).at_once())));
  }
}

TEST_CASE("An all-to-all across nodes is as fast as the NICs, inside a node as NVLink") {
  const auto c = machines::cluster("dgx_h100", 4);
  const double bytes = 1e9;
  const auto across = point_to_point(first(c, 32), CollectiveOp::all_to_all, Bytes{bytes}, Seconds{});
  // Eight ranks send three quarters of their bytes through eight NICs of 50 GB/s.
  const auto g = first(c, 32);
  CHECK((across.time - across.latency).value() ==
        Approx(8 * 0.75 * bytes / (8 * 50e9 * *g.measured.network.all_to_all_share)));
  const auto inside = point_to_point(first(c, 8), CollectiveOp::all_to_all, Bytes{bytes}, Seconds{});
  CHECK(inside.bandwidth.value() > 8.0 / 7 * 300e9);
  CHECK((inside.time - inside.latency).value() >= 7.0 / 8 * bytes / 450e9);
}

TEST_CASE("Sends and receives reach a share of the links inside a node, a dispatcher's own kernels all of it") {
  const auto c = machines::cluster("dgx_b200", 2);
  const auto streaming = [&](int ranks, bool direct) {
    const auto choice = point_to_point(first(c, ranks), CollectiveOp::all_to_all, Bytes{1e9}, Seconds{}, direct);
    return choice.time - choice.latency;
  };
  const double share = first(c, 8).measured.gpu.all_to_all_share;
  CHECK(share < 1);
  CHECK(streaming(8, true) / streaming(8, false) == Approx(share));
  // Across nodes the network has a share of its own.
  CHECK(streaming(16, true).value() == streaming(16, false).value());
  // nccl-tests on eight B200 (SimuMax): 577 GB/s of bus bandwidth.
  CHECK(7.0 / 8 * 1e9 / streaming(8, false).value() == Approx(577e9).epsilon(0.02));
}

TEST_CASE("Small messages inside a node go by LL, all others by Simple") {
  const auto c = machines::cluster("dgx_h100", 2);
  CHECK(point_to_point(first(c, 2), CollectiveOp::send_recv, Bytes{16384}, Seconds{}).protocol == "LL");
  CHECK(point_to_point(first(c, 2), CollectiveOp::send_recv, Bytes{1e8}, Seconds{}).protocol == "Simple");
  CHECK(point_to_point(first(c, 16), CollectiveOp::send_recv, Bytes{16384}, Seconds{}).protocol == "Simple");
}

TEST_CASE("Without GPUDirect RDMA messages to other nodes go through host memory and are no faster") {
  const auto m = machines::make("dgx_a100");
  auto host = std::make_shared<MachineSpec>(*m.spec);
  host->gpudirect_rdma = false;
  NetworkSpec network;
  network.id = network.name = "switch";
  network.kind = "single_switch";
  const Cluster direct("direct", {{m.spec, m.gpu, 2}}, network), staged("staged", {{host, m.gpu, 2}}, network);
  CHECK(staged.route(0, 8).links.size() > direct.route(0, 8).links.size());
  const auto time = [](const Cluster& c) { return CollectiveModel(c).send(Bytes{1e9}, 0, 8).time; };
  CHECK(time(staged) >= time(direct));
}
