// validate: how far predictions are off, by a run on this machine or by what others measured.

#include "core/base/error.hpp"
#include "core/cli/backend_choice.hpp"
#include "core/cli/html_output.hpp"
#include "core/cli/max_error.hpp"
#include "core/cli/output.hpp"
#include "core/cli/run/validate_run.hpp"
#include "core/cli/verbs.hpp"
#include "core/cli/verbs/validate/validate_measurements.hpp"

namespace rehearse::cli {

namespace {

int validate(const Arguments& arguments, Console& console) {
  if (arguments.has("--measurements")) return validate_measurements(arguments, console);
  if (!arguments.has("SCENARIO"))
    throw Error(ErrorKind::usage, "nothing to hold predictions against", "validate",
                "give a SCENARIO to run it here, or --measurements FILE");
  return validate_run(arguments, console);
}

}  // namespace

Verb validate_verb() {
  Verb verb{"validate",
            "How far predictions are off: against a run on this machine, or against what others measured.",
            {"rehearse validate scenarios/tiny_gpt2.json --device cpu --calibration this_machine.json",
             "rehearse validate --measurements tests/published/data/torchtitan.json",
             "rehearse validate --measurements tests/published/data/simumax_b200.json --explain "
             "simumax_b200_llama3_70b_l12_tp4_pp1_dp2_mbc8_cef"},
            {{"SCENARIO", "the scenario to run; with --measurements, further measurement files", false, true}},
            validate_measurements_options(),
            "A run needs a profile of this machine: 'rehearse calibrate --device cpu --ranks N -o this_machine.json'. "
            "A measured row's fields come from the "
            "row, else from what its file says of all its rows, else from the profile of its framework, where each has "
            "its citation; rows are skipped for stated reasons only.",
            validate};
  for (Option& o : validate_run_options()) verb.options.push_back(std::move(o));
  verb.options.push_back(max_error_option());
  verb.options.push_back(backend_option());
  for (Option& o : result_options()) verb.options.push_back(std::move(o));
  verb.options.push_back(html_option());
  return verb;
}

}  // namespace rehearse::cli
