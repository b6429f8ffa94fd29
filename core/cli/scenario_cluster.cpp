#include "core/cli/scenario_cluster.hpp"

#include <filesystem>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "core/config/json_file.hpp"
#include "core/hardware/read_specs.hpp"
#include "core/units/error.hpp"

namespace rehearse::cli {

namespace {

std::string stem_of(const std::string& file) { return std::filesystem::path(file).stem().string(); }

/// Looks names up in the catalogue and reads files; errors about names gain the place in the scenario.
class Finder {
 public:
  Finder(const Catalogue& catalogue, const std::string& where) : catalogue_(catalogue), where_(where) {}

  [[nodiscard]] std::shared_ptr<const MachineSpec> machine(const std::string& ref) const {
    if (!is_file_reference(ref)) return placed([&] { return catalogue_.machine(ref); });
    return std::make_shared<const MachineSpec>(
        read_machine(load_json(ref), ref, stem_of(ref), catalogue_.interconnects(), [this](const std::string& gpu) { return catalogue_.gpu(gpu); }));
  }
  [[nodiscard]] NetworkSpec network(const std::string& ref) const {
    if (is_file_reference(ref)) return read_network(load_json(ref), ref, stem_of(ref));
    return placed([&] { return *catalogue_.network(ref); });
  }
  [[nodiscard]] ClusterSpec cluster(const ClusterRef& ref) const {
    if (!ref.file.empty()) return read_cluster(load_json(ref.file), ref.file, stem_of(ref.file));
    return placed([&] { return *catalogue_.cluster(ref.name); });
  }

 private:
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

std::string network_of(const Catalogue& catalogue, const ClusterSpec& spec, const std::string& where) {
  if (!spec.network.empty()) return spec.network;
  if (spec.parts.size() == 1 && spec.parts.front().nodes == 1) return "single_switch";
  throw Error(ErrorKind::usage, "several machines, but no network that joins them", where + "/network",
              fmt::format("valid: {}", fmt::join(catalogue.names(Catalogue::Kind::network), ", ")));
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

  std::vector<Cluster::Part> parts;
  std::string machines;
  for (const ClusterSpec::Part& part : spec.parts) {
    const auto machine = finder.machine(part.machine);
    parts.push_back({machine, catalogue.gpu(machine->gpu), part.nodes});
    machines += fmt::format("{}{} x {}", machines.empty() ? "" : " + ", part.nodes, machine->id);
  }
  const NetworkSpec network = finder.network(network_of(catalogue, spec, where));
  if (spec.parts.size() > 1 || spec.parts.front().nodes > 1) machines += fmt::format(" on {}", network.id);
  return {spec.name.empty() ? machines : spec.name, std::move(parts), network};
}

}  // namespace rehearse::cli
