#pragma once
// The models that torchtitan has by name and flavor. Private to core/export.

#include <optional>
#include <string>

#include "core/export/setting_table.hpp"
#include "core/model/hf_config.hpp"

namespace rehearse::exporting {

struct TitanModel {
  std::string name, flavor;      ///< model.name and model.flavor.
  bool pipelines = true;         ///< Its TrainSpec has a pipelining_fn.
  bool splits_sequences = true;  ///< Context parallelism: only scaled_dot_product_attention has it.
};

/// Names of the modules of each chunk of a pipeline, where chunks differ in layers; else empty. `head` is what the
/// release calls the product with the words.
[[nodiscard]] Json torchtitan_parts(const ExportInput& input, const std::string& head);

/// The flavor with the sizes of `config`; nothing where torchtitan has none.
[[nodiscard]] std::optional<TitanModel> torchtitan_model(const TransformerConfig& config);

}  // namespace rehearse::exporting
