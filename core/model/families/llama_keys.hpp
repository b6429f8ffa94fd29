#pragma once
// Keys that the configurations of Llama and of all families that follow it have in common.

#include <initializer_list>
#include <vector>

#include "core/base/registry.hpp"
#include "core/model/hf_config.hpp"

namespace rehearse {

/// Sizes of layers, heads and MLP, base of the rotary angles. `layers` is their number where the file doesn't say it;
/// 0: it must. Throws as ObjectReader does.
[[nodiscard]] TransformerConfig read_decoder_sizes(ObjectReader& in, std::int64_t layers = 0);
/// The same with rotary embedding on whole heads, RMSNorm, gated SiLU.
[[nodiscard]] TransformerConfig read_llama_sizes(ObjectReader& in);
/// All layers attend to `sliding_window` tokens, if the longest sequence has more.
void read_window(TransformerConfig& c, ObjectReader& in);
/// Help for the keys of read_decoder_sizes(), and the family's own.
[[nodiscard]] std::vector<ParameterHelp> decoder_keys(std::initializer_list<ParameterHelp> own);
/// The same for read_llama_sizes().
[[nodiscard]] std::vector<ParameterHelp> llama_keys(std::initializer_list<ParameterHelp> own);

}  // namespace rehearse
