#pragma once
// Rows of measurement files as tests write them.

#include <unistd.h>
#include <filesystem>
#include <fstream>
#include <string>

#include <nlohmann/json.hpp>

#include "core/base/error.hpp"
#include "core/scoreboard/rows/row_scenario.hpp"
#include "core/scoreboard/scoreboard.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/source_path.hpp"

namespace rehearse::test {

inline const std::string kRoot = rehearse::testing::source_path("");

/// A Llama 8B on eight H100, complete but for its software.
inline nlohmann::json row_json() {
  return nlohmann::json::parse(R"({"id": "a", "source": "somebody's blog",
    "config": {"model": "llama-ish", "model_family": "llama", "hidden": 4096, "layers": 32, "heads": 32,
    "kv_heads": 8, "ffn": 14336, "vocab": 128256, "seq_len": 8192,
               "gpus": 8, "gpu_type": "H100-SXM5-80GB", "global_batch": 16, "micro_batch": 1, "dp": 4, "tp": 2,
               "pp": 1, "cp": 1, "zero_stage": 1,
               "recompute": "full", "sequence_parallel": true, "precision": "bf16", "optimizer": "adamw"},
    "measured": {"tokens_per_s_per_gpu": 512.0}, "notes": "", "from_memory": false})");
}

inline Measurement row_of(const nlohmann::json& row) {
  return parse_measurements(nlohmann::json{{"entries", {row}}}.dump(), "rows.json").at(0);
}

inline const RowDefaults& row_defaults() {
  static const RowDefaults table = RowDefaults::load(kRoot + "/topologies/row_defaults.json");
  return table;
}

inline const Catalogue& catalogue() {
  static const Catalogue read(kRoot + "/topologies");
  return read;
}

inline const KnownModels& known_models() {
  static const ModelLibrary library(kRoot + "/scenarios/models");
  static const KnownModels models(library);
  return models;
}

inline const Frameworks& frameworks() {
  static const Frameworks read = Frameworks::load(kRoot + "/topologies/frameworks");
  return read;
}

inline RowSources row_sources() { return {row_defaults(), frameworks(), catalogue(), known_models()}; }

inline MappedRow mapped(const nlohmann::json& row) { return map_row(row_of(row), row_sources()); }

inline PredictorPaths paths() { return {kRoot + "/topologies", kRoot + "/scenarios/models"}; }

}  // namespace rehearse::test
