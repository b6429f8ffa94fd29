// Prints how long large clusters take to build and to route, and the memory that they hold.

#include <chrono>
#include <cstdio>
#include <random>

#include <sys/resource.h>

#include "core/cluster/make_cluster.hpp"
#include "tests/support/source_path.hpp"

int main() {
  using Clock = std::chrono::steady_clock;
  using namespace rehearse;
  auto seconds_since = [](Clock::time_point start) {
    return std::chrono::duration<double>(Clock::now() - start).count();
  };
  Catalogue catalogue(rehearse::testing::source_path("topologies"));
  std::printf("%10s %12s %12s %12s %12s\n", "GPUs", "build ms", "links", "ns/route", "peak MiB");
  for (int nodes : {8, 128, 2048, 12800}) {
    auto start = Clock::now();
    Cluster cluster = make_cluster(catalogue, ClusterSpec{{}, {}, {{"dgx_h100", nodes}}, "rail_ndr_3level", {}});
    double build = seconds_since(start);
    constexpr int kRoutes = 1'000'000;
    std::mt19937 random(1);
    std::uniform_int_distribution<DeviceId> any(0, cluster.device_count() - 1);
    start = Clock::now();
    std::size_t hops = 0;
    for (int i = 0; i < kRoutes; ++i) hops += cluster.route(any(random), any(random)).links.size();
    double routing = seconds_since(start);
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    std::printf("%10d %12.3f %12d %12.0f %12.1f   (%.1f hops)\n", cluster.device_count(), build * 1e3,
                cluster.link_count(), routing / kRoutes * 1e9, static_cast<double>(usage.ru_maxrss) / 1024,
                static_cast<double>(hops) / kRoutes);
  }
  return 0;
}
