#pragma once
// Scenario texts that the tests of this folder start from.

#include <nlohmann/json.hpp>

#include "core/config/scenario.hpp"
#include "tests/unit/config/support.hpp"

namespace rehearse::test {

/// GPT-3 175B on 128 DGX A100, every documented key of the format in place.
inline const char* const kGpt3 = R"({ "schema": "rehearse/scenario/v1",
  "model":    "models/gpt3_175b/config.json",
  "cluster":  { "machine": "dgx_a100_80gb", "nodes": 128, "network": "selene" },
  "training": { "global_batch": 1536, "sequence_length": 2048, "precision": "fp16_mixed", "optimizer": "adam",
  "tokens": "300e9" },
  "strategy": { "dp": 16, "tp": 8, "pp": 8, "cp": 1, "ep": 1, "microbatch": 1, "schedule": "interleaved_1f1b",
  "virtual_stages": 3,
                "sequence_parallel": false, "recompute": "full", "zero_stage": 0, "dp_shard": 1, "bucket": "25MB",
                "placement": "tp,cp,ep,dp,pp",
                "overlap": { "grad_reduce": true, "param_gather": false, "tp": false } },
  "kernels":  { "attention": "unfused", "fused_norm": true, "fused_cross_entropy": false, "cuda_graphs": false } })";

/// The least that a scenario must say.
inline const char* const kLeast =
    R"({"schema": "rehearse/scenario/v1", "model": "gpt2", "cluster": "lab", "training": {"global_batch": 8}})";

/// kLeast with `value` put at a JSON pointer.
inline std::string least_with(const std::string& pointer, const nlohmann::json& value) {
  nlohmann::json document = nlohmann::json::parse(kLeast);
  document[nlohmann::json::json_pointer(pointer)] = value;
  return document.dump();
}

inline Scenario parsed(const std::string& text, const std::vector<std::string>& overrides = {}) {
  return parse_scenario(text, "s.json", overrides);
}

inline Error refused_scenario(const std::string& text, const std::vector<std::string>& overrides = {}) {
  return refused([&] { (void)parsed(text, overrides); });
}

}  // namespace rehearse::test
