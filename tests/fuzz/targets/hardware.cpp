// Files of hardware: GPUs, machines, networks, clusters and the tables beside them.

#include <nlohmann/json.hpp>

#include "core/cluster/cluster.hpp"
#include "core/config/json_file.hpp"
#include "core/hardware/read_specs.hpp"
#include "tests/fuzz/inputs.hpp"
#include "tests/fuzz/target.hpp"

namespace rehearse::fuzz::hardware {

namespace {

constexpr const char* kOrigin = "fuzzed.json";

nlohmann::json json_of(std::string_view bytes) { return parse_json(bytes, kOrigin); }

std::shared_ptr<const GpuSpec> gpu_of(const std::string& id) { return shipped().gpu(id); }

MachineSpec machine(const nlohmann::json& file) {
  return read_machine(file, kOrigin, "fuzzed", shipped().interconnects(), gpu_of);
}

void read_machine_text(std::string_view bytes) {
  auto read = std::make_shared<const MachineSpec>(machine(json_of(bytes)));
  const auto gpu = shipped().gpu(read->gpu);
  const Cluster cluster("fuzzed", {{read, gpu, 2}}, *shipped().network("rail_ndr"));
  require(cluster.device_count() == 2 * read->gpus, "a cluster of other GPUs than its machines have");
}

void read_network_text(std::string_view bytes) {
  NetworkSpec network = read_network(json_of(bytes), kOrigin, "fuzzed");
  const auto machine = shipped().machine("dgx_a100_80gb");
  const Cluster cluster("fuzzed", {{machine, shipped().gpu(machine->gpu), 4}}, std::move(network));
  require(cluster.device_count() == 32, "a cluster of other GPUs than its machines have");
}

void read_gpu_text(std::string_view bytes) {
  (void)read_gpu(json_of(bytes), kOrigin, "fuzzed", shipped().interconnects());
}
void read_cluster_text(std::string_view bytes) { (void)read_cluster(json_of(bytes), kOrigin, "fuzzed"); }
void read_interconnects_text(std::string_view bytes) { (void)read_interconnects(json_of(bytes), kOrigin); }
void read_constants_text(std::string_view bytes) { (void)read_collective_constants(json_of(bytes), kOrigin, "fuzzed"); }

Target reads(void (*run)(std::string_view), const std::string& folder, void (*file)(const std::string&)) {
  return {.run = run,
          .seeds = {{"topologies/" + folder, ".json"}, {"tests/golden/toy/topologies/" + folder, ".json"}},
          .longest = 16384,
          .limits = {64'000'000, "64 deep", file}};
}

const bool registered_gpus =
    targets().add({"gpus", "files of GPUs", {}, reads(read_gpu_text, "gpus", [](const std::string& path) {
                     (void)read_gpu(load_json(path), path, "fuzzed", shipped().interconnects());
                   })});
const bool registered_machines = targets().add(
    {"machines", "files of machines", {}, reads(read_machine_text, "machines", [](const std::string& path) {
       (void)machine(load_json(path));
     })});
const bool registered_networks = targets().add(
    {"networks", "files of networks", {}, reads(read_network_text, "networks", [](const std::string& path) {
       (void)read_network(load_json(path), path, "fuzzed");
     })});
const bool registered_clusters = targets().add(
    {"clusters", "files of clusters", {}, reads(read_cluster_text, "clusters", [](const std::string& path) {
       (void)read_cluster(load_json(path), path, "fuzzed");
     })});
const bool registered_interconnects =
    targets().add({"interconnects",
                   "the table of interconnects",
                   {},
                   reads(read_interconnects_text, "interconnects.json",
                         [](const std::string& path) { (void)read_interconnects(load_json(path), path); })});
const bool registered_constants = targets().add({"collective_constants",
                                                 "constants of collectives",
                                                 {},
                                                 reads(read_constants_text, "collectives", [](const std::string& path) {
                                                   (void)read_collective_constants(load_json(path), path, "fuzzed");
                                                 })});

}  // namespace

}  // namespace rehearse::fuzz::hardware
