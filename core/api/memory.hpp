#pragma once
// Whether a plan fits: peak memory of every pipeline stage against what its devices have. Nothing is played.
//
//   const auto scenario = rehearse::load_scenario("scenarios/llama3_70b_h100_64.json");
//   const rehearse::MemoryAnswer answer = rehearse::memory(scenario);
//   if (!answer.fits() && answer.memory.suggestion) ...  // Changes that make it fit, as overrides.

#include <filesystem>
#include <string>

#include "core/report/results/step_report.hpp"

namespace rehearse {

struct Scenario;
struct Session;

struct MemoryOptions {
  /// Folder that holds topologies/ and scenarios/. Default: empty, which searches as find_data() says
  /// (core/api/data_directory.hpp); with a folder, no variable is read and no other path is tried.
  std::filesystem::path data;
  /// Whether the smallest change that makes it fit is looked for where it does not. Default: yes. Lowers up to a few
  /// hundred plans.
  bool suggest = true;
};

struct MemoryAnswer {
  ReportHead head;
  MemoryReport memory;
  [[nodiscard]] bool fits() const { return memory.fits(); }
};

/// Throws Error (usage) where the scenario names what there is not, or its axes, sizes or schedule do not work out.
[[nodiscard]] MemoryAnswer memory(const Scenario& scenario, const MemoryOptions& options = {});
/// The same of a session (core/api/session/session.hpp) and its Program.
[[nodiscard]] MemoryAnswer memory(const Session& session, const Program& program, bool suggest = true);

/// Blocks for people, records for spreadsheets, JSON (rehearse/result/v1) for programs.
[[nodiscard]] Document to_document(const MemoryAnswer& answer);
/// The JSON alone; ends in a newline.
[[nodiscard]] std::string to_json(const MemoryAnswer& answer);

}  // namespace rehearse
