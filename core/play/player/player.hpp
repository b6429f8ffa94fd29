#pragma once
// Plays a Program on a clock: the engine behind every simulated back end. Each played rank walks its role's entries
// stream by stream; kernels and collectives without shared wires are timers, messages and collectives across nodes are
// flows.

#include "core/play/backend.hpp"
#include "core/play/clocks/play_clock.hpp"

namespace rehearse {

/// Plays `programs` at once and reports to their sinks. Ranks that are proved to do the same at the same times are
/// played as one (README.md, "What is folded, and why it may be"); the result says so. Throws std::logic_error when the
/// Program gets stuck, naming what waits for what. Back end "analytic" is this on a clock where every flow has its
/// wires to itself. One result for each Program, in their order.
std::vector<RunResult> play(const Cluster& cluster, std::span<const PlayedProgram> programs, PlayClock& clock,
                            const std::string& backend_name);
/// One alone.
RunResult play(const Program& program, const Cluster& cluster, const CostModel& cost, const RunOptions& options,
               TraceSink& sink, PlayClock& clock, const std::string& backend_name);

}  // namespace rehearse
