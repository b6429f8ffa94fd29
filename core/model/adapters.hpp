#pragma once
// Low-rank adapters on a network's products (Hu et al. 2021, LoRA, arXiv 2106.09685).

#include "core/config/settings/forward.hpp"
#include "core/model/network.hpp"

namespace rehearse {

/// `network` with everything frozen but an adapter beside each targeted product of its layers: y = W x + alpha/rank B A
/// dropout(x), A [rank, in] drawn with variance 2 / (in + rank) (Glorot and Bengio 2010), B [out, rank] zero, so that
/// training starts from the network itself. As given where rank is 0.
///
/// A is whole on all tensor-parallel ranks beside a column-parallel product, whose B is split as it is, and split along
/// `in` beside a row-parallel one, whose B is whole; only what has `rank` features is gathered or reduced on the way.
/// With LoraSettings::all_to_all B is split by outputs there too.
///
/// Throws Error (usage) for a network with experts or without sequences, and where no layer has a product that a target
/// names.
[[nodiscard]] Network with_adapters(Network network, const LoraSettings& lora);

}  // namespace rehearse
