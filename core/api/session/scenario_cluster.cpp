#include "core/api/session/scenario_cluster.hpp"

#include <algorithm>
#include <filesystem>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/base/error.hpp"
#include "core/config/json_file.hpp"
#include "core/hardware/read_specs.hpp"

namespace rehearse {

namespace {

std::string stem_of(const std::string& file) { return std::filesystem::path(file).stem().string(); }

/// Looks names up in the catalogue and reads files; errors about names gain the place in the scenario.
class Finder {
 public:
  Finder(const Catalogue& catalogue, std::string where) : catalogue_(catalogue), where_(std::move(where)) {}

  [[nodiscard]] std::shared_ptr<const MachineSpec> machine(const std::string& ref) const {
    if (!is_file_reference(ref)) return placed([&] { return catalogue_.machine(ref); });
    return std::make_shared<const MachineSpec>(
        read_machine(load_json(ref), ref, stem_of(ref), catalogue_.interconnects(),
                     [this](const std::string& gpu) { return catalogue_.gpu(gpu); }));
  }
  [[nodiscard]] NetworkSpec network(const std::string& ref) const {
    if (is_file_reference(ref)) return read_network(load_json(ref), ref, stem_of(ref));
    return placed([&] { return *catalogue_.network(ref); });
  }
  /// A cluster's file, or a machine's: one of it.
  [[nodiscard]] ClusterSpec cluster_file(const std::string& file) const {
    const nlohmann::json json = load_json(file);
    if (json.is_object() && json.value("schema", nlohmann::json()) == "rehearse/machine/v1")
      return {stem_of(file), {}, {{file, 1}}, {}, {}};
    ClusterSpec spec = read_cluster(json, file, stem_of(file));
    const auto folder = std::filesystem::path(file).parent_path();
    for (auto& part : spec.parts) rebase(part.machine, folder);
    rebase(spec.network, folder);
    return spec;
  }
  [[nodiscard]] ClusterSpec cluster(const ClusterRef& ref) const {
    if (!ref.file.empty()) return cluster_file(ref.file);
    return placed([&] { return *catalogue_.cluster(ref.name); });
  }

 private:
  /// A cluster file names other files relative to itself.
  static void rebase(std::string& reference, const std::filesystem::path& folder) {
    if (is_file_reference(reference)) reference = schema_path(folder / reference);
  }
  static std::string schema_path(const std::filesystem::path& path) {
    const std::string text = path.lexically_normal().generic_string();
    return is_file_reference(text) ? text : "./" + text;
  }
  template <class Look>
  auto placed(Look look) const -> decltype(look()) {
    try {
      return look();
    } catch (Error& e) {
      if (e.where.empty()) e.where = where_;
      throw;
    }
  }

  const Catalogue& catalogue_;
  std::string where_;
};

std::string network_of(const ClusterSpec& spec, const std::string& where) {
  if (!spec.network.empty()) return spec.network;
  if (spec.parts.size() == 1 && spec.parts.front().nodes == 1) return "single_switch";
  throw Error(ErrorKind::usage, "several machines, but no network that joins them", where + "/network",
              "see 'rehearse list networks'");
}

}  // namespace

namespace {

/// The machine with what the scenario says in place of its own settings.
std::shared_ptr<const MachineSpec> with_settings(std::shared_ptr<const MachineSpec> machine, const ClusterRef& ref) {
  if (ref.gpudirect_rdma.value_or(machine->gpudirect_rdma) == machine->gpudirect_rdma &&
      ref.pxn.value_or(machine->pxn) == machine->pxn)
    return machine;
  auto changed = std::make_shared<MachineSpec>(*machine);
  changed->gpudirect_rdma = ref.gpudirect_rdma.value_or(machine->gpudirect_rdma);
  changed->pxn = ref.pxn.value_or(machine->pxn);
  return changed;
}

Cluster build(const Catalogue& catalogue, const Finder& finder, const ClusterSpec& spec, const ClusterRef& ref,
              const std::string& where) {
  std::vector<Cluster::Part> parts;
  std::string machines;
  for (const ClusterSpec::Part& part : spec.parts) {
    const auto machine = with_settings(finder.machine(part.machine), ref);
    parts.push_back({machine, catalogue.gpu(machine->gpu), part.nodes});
    machines += fmt::format("{}{} x {}", machines.empty() ? "" : " + ", part.nodes, machine->id);
  }
  const NetworkSpec network = finder.network(network_of(spec, where));
  if (spec.parts.size() > 1 || spec.parts.front().nodes > 1) machines += fmt::format(" on {}", network.id);
  return {spec.name.empty() ? machines : spec.name, std::move(parts), network};
}

}  // namespace

Cluster scenario_cluster(const Catalogue& catalogue, const Scenario& scenario) {
  const std::string where = scenario.origin + ": /cluster";
  const Finder finder(catalogue, where);
  const ClusterRef& ref = scenario.cluster;
  ClusterSpec spec;
  if (ref.parts.empty()) spec = finder.cluster(ref);
  for (const ClusterPart& part : ref.parts) spec.parts.push_back({part.machine, part.nodes});
  if (!ref.network.empty()) spec.network = ref.network;
  return build(catalogue, finder, spec, ref, where);
}

Cluster named_cluster(const Catalogue& catalogue, const std::string& what) {
  const Finder finder(catalogue, {});
  const auto machines = catalogue.names(Catalogue::Kind::machine), clusters = catalogue.names(Catalogue::Kind::cluster);
  const auto known = [&](const std::vector<std::string>& names) {
    return std::find(names.begin(), names.end(), what) != names.end();
  };
  ClusterSpec spec;
  if (is_file_reference(what))
    spec = finder.cluster_file(what);
  else if (known(clusters))
    spec = *catalogue.cluster(what);
  else if (known(machines))
    spec.parts = {{what, 1}};
  else {
    std::vector<std::string> all = clusters;
    all.insert(all.end(), machines.begin(), machines.end());
    throw unknown_entry("cluster or machine", what, all, "clusters' and 'rehearse list machines");
  }
  return build(catalogue, finder, spec, {}, what);
}

}  // namespace rehearse
