#pragma once
// Ranks as processes: groups within one machine talk through memory (memory/), others over TCP by Gloo. Present in
// every build; where Gloo is missing it throws.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "gpu_backend/communicate/communicator.hpp"

namespace rehearse {

/// Where a rank meets the others.
struct MeetingPoint {
  std::string host;  ///< Of the rendezvous (net/rendezvous.hpp).
  int port = 0;
  std::string run_id;  ///< Of the run (net::RunName).
};

/// How ranks of one machine talk.
enum class Neighbourhood : std::uint8_t { through_memory, over_tcp };

/// Joins as `rank` of `ranks`, and waits for them. `on_failure` is called from another thread when a rank fails or
/// dies: calls in flight may never return then, so the process should end. Throws Error (unavailable) in a build
/// without Gloo, Error (check_failed) where the rendezvous cannot be reached.
[[nodiscard]] std::unique_ptr<Transport> join_gloo(int rank, int ranks, const MeetingPoint& at,
                                                   std::function<void(const std::string& cause)> on_failure,
                                                   Neighbourhood neighbourhood = Neighbourhood::through_memory);

}  // namespace rehearse
