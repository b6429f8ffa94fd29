// The cluster as a picture takes it.

#include <nlohmann/json.hpp>

#include "core/base/index.hpp"
#include "core/report/html/topology_data.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/testbed.hpp"

using namespace rehearse;
using nlohmann::json;

namespace {

const json& find(const json& classes, const std::string& between) {
  for (const json& c : classes)
    if (c["between"] == between) return c;
  throw std::runtime_error("no wires " + between);
}

}  // namespace

TEST_CASE("every wire of the cluster is in exactly one class", "[topology]") {
  for (const char* network : {"selene", "single_switch"}) {
    const Cluster cluster = testing::machines_on(4, testing::shipped_network(network));
    const json picture = json::parse(topology_json(cluster));
    int wires = 0;
    for (const json& c : picture["classes"]) wires += c["links"].get<int>();
    CHECK(wires == cluster.link_count());
  }
}

TEST_CASE("a link at half its rate is half used, and the picture shows its node", "[topology]") {
  const Cluster cluster = testing::machines_on(4, testing::shipped_network("selene"));
  LinkUse use{std::vector<double>(static_cast<std::size_t>(cluster.link_count()), 0.0), Seconds{10}, Seconds{11}};
  const LinkId link = cluster.route(cluster.first_device(2), cluster.first_device(2) + 1).links.front();
  nth(use.bytes, link) = 0.5 * cluster.link_rate(link).value() * 10;
  const json picture = json::parse(topology_json(cluster, use));
  CHECK(picture["of"].get<std::string>().starts_with("node 2 of 4"));
  const json& c = find(picture["classes"], "NVSwitch – GPU");
  CHECK(c["most_used"].get<double>() == Approx(0.5));
  CHECK(c["mean_used"].get<double>() == Approx(0.5 / c["links"].get<int>()));
  CHECK(picture["seconds"] == 11);
  CHECK(c["bytes"].get<double>() == Approx(nth(use.bytes, link)));
  double most = 0;
  for (const json& l : picture["links"]) most = std::max(most, l["used"].get<double>());
  CHECK(most == Approx(0.5));
}

TEST_CASE("wires join places that are there", "[topology]") {
  const json picture = json::parse(topology_json(testing::machines_on(40, testing::shipped_network("selene"))));
  CHECK(picture["seconds"].is_null());
  for (const json& l : picture["links"])
    for (const char* end : {"a", "b"})
      CHECK(l[end][1].get<std::size_t>() < picture["rows"].at(l[end][0].get<std::size_t>())["vertices"].size());
}
