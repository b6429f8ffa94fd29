#pragma once
// What the lowerings of router, dispatch and combine share.

#include <stdexcept>
#include <string>

#include "core/strategy/bodies/block_lowering.hpp"

namespace rehearse::ops {

/// Name of the block's tensor that holds the experts of each token.
[[nodiscard]] std::string choice_of(const OpSpec& router);
/// The router whose weights are input 1 of `op`.
[[nodiscard]] const OpSpec& router_of(const BlockSpec& block, const OpSpec& op);

}  // namespace rehearse::ops
