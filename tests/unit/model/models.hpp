#pragma once
// Helpers of the model tests: shipped models by name, configurations as JSON, and look-ups by op name.

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "core/model/architecture.hpp"
#include "core/model/library.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/source_path.hpp"

namespace rehearse::test {

inline ModelLibrary library() { return ModelLibrary(rehearse::testing::source_path("scenarios/models")); }
inline Network shipped(std::string_view name) { return library().load(name); }

inline nlohmann::json gpt2_json(std::int64_t l, std::int64_t h, std::int64_t a, std::int64_t V, std::int64_t s) {
  return {{"model_type", "gpt2"}, {"n_layer", l}, {"n_embd", h}, {"n_head", a}, {"vocab_size", V}, {"n_positions", s}};
}

inline nlohmann::json llama_json() {
  return {{"model_type", "llama"},    {"num_hidden_layers", 2},        {"hidden_size", 64},
          {"num_attention_heads", 4}, {"intermediate_size", 176},      {"num_key_value_heads", 2},
          {"vocab_size", 256},        {"max_position_embeddings", 128}};
}

inline Network build(const nlohmann::json& config) { return build_network(config, "test.json"); }

/// The Error that `config` is refused with.
inline Error refusal(const nlohmann::json& config) {
  try {
    (void)build(config);
  } catch (const Error& e) {
    return e;
  }
  FAIL("accepted: " << config.dump());
  throw std::logic_error("unreachable");
}

inline const BlockSpec& block(const Network& n, std::string_view name) {
  return *std::find_if(n.blocks.begin(), n.blocks.end(), [&](const auto& b) { return b.name == name; });
}
template <class Named>
const Named* find(const std::vector<Named>& items, std::string_view name) {
  const auto it = std::find_if(items.begin(), items.end(), [&](const auto& i) { return i.name == name; });
  return it == items.end() ? nullptr : &*it;
}

}  // namespace rehearse::test
