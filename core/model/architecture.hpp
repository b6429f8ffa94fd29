#pragma once
// Architectures by the `model_type` of their configuration. One file per family registers its types here; nothing else
// knows them.

#include <functional>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "core/base/registry.hpp"
#include "core/model/hf_config.hpp"
#include "core/model/network.hpp"

namespace rehearse {

struct Architecture {
  /// The network of a configuration. Throws Error (usage) with JSON path, value and hint.
  std::function<Network(ObjectReader&)> build;
  /// The dimensions alone; empty for an architecture that is no stack of equal decoder layers.
  std::function<TransformerConfig(ObjectReader&)> read;
};

/// Entries are named by `model_type`; their parameters are the keys read, for help.
[[nodiscard]] Registry<Architecture>& architectures();

/// Model types that are known and not built, with the operation that each needs.
[[nodiscard]] std::map<std::string, std::string>& refused_architectures();

/// An entry for a decoder family: reads the configuration, checks it as a whole, names the network after its
/// `model_type`.
[[nodiscard]] Architecture decoder_architecture(TransformerConfig (*read)(ObjectReader&),
                                                Network (*build)(const TransformerConfig&));

/// What a reader's object holds that nothing read, a sentence that names each key and its value; nothing where all of
/// it is known to change no step: names, tokens' numbers, generation, how released weights are stored.
[[nodiscard]] std::vector<std::string> notes_on_unread(const ObjectReader& in);

/// The network of a parsed `config.json`, chosen by its `model_type`, or of a layer list (layer_list.hpp), checked by
/// validate(). Of a model of images and text, whose `text_config` is of a known model type, it is the text's part; a
/// note says so. Keys that were not read are noted, too. `origin` names the file in errors and `path` is the JSON
/// pointer of a configuration inside it; an empty `name` takes the model type. Throws Error (usage): unknown model type
/// (with the valid ones), missing key, wrong type, value out of range, inconsistent values.
[[nodiscard]] Network build_network(const nlohmann::json& config, const std::string& origin,
                                    const std::string& name = {}, const std::string& path = {});

}  // namespace rehearse
