#pragma once
// Importing texts and files against the shipped catalogue.

#include <string>

#include <nlohmann/json.hpp>

#include "core/base/error.hpp"
#include "core/config/json_file.hpp"
#include "core/hardware/catalogue.hpp"
#include "core/hardware/read_specs.hpp"
#include "core/import/topology/import_topology.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/source_path.hpp"

namespace rehearse {

inline const Catalogue& shipped() {
  static const Catalogue catalogue(rehearse::testing::source_path("topologies"));
  return catalogue;
}

inline std::string description(const std::string& file) {
  return read_text(rehearse::testing::source_path("tests/unit/import/machine_descriptions/") + file);
}

inline MachineSpec machine_of(const ImportedTopology& imported) {
  return read_machine(parse_json(imported.machine, "box.json"), "box.json", "box", shipped().interconnects(),
                      [](const std::string& id) { return shipped().gpu(id); });
}

inline MachineSpec imported(const std::string& text, const ImportOptions& options) {
  return machine_of(import_topology(text, "file", options, shipped()));
}

/// Answers to everything that a text may leave open.
inline ImportOptions answers(const std::string& gpu) {
  ImportOptions options;
  options.gpu = gpu;
  options.cpu = "upi_skylake";
  options.nic_rate = BytesPerSecond{12.5e9};
  return options;
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
inline Error refused(const std::string& text, const ImportOptions& options) {
  return error_of([&] { (void)import_topology(text, "file", options, shipped()); });
}

}  // namespace rehearse
