// What was measured of devices: calibration, device profiles, tables of collectives, and where ranks stand.

#include "core/cluster/cluster.hpp"
#include "core/cluster/placement.hpp"
#include "core/collective/collective_table.hpp"
#include "core/config/json_file.hpp"
#include "core/price/calibration/calibration.hpp"
#include "core/price/calibration/device_profile.hpp"
#include "tests/fuzz/inputs.hpp"
#include "tests/fuzz/target.hpp"

namespace rehearse::fuzz::calibrations {

namespace {

void run_calibration(std::string_view bytes) { (void)parse_calibration(bytes, "fuzzed.json"); }

void run_profile(std::string_view bytes) {
  const DeviceProfile read = parse_device_profile(std::string(bytes), "fuzzed.json");
  const std::string text = to_json(read);
  require(to_json(parse_device_profile(text, "again.json")) == text, "its own text becomes another profile");
}

void run_table(std::string_view bytes) {
  const CollectiveTable table = CollectiveTable::parse(std::string(bytes), "fuzzed.json");
  for (const double size : {1.0, 1e6, 1e12})
    for (const int ranks : {2, 8})
      if (const auto time =
              table.time(CollectiveOp::all_reduce, ranks, 1, Bytes{size}, [](Bytes) { return Seconds{1e-6}; });
          time)
        require(time->value() >= 0 && time->value() < 1e300, "a time that is none");
}

void run_placement(std::string_view bytes) {
  static const auto machine = shipped().machine("dgx_h100");
  static const Cluster cluster("two", {{machine, shipped().gpu(machine->gpu), 2}}, *shipped().network("rail_ndr"));
  const std::vector<DeviceId> devices = read_placement(bytes, "fuzzed.txt", cluster);
  require(!devices.empty() && devices.size() <= 16, "other ranks than devices");
}

std::vector<std::string> tables() {
  return {R"({"schema": "rehearse/collective_table/v1", "sources": {"s": "measured"}, "tables": [
 {"op": "all_reduce", "ranks": 8, "nodes": 1, "source": "s", "bytes": [1024, 1048576], "time_us": [10, 100]}]})"};
}

std::vector<std::string> profiles() {
  return {R"({"schema": "rehearse/device_profile/v1", "device": "cpu", "ranks": 2})"};
}

std::vector<std::string> placements() {
  return {"0:0 0:1 1:0\n# slots\n1:7\n", "node0 slots=8\nnode1 slots=4\n", "[0, 1, 8, 9]"};
}

const bool registered_calibration = targets().add(
    {"calibrations",
     "calibration profiles",
     {},
     {.run = run_calibration,
      .seeds = {{"topologies/calibration", ".json"}, {"tests/golden/toy/topologies/calibration", ".json"}},
      .longest = 32768,
      .limits = {64'000'000, "64 deep",
                 [](const std::string& path) { (void)parse_calibration(read_text(path), path); }}}});
const bool registered_profile = targets().add(
    {"device_profiles",
     "profiles that 'calibrate' wrote",
     {},
     {.run = run_profile, .made = profiles, .limits = {64'000'000, "64 deep", [](const std::string& path) {
                                                         (void)load_device_profile(path);
                                                       }}}});
const bool registered_table = targets().add({"collective_tables",
                                             "tables of measured collectives",
                                             {},
                                             {.run = run_table,
                                              .seeds = {{"tests/golden/toy/collectives.json", ""}},
                                              .made = tables,
                                              .limits = {64'000'000, "64 deep", [](const std::string& path) {
                                                           (void)CollectiveTable::parse(read_text(path), path);
                                                         }}}});
const bool registered_placement =
    targets().add({"placements",
                   "files of a scenario's strategy.devices",
                   {},
                   {.run = run_placement,
                    .seeds = {{"scenarios/lessons", ".txt"}, {"scenarios/published", ".txt"}},
                    .made = placements,
                    .limits = {64'000'000, "", nullptr}}});

}  // namespace

}  // namespace rehearse::fuzz::calibrations
