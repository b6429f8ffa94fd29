#pragma once
// Where samples come from: keys of a scenario after parsing and validation.

#include "core/base/units.hpp"
#include "core/config/setting_key.hpp"

namespace rehearse {

/// Where samples come from. Without a sample size input costs its copy to the device only.
struct InputSettings {
  Bytes sample{0};                 ///< Stored size of one sample.
  BytesPerSecond storage{0};       ///< Read rate of one node, shared by those of its ranks that load; 0: no limit.
  double decode_per_core = 0;      ///< Samples per second that one core decodes; 0: nothing to decode.
  int workers = 4;                 ///< Loader processes, a core each, per GPU, also where one rank loads for all.
  bool gpudirect_storage = false;  ///< Storage writes to GPU memory, past the CPU.
  DeclaredSettings declared = {};  ///< Keys that other files declare.

  bool operator==(const InputSettings&) const = default;
};

}  // namespace rehearse
