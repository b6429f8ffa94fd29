#include <nlohmann/json.hpp>

#include "core/hardware/read_specs.hpp"
#include "core/hardware/source_table.hpp"

namespace rehearse {

NetworkSpec read_network(const nlohmann::json& json, const std::string& origin, const std::string& id) {
  ObjectReader file(json, origin);
  read_header(file, "network");
  SourceTable sources(file);
  NetworkSpec network;
  network.id = id;
  network.name = file.string("name");

  ObjectReader fabric = file.object("fabric");
  sources.cite(fabric);
  network.kind = fabric.string("kind");
  if (auto parameters = fabric.optional_object("parameters"))
    for (const auto& name : parameters->keys()) network.parameters[name] = parameters->number(name);
  fabric.finish();

  ObjectReader latency = file.object("latency");
  sources.cite(latency);
  network.switch_latency = latency.quantity<Seconds>("switch");
  network.nic_latency = latency.quantity<Seconds>("nic");
  latency.finish();

  if (auto ports = file.optional_object("ports")) {
    sources.cite(*ports);
    network.port_rate = ports->quantity<BytesPerSecond>("rate");
    ports->finish();
  }
  if (auto collectives = file.optional_object("collectives")) {
    sources.cite(*collectives);
    network.collectives = read_network_collectives(*collectives);
    collectives->finish();
  }
  file.finish();
  network.sources = sources.finish();
  return network;
}

ClusterSpec read_cluster(const nlohmann::json& json, const std::string& origin, const std::string& id) {
  ObjectReader file(json, origin);
  read_header(file, "cluster");
  SourceTable sources(file);
  ClusterSpec cluster;
  cluster.id = id;
  cluster.name = file.string("name");
  cluster.network = file.string("network");
  for (ObjectReader& part : file.objects("parts")) {
    sources.cite(part);
    cluster.parts.push_back({part.string("machine"), static_cast<int>(part.integer("nodes", {1, 10'000'000}))});
    part.finish();
  }
  if (cluster.parts.empty()) file.fail("parts", "a cluster needs at least one part");
  file.finish();
  cluster.sources = sources.finish();
  return cluster;
}

}  // namespace rehearse
