#pragma once
// What is made again in backward instead of being kept: the modules of selective recomputation, and the layers of full
// recomputation.
//
// Modules are those of Megatron-Core's --recompute-modules. A module's results are dropped after forward and the values
// it reads from outside are kept; its ops run again, once, before the first of them in backward. `core_attn` belongs to
// unfused attention (ops_attention.cpp).
//
// Three more are PyTorch's checkpoints of a layer: `layer` is all of it; `all_but_attention` keeps the attention's
// result; `every_second_product` keeps every other product as well (selective checkpointing by operator, as torchtitan
// has it). They stop early: what backward does not read is not made again, which spares the layer's last product.

#include <string>
#include <vector>

#include "core/config/settings/forward.hpp"
#include "core/model/network.hpp"

namespace rehearse {

/// Index into `modules` of the first that contains each op of a block; -1 for ops of none, and everywhere in blocks
/// that are not layers.
[[nodiscard]] std::vector<int> modules_of(const BlockSpec& spec, const std::vector<std::string>& modules);

/// Ops of checkpoints that stop early whose results nobody reads again: neither backward, of which `needed` are the
/// values that it reads, nor another op of the checkpoint.
[[nodiscard]] std::vector<bool> unread_again(const BlockSpec& spec, const std::vector<bool>& needed,
                                             const std::vector<int>& module_of,
                                             const std::vector<std::string>& modules);

/// Which tensors are kept from forward to backward, by index, where `needed` are those that backward reads; `module_of`
/// and `unread`, which does not run again, are per op.
[[nodiscard]] std::vector<bool> kept_values(const BlockSpec& spec, std::vector<bool> needed,
                                            const std::vector<int>& module_of, const std::vector<bool>& unread);

/// The op that writes tensor `t` of a block, or -1.
[[nodiscard]] int writer_of(const BlockSpec& spec, int t);

}  // namespace rehearse
