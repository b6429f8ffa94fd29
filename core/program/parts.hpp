#pragma once
// Values of Tensor::part that others than the rule that keeps them know.

namespace rehearse {

/// The full-precision copy of 16-bit weights, which are it rounded.
inline constexpr const char* kMasterPart = "master";

}  // namespace rehearse
