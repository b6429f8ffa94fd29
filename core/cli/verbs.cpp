#include "core/cli/verbs.hpp"

namespace rehearse::cli {

const std::vector<Verb>& verbs() {
  static const std::vector<Verb> table{
      simulate_verb(),    estimate_verb(),  memory_verb(),   compare_verb(),    search_verb(), sweep_verb(),
      merge_verb(),       plan_verb(),      fleet_verb(),    lesson_verb(),     task_verb(),   replay_verb(),
      run_verb(),         calibrate_verb(), validate_verb(), topology_verb(),   import_verb(), export_verb(),
      collectives_verb(), list_verb(),      explain_verb(),  completion_verb(), man_verb(),    version_verb(),
  };
  return table;
}

}  // namespace rehearse::cli
