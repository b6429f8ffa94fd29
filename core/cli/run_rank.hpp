#pragma once
// One rank of `rehearse run`: joins the others, trains, prints on rank 0.

#include "core/cli/session.hpp"
#include "core/cli/verb.hpp"
#include "gpu_backend/launch.hpp"

namespace rehearse::cli {

/// Returns the exit code. With several ranks it ends the process itself where a rank fails: calls in flight may never return then.
int run_rank(const Session& session, const Place& place, const Arguments& arguments, Console& console);

/// Throws what every rank would: wrong options, data that cannot be read, a plan that no device here executes. To be called once, before
/// ranks are started.
void check_run(const Session& session, int ranks, const Arguments& arguments);

/// Whole number given for an option. Throws Error (usage) that names it.
[[nodiscard]] std::int64_t whole_number(const Arguments& arguments, const std::string& option, std::int64_t least, std::int64_t fallback);

}  // namespace rehearse::cli
