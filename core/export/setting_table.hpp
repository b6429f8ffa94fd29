#pragma once
// From keys of the scenario to flags of a target, by a table. Private to core/export.

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "core/export/export.hpp"
#include "core/translate/language.hpp"

namespace rehearse::exporting {

using translate::Flag;
using translate::Flags;
using translate::Json;

/// What a value of `key` becomes; nothing where the target has no flag for it.
struct Rule {
  std::string key;
  std::string shown;  ///< The flags, for listings.
  std::function<std::optional<Flags>(const Json& value, const ExportInput& input)> write;
  std::string why{};  ///< Said where `write` gives nothing.
};

/// The value in a target's words (core/translate), which imports read by: name, switch or word as its table says.
[[nodiscard]] Rule told(const translate::Language& words, const std::string& key, std::string why = {});
/// Several keys and facts in a target's words, one after the other. Throws std::logic_error for one that it has no word
/// for: whoever writes a rule knows the table.
[[nodiscard]] Flags said(const translate::Language& words, std::initializer_list<std::pair<const char*, Json>> values);
/// By value; values not listed have no flag.
[[nodiscard]] Rule choice(std::string key, std::string shown, std::vector<std::pair<Json, Flags>> choices,
                          std::string why = {});

/// Nothing to say: other flags say it.
[[nodiscard]] std::optional<Flags> no_flags(const Json& value, const ExportInput& input);

struct Mapped {
  Flags flags;
  std::vector<ExportedSetting> settings;
  std::vector<LeftOutKey> left_out;
};
/// Every key of the scenario goes through the table. Keys that say how to predict, not how to train (calibration,
/// collective_table, input), are passed over; `model` and `cluster` are the target's own business.
[[nodiscard]] Mapped map_settings(const ExportInput& input, const std::vector<Rule>& rules, const std::string& target);

/// Whether several microbatches' gradients are added up whole, so that it matters whether products do that
/// (framework.fused_gradient_accumulation).
[[nodiscard]] bool sums_whole_gradients(const ExportInput& input);
/// That key, for targets whose gradients autograd adds up.
[[nodiscard]] Rule autograd_sums();

/// Whole steps of training.tokens; nothing where the scenario says none.
[[nodiscard]] std::optional<std::int64_t> whole_steps(const ExportInput& input);

/// Lists that training.tokens, which the target counts in `what` ("steps") of `each` tokens, are no whole number of
/// them.
void round_tokens(Mapped& mapped, const ExportInput& input, std::int64_t each, const std::string& what);

/// Adds flags that come from the model, listed under "model".
void add_model(Mapped& mapped, const Flags& flags);

/// The model, for targets that train decoder stacks only. Throws Error (usage) that says so for any other network.
[[nodiscard]] const TransformerConfig& trained_by(const std::string& target, const ExportInput& input);

/// Layers of each of the pp * virtual_stages chunks in model order; empty where all have as many. Of decoder stacks.
[[nodiscard]] std::vector<std::int64_t> chunk_layers(const ExportInput& input);

/// A registry entry from a table.
[[nodiscard]] bool enter(std::string name, std::string summary, const std::vector<Rule>& rules, Exporter exporter);

/// Nested objects from dotted names, in the order of the flags; switches are true.
[[nodiscard]] Json nested(const Flags& flags);
/// What a flag's value looks like on a command line.
[[nodiscard]] std::string plain(const Json& value);
/// Nodes with equal machines, of which the plan takes as many devices.
struct Pool {
  std::string gpu_id, gpu_name, vendor;
  bool is_cpu = false;  ///< Its devices are processors' sockets.
  int nodes = 0, gpus = 0;
};
/// Those of the plan's ranks, in order of the nodes; nodes that no rank runs on are none.
[[nodiscard]] std::vector<Pool> pools(const ExportInput& input);
[[nodiscard]] int node_count(const std::vector<Pool>& pools);
/// The comment that every file starts with: "# Written by rehearse 0.1.0 from ...".
[[nodiscard]] std::string banner(const ExportInput& input);
/// YAML, block style, every text in double quotes.
[[nodiscard]] std::string yaml(const Json& value);
/// TOML: tables, lists and plain values.
[[nodiscard]] std::string toml(const Json& value);

}  // namespace rehearse::exporting
