#pragma once
// Playing a workload that was measured elsewhere.

#include <string>
#include <vector>

#include "core/cli/verb.hpp"

namespace rehearse::cli {

/// `simulate WORKLOAD`: the step's time on the cluster that the workload or --set names, beside what was measured.
int simulate_measured(const std::string& file, const Arguments& arguments, Console& console);

}  // namespace rehearse::cli
