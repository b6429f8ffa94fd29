#pragma once
// Which software trains, and what it does: the part of a scenario's keys of that name which has no place in the other
// settings.

#include <string>

#include "core/config/settings/choices.hpp"

namespace rehearse {

struct FrameworkSettings {
  std::string name;                ///< "torchtitan@0.2"; empty: no profile.
  bool merged_projections = true;  ///< Query, key and value are one product, gate and up another.
  CheckpointStyle checkpoints = CheckpointStyle::megatron;

  bool operator==(const FrameworkSettings&) const = default;
};

}  // namespace rehearse
