// validate: how far predictions are off, by a run on this machine.

#include "core/cli/output.hpp"
#include "core/cli/validate_run.hpp"
#include "core/cli/verbs.hpp"

namespace rehearse::cli {

Verb validate_verb() {
  Verb verb{"validate",
            "Run a scenario on this machine, simulate the same plan, and say how far apart they are.",
            {"rehearse validate scenarios/tiny_gpt2.json --device cpu --calibration this_machine.json"},
            {scenario_positional()},
            validate_run_options(),
            "Calibrate first: 'rehearse calibrate --device cpu --ranks N -o this_machine.json'.",
            validate_run};
  for (Option& o : result_options()) verb.options.push_back(std::move(o));
  return verb;
}

}  // namespace rehearse::cli
