#pragma once
// One rank of `rehearse run`: joins the others, trains, prints on rank 0.

#include <functional>
#include <memory>

#include "core/api/session/session.hpp"
#include "core/cli/verb.hpp"
#include "gpu_backend/communicate/communicator.hpp"
#include "gpu_backend/train/data.hpp"
#include "gpu_backend/train/launch.hpp"

namespace rehearse::cli {

/// Ranks that one command starts on this machine.
inline constexpr int kMostLocalRanks = 64;

/// Returns the exit code. With several ranks it ends the process itself where a rank fails: calls in flight may never
/// return then.
int run_rank(const Session& session, const Place& place, const Arguments& arguments, Console& console);

/// Joins the others as `place` and does `work` on their transport; returns its exit code. Errors and dying ranks as in
/// run_rank().
int as_rank(const Place& place, Console& console, const std::function<int(Transport&)>& work);

/// The same with the device that --device names, which the transport joins.
int as_rank_on(const Place& place, const Arguments& arguments, Console& console,
               const std::function<int(ComputeDevice&, Transport&)>& work);

/// Throws Error for a --device that there is not (usage), or not here (unavailable).
void check_device(const Arguments& arguments);
/// Says why steps were not replayed as CUDA graphs, where the scenario asks for them.
void tell_not_replayed(const std::string& because, Console& console);
/// Before ranks are started on this machine. Throws Error (unavailable) where they are more than its GPUs and are not
/// to share them.
void check_gpus(const Arguments& arguments, int ranks);
/// Whether --device says cuda.
[[nodiscard]] bool on_cuda(const Arguments& arguments);
/// --numerics. Throws Error (usage).
[[nodiscard]] Numerics numerics_of(const Arguments& arguments);
/// --data, or synthetic. Throws Error (unavailable) for networks that have none.
[[nodiscard]] std::unique_ptr<DataSource> data_of(const Session& session, const Arguments& arguments);

/// The scenario's step for so many ranks. Throws Error (unavailable) for what is simulated only.
[[nodiscard]] Program executable_program(const Session& session, int ranks);

/// Throws what every rank would: wrong options, data that cannot be read, a plan that no device here executes. To be
/// called once, before ranks are started.
void check_run(const Session& session, int ranks, const Arguments& arguments);

}  // namespace rehearse::cli
