#pragma once
// The door between the library and whoever uses it: scenario in, result out. The command line, bindings and other
// programs all come in here.
//
//   | to know                                             | call                                                |
//   |-----------------------------------------------------|-----------------------------------------------------|
//   | how long a step takes, in closed form               | estimate(scenario, EstimateOptions)  -> StepReport  |
//   | how long it takes, played on the cluster's links    | simulate(scenario, SimulateOptions)  -> StepReport  |
//   | what jobs on one fabric cost each other            | simulate_together(jobs, ...)   -> TogetherReport    |
//   | whether it fits into memory                         | memory(scenario, MemoryOptions)    -> MemoryAnswer  |
//   | which plan is best                                  | search(scenario, SearchRequest)    -> SearchReport  |
//   | what a lesson teaches, with its numbers            | play_plans(lesson, changes, backend) (lesson.hpp)   |
//   | whether an attempt at a task reaches its goals     | try_task(task, changes, backend) (task.hpp)         |
//   | how far predictions were off, of measured jobs      | validate(files, ValidateOptions) -> ValidateAnswer  |
//
// Each result is a struct; to_document(result) is what the command line prints of it, for any format of
// core/report/formats/format.hpp, and to_json(result) the JSON.
//
// A scenario is a file, a text or a struct, with overrides as `--set` takes them:
//
//   Scenario load_scenario(path, overrides);             // "scenarios/llama3_8b_h100_8.json", {"strategy.tp=2"}
//   Scenario parse_scenario(text, origin, overrides);    // `origin`: a path for messages, and for relative references
//   Scenario with_overrides(scenario, overrides);        // Or change its members: scenario.strategy.tp = 2
//
// Functions neither print nor exit, and throw Error alone for what users get wrong: what, where, hint, and the kind,
// whose value is the exit code of the command line. The same input gives the same result, whatever the machine, the
// number of threads and the time of day. Functions may be called from several threads, but one at a time may play on
// "simgrid". Machines, calibration and models are read from files: every options struct has `data` for their folder,
// and core/api/data_directory.hpp says what is searched without it.
//
// Who needs the Program, the cluster or several answers for one scenario opens a Session (core/api/session/session.hpp)
// and gives that to the same functions. Who adds a back end enters it in backends() (core/play/backend.hpp).

#include "core/api/backend_choice.hpp"
#include "core/api/build_info.hpp"
#include "core/api/data_directory.hpp"
#include "core/api/lesson.hpp"
#include "core/api/memory.hpp"
#include "core/api/search.hpp"
#include "core/api/session/scenario_file.hpp"
#include "core/api/step.hpp"
#include "core/api/task.hpp"
#include "core/api/together.hpp"
#include "core/api/validate.hpp"
#include "core/base/error.hpp"
#include "core/base/units.hpp"
#include "core/config/scenario.hpp"
