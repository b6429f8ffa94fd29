// Rows of the file itself, the model and the cluster.

#include "core/config/schema/rows.hpp"

namespace rehearse::schema {
namespace {

/// A member of `cluster`, which reads its members itself.
Field cluster_member(std::string key, Type type, std::string help) {
  return {.key = std::move(key), .help = std::move(help), .type = type};
}

Field schema_row() {
  Field f = row("schema", at(&Scenario::schema), "Format and version of the file.").must();
  f.type = Type::choice;
  f.choices = {std::string(kScenarioSchema)};
  f.read = [](const Field& self, Scenario& s, ObjectReader& r, bool) {
    s.schema = r.choice(self.name(), self.choices);
  };
  return f;
}

Field model_row() {
  Field f{.key = "model", .help = "What is trained.", .type = Type::model};
  f.read = [](const Field& self, Scenario& s, ObjectReader& r, bool) { s.model = read_model(self, r); };
  f.write = [](const Scenario& s) { return write_model(s.model); };
  return std::move(f)
      .must()
      .like("models/llama3_8b/config.json")
      .more(
          "A Hugging Face config.json by its path (relative to the scenario file; only there unknown keys are "
          "ignored), a registered name "
          "(rehearse list models), or an inline object: the keys of a config.json, or a list of layers.");
}

Field cluster_row() {
  Field f{.key = "cluster", .help = "The machines, and what joins them.", .type = Type::cluster};
  f.read = [](const Field& self, Scenario& s, ObjectReader& r, bool complete) {
    s.cluster = read_cluster(self, r, complete);
  };
  f.write = [](const Scenario& s) { return write_cluster(s.cluster); };
  return std::move(f)
      .must()
      .like(R"({"machine": "dgx_h100", "nodes": 16, "network": "rail_optimised"})")
      .more(
          "A registered cluster by name (rehearse list clusters), a cluster file by its path, an object of machine, "
          "nodes and network, or, "
          "for a mixed cluster, an object of parts and network or a bare list of parts.");
}

}  // namespace

void add_head(std::vector<Field>& t) {
  t.push_back(schema_row());
  t.push_back(model_row());
  t.push_back(cluster_row());
  t.push_back(cluster_member("cluster.machine", Type::text, "Registered machine, or a machine file.")
                  .must()
                  .like("dgx_a100_80gb"));
  t.push_back(cluster_member("cluster.nodes", Type::integer, "Machines.").in(1, kMaxSize).like("128"));
  t.push_back(cluster_member("cluster.network", Type::text, "Registered network, or a network file.").like("selene"));
  t.push_back(cluster_member("cluster.gpudirect_rdma", Type::boolean,
                             "NICs read and write GPU memory; false stages messages in host memory.")
                  .like("false")
                  .more("Left out, each machine's own file says.")
                  .seldom());
  t.push_back(
      cluster_member("cluster.pxn", Type::boolean,
                     "Messages for another rail go over NVLink to the GPU beside that rail's NIC.")
          .like("false")
          .more("false is NCCL_PXN_DISABLE=1. Left out, each machine's own file says. Only fabrics with rails use it.")
          .seldom());
  t.push_back(cluster_member("cluster.gpus_per_node", Type::integer, "GPUs of each node that train: its first ones.")
                  .in(1, kMaxSize)
                  .like("4")
                  .more("Left out, all of them. strategy.devices names single ones.")
                  .seldom());
  t.push_back(cluster_member("cluster.parts", Type::parts, "Parts of a mixed cluster: machine, nodes.")
                  .like(R"([{"machine": "dgx_a100_80gb", "nodes": 4}, {"machine": "dgx_h100", "nodes": 4}])"));
}

}  // namespace rehearse::schema
