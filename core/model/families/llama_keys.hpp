#pragma once
// Keys that the configurations of Llama and of all families that follow it have in common.

#include <initializer_list>
#include <vector>

#include "core/base/registry.hpp"
#include "core/model/hf_config.hpp"

namespace rehearse {

/// Sizes of layers, heads and MLP, base of the rotary angles. Throws as ObjectReader does.
[[nodiscard]] TransformerConfig read_decoder_sizes(ObjectReader& in);
/// The same with rotary embedding on whole heads, RMSNorm, gated SiLU.
[[nodiscard]] TransformerConfig read_llama_sizes(ObjectReader& in);
/// max_positions is at most `sliding_window`: up to it, results are those without a window.
void bound_by_window(TransformerConfig& c, ObjectReader& in);
/// Help for the keys of read_decoder_sizes(), and the family's own.
[[nodiscard]] std::vector<ParameterHelp> decoder_keys(std::initializer_list<ParameterHelp> own);
/// The same for read_llama_sizes().
[[nodiscard]] std::vector<ParameterHelp> llama_keys(std::initializer_list<ParameterHelp> own);

}  // namespace rehearse
