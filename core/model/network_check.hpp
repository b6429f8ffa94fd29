#pragma once

#include "core/model/network.hpp"

namespace rehearse {

/// Checks that a network is one: names are unique, every op reads tensors that exist by then, takes as many tensors and
/// parameters as its kind does and on shapes that fit, every parameter is used, ties point to a parameter of equal
/// size, and each block takes what the block before hands on. Throws Error (usage) with "NETWORK: BLOCK/OP" as place.
void validate(const Network& network);

}  // namespace rehearse
