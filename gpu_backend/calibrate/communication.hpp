#pragma once
// Times of collectives and messages over the transport that runs use.

#include <vector>

#include "core/price/calibration/device_profile.hpp"
#include "gpu_backend/calibrate/team.hpp"

namespace rehearse {

/// Every collective among groups of 2, 4, ... and all ranks of the team, all groups at once, and messages between
/// neighbours; `seconds` is about how long it may take. Of the team's mean; the same on all its ranks. A call's buffers
/// are packed and unpacked, as tasks do.
[[nodiscard]] std::vector<DeviceProfile::Collective> measure_communication(Team& team, Transport& transport,
                                                                           double seconds);

/// What goes on at once: a product of `side` x `side` matrices, and all-reduces of `elements` numbers.
struct BesideCompute {
  std::int64_t side = 0, elements = 0;
};
/// Sizes that put all of a device to work.
[[nodiscard]] BesideCompute beside_compute(const ComputeDevice& device);

/// Share of its speed that compute loses while all-reduces of the whole team are under way.
[[nodiscard]] double taken_by_communication(Team& team, Transport& transport, double seconds,
                                            const BesideCompute& sizes);

}  // namespace rehearse
