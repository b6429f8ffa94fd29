#pragma once
// What the page asks of the core, and what it is told: JSON in, JSON out. Nothing is worked out here: each request is a
// call of core/api.

#include <string>
#include <string_view>

#include "core/api/session/session.hpp"

namespace rehearse::playground {

/// `request` is {"ask": WHAT, ...}:
///
///   | ask        | beside it                    | reply                                                           |
///   |------------|------------------------------|-----------------------------------------------------------------|
///   | choices    |                              | names of models, machines, ..., keys of a scenario, its presets |
///   | estimate   | scenario, set, suggest       | answer, heading, warnings, stated; plan, roofline               |
///   | simulate   | scenario, set, suggest, ranks | the same, and gantt, course, topology                          |
///   | memory     | scenario, set                | answer, heading, warnings, stated; plan                         |
///   | compare    | names, results               | answer                                                          |
///   | lesson     | name, set                    | answer, gantts                                                  |
///   | task       | name; set and predict        | answer: the task and its hints, or what becomes of an attempt   |
///   | ring, pipeline, exchange | sizes          | one after the other what happens in each (steps.hpp)            |
///
/// `scenario` is the path of a file of the data folder, or a scenario as an object; `set` holds overrides as `--set`
/// takes them; `suggest` (false) asks what would make a plan fit; `ranks` is the most rows of the picture. `answer` is
/// what the command line prints as JSON; `stated` the scenario with what differs from the defaults. Of what a user gets
/// wrong the reply is {"error": {"what", "where", "hint", "kind"}}. Throws nothing.
/// `sessions` is how scenarios are opened, with what is kept from one request to the next.
[[nodiscard]] std::string answer(std::string_view request, const SessionOptions& sessions = {}) noexcept;

}  // namespace rehearse::playground
