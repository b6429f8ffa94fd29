#pragma once
// Clusters for the tests, and routes as text.

#include <map>
#include <string>
#include <vector>

#include "core/base/error.hpp"
#include "core/cluster/fabric.hpp"
#include "core/cluster/make_cluster.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/source_path.hpp"

namespace rehearse {

inline const Catalogue& shipped() {
  static const Catalogue catalogue(rehearse::testing::source_path("topologies"));
  return catalogue;
}

inline Cluster cluster_of(const std::string& machine, int nodes, const std::string& network) {
  return make_cluster(
      shipped(), ClusterSpec{.id = {}, .name = {}, .parts = {{machine, nodes}}, .network = network, .sources = {}});
}

/// A cluster on a network that no file describes.
inline Cluster cluster_on(const std::string& machine, int nodes, const std::string& kind,
                          std::map<std::string, double> parameters) {
  auto spec = shipped().machine(machine);
  NetworkSpec network{.id = "test",
                      .name = "test",
                      .kind = kind,
                      .parameters = std::move(parameters),
                      .switch_latency = Seconds{1e-7},
                      .nic_latency = Seconds{1e-6},
                      .port_rate = {},
                      .collectives = {},
                      .sources = {}};
  return {"test", {{spec, shipped().gpu(spec->gpu), nodes}}, network};
}

/// Names of a route's links, joined by spaces.
inline std::string text_of(const Cluster& cluster, const Route& route) {
  std::string text;
  for (LinkId id : route.links) {
    if (!text.empty()) text += ' ';
    text += cluster.link(id).name;
  }
  return text;
}
inline std::string route_text(const Cluster& cluster, DeviceId src, DeviceId dst) {
  return text_of(cluster, cluster.route(src, dst));
}

/// Rate of the narrowest link.
inline BytesPerSecond bottleneck(const Cluster& cluster, DeviceId src, DeviceId dst) {
  BytesPerSecond narrowest{1e30};
  for (LinkId id : cluster.route(src, dst).links) narrowest = min(narrowest, cluster.link_rate(id));
  return narrowest;
}

template <class Act>
Error error_of(Act act) {
  try {
    act();
  } catch (const Error& e) {
    return e;
  }
  FAIL("expected an Error");
  return {ErrorKind::usage, ""};
}

}  // namespace rehearse
