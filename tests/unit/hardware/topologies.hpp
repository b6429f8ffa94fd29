#pragma once
// The shipped catalogue, and JSON texts read as its files are.

#include <nlohmann/json.hpp>

#include "core/base/error.hpp"
#include "core/hardware/catalogue.hpp"
#include "core/hardware/read_specs.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/source_path.hpp"

namespace rehearse {

inline const Catalogue& shipped() {
  static const Catalogue catalogue(rehearse::testing::source_path("topologies"));
  return catalogue;
}

/// The parsed text of a shipped file ("gpus/l4"), to alter.
nlohmann::json shipped_json(const std::string& name);

inline MachineSpec machine_from(const nlohmann::json& file) {
  return read_machine(file, "box.json", "box", shipped().interconnects(),
                      [](const std::string& id) { return shipped().gpu(id); });
}

/// The error that `act` throws; fails the test when it throws none.
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

/// NVLinks at one vertex of a machine.
inline int nvlinks_at(const MachineSpec& machine, int vertex) {
  int count = 0;
  for (const auto& link : machine.links)
    if (link.kind == MachineSpec::LinkKind::nvlink && (link.a == vertex || link.b == vertex)) count += link.count;
  return count;
}

}  // namespace rehearse
