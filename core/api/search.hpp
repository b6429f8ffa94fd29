#pragma once
// The best plans for a scenario's model on its cluster, and what each trades.
//
//   const auto scenario = rehearse::load_scenario("scenarios/llama3_8b_h100_8.json");
//   const rehearse::SearchReport found = rehearse::search(scenario, {.fix = {"tp=2"}});
//   for (const rehearse::Found& plan : found.result.best) ...  // Best first.

#include <cstddef>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "core/report/results/search_report.hpp"

namespace rehearse {

struct Scenario;
struct SearchSession;

struct SearchRequest {
  /// Folder that holds topologies/ and scenarios/. Default: empty, which searches as find_data() says
  /// (core/api/data_directory.hpp); with a folder, no variable is read and no other path is tried.
  std::filesystem::path data{};
  /// What is best. Default: the step time. cost_per_token needs `price_per_gpu_hour`, energy_per_token machines whose
  /// power the catalogue knows, and both, like tokens_per_s_per_gpu, a network of sequences.
  Objective objective = Objective::step_time;
  /// Plans wanted, at least 1. Default: 10.
  std::size_t top = 10;
  /// Settings of the strategy that plans must have: "tp=8", or "strategy.tp=8". Default: none.
  std::vector<std::string> fix{};
  /// Most that a plan may need per GPU. Default: 0, what the GPUs have.
  Bytes most_memory{0};
  /// US dollars for an hour of a GPU. Default: 0, not known.
  Dollars price_per_gpu_hour{0};
  /// Files of steps that the user measured, as observe() reads them (core/api/session/observed.hpp): they shift and
  /// narrow the likely range. Default: none.
  std::vector<std::string> observed{};
  /// What plays the best few: a registered back end. Default: empty, as SimulateOptions::backend.
  std::string backend{};
  /// Most plans to play. Default: -1, 32,768 over the GPUs, from 4 to 512. 0: all answers are closed forms.
  int most_played = -1;
  /// Threads. Default: 0, as many as the machine has cores. The answer is the same for any number.
  int jobs = 0;
  /// Part of the space that is searched; parts are not played. Default: all of it.
  SearchShard shard{};
  /// As SearchOptions::time_spent: the share that is over of the time for all but playing. The library has no clock.
  /// Default: none, and the search takes the time that it needs, which may be long.
  std::function<double()> time_spent{};
  /// Asked between plans, from any thread; true ends the search with what was found. Default: never.
  std::function<bool()> stop{};
  /// Called from the calling thread. Default: nothing is called.
  std::function<void(const SearchProgress&)> progress{};
};

/// Searches all legal combinations of axes, schedules, sharding and recomputation; all else is as the scenario says.
/// `result.best` is empty where nothing fits. Where the scenario's own strategy is no plan for its cluster,
/// `own_refused` says why, and the best is held against none. Throws Error: usage where the scenario names what there
/// is not, nothing is left to search or an objective lacks a figure; unavailable for a back end that is not built in.
[[nodiscard]] SearchReport search(const Scenario& scenario, const SearchRequest& request = {});
/// The same of an opened scenario (core/api/session/search_setup.hpp); `data` and `observed` are its own.
[[nodiscard]] SearchReport search(const SearchSession& opened, const SearchRequest& request = {});

/// Tables of the best plans, records for spreadsheets, JSON (rehearse/search/v1) for programs.
[[nodiscard]] Document to_document(const SearchReport& report);
/// The JSON alone; ends in a newline.
[[nodiscard]] std::string to_json(const SearchReport& report);

}  // namespace rehearse
