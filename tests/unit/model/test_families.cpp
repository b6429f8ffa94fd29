// Files of public models, as stored repositories have them (families.json, each with its source), against the
// parameters that their owners publish; and what a file says that a network leaves out.

#include <algorithm>
#include <fstream>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/model/model_file.hpp"
#include "models.hpp"
#include "tests/unit/import/trace_files.hpp"

namespace rehearse::test {
namespace {

nlohmann::json public_models() {
  std::ifstream in(rehearse::testing::source_path("tests/unit/model/families.json"));
  return nlohmann::json::parse(in).at("models");
}

bool says(const std::vector<std::string>& notes, const std::string& what) {
  return std::any_of(notes.begin(), notes.end(),
                     [&](const std::string& n) { return n.find(what) != std::string::npos; });
}

TEST_CASE("Files of public models have the parameters that their owners publish") {
  for (const auto& row : public_models()) {
    INFO(row.at("name"));
    const Network n = build_network(row.at("config"), row.at("name"));
    const double within = row.value("within", 1e-3), stated = row.at("parameters");
    CHECK(static_cast<double>(n.parameter_count()) == Approx(stated).epsilon(within));
    if (row.contains("active"))
      CHECK(static_cast<double>(n.active_parameter_count()) == Approx(row.at("active").get<double>()).epsilon(0.13));
  }
}

TEST_CASE("Files of public models leave nothing out in silence, and nothing that is all there is noted") {
  // What is noted, and no more: a part for images, gates of shared experts, modules and indexers that are not built;
  // and the keys that a row names, which programs added to their files or which nobody here knows.
  for (const auto& row : public_models()) {
    INFO(row.at("name"));
    const std::vector<std::string> notes = build_network(row.at("config"), row.at("name")).notes;
    CHECK(says(notes, "not known here") == row.contains("noted"));
    for (const auto& key : row.value("noted", nlohmann::json::array()))
      CHECK(says(notes, key.get<std::string>() + " = "));
  }
}

TEST_CASE("Rows of public models say where their file and their number stand") {
  std::set<std::string> names, types;
  for (const auto& row : public_models()) {
    INFO(row.at("name"));
    CHECK(names.insert(row.at("name").get<std::string>()).second);
    types.insert(row.at("config").at("model_type").get<std::string>());
    CHECK_FALSE(row.at("config_from").get<std::string>().empty());
    CHECK_FALSE(row.at("parameters_from").get<std::string>().empty());
  }
  CHECK(names.size() >= 60);
  CHECK(types.size() >= 30);
}

TEST_CASE("A key that no family reads is noted with its value") {
  auto config = llama_json();
  CHECK(build(config).notes.empty());
  config.update({{"torch_dtype", "bfloat16"}, {"eos_token_id", 2}, {"rope_scaling", nullptr}, {"mystery", false}});
  CHECK(build(config).notes.empty());
  config["shared_expert_intermediate_size"] = 512;
  REQUIRE(build(config).notes.size() == 1);
  CHECK(says(build(config).notes, "shared_expert_intermediate_size = 512"));
  CHECK(build(config).parameter_count() == build(llama_json()).parameter_count());
}

TEST_CASE("A model of images and text is its text's part, and says so") {
  auto text = llama_json();
  const nlohmann::json config{{"model_type", "some_vision_model"},
                              {"text_config", text},
                              {"vision_config", {{"depth", 4}}},
                              {"tie_word_embeddings", true}};
  const Network n = build(config);
  CHECK(says(n.notes, "vision_config"));
  text["tie_word_embeddings"] = true;
  CHECK(n.parameter_count() == build(text).parameter_count());
}

TEST_CASE("A family whose layers need an operation that is not here is refused by its name") {
  for (const auto& [type, needs] : {std::pair{"jamba", "selective scan"},
                                    {"qwen3_next", "gated delta rule"},
                                    {"t5", "attention of a decoder to an encoder"}}) {
    auto config = llama_json();
    config["model_type"] = type;
    CHECK(std::string(refusal(config).what()).find(needs) != std::string::npos);
  }
}

TEST_CASE("A window doesn't shorten the sequence, and costs what its keys cost") {
  auto config = llama_json();
  config.update({{"model_type", "mistral"}, {"sliding_window", 32}});
  const Network n = build(config);
  CHECK(n.max_sequence_length == 128);
  for (const OpSpec& op : block(n, "layer").ops)
    if (op.kind == OpKind::attention) CHECK(op.attention_window == 32);
  config["sliding_window"] = 128;
  for (const OpSpec& op : block(build(config), "layer").ops) CHECK(op.attention_window == 0);
}

TEST_CASE("Layers of several kinds stand in the order that the file gives") {
  auto config = llama_json();
  config.update({{"model_type", "gemma3_text"}, {"num_hidden_layers", 7}, {"sliding_window", 16}, {"head_dim", 16}});
  const Network n = build(config);
  const std::vector<int> order = n.order();
  for (int layer = 0; layer < 7; ++layer) {
    const BlockSpec& b = n.blocks[static_cast<std::size_t>(order[static_cast<std::size_t>(layer) + 1])];
    const bool windowed =
        std::any_of(b.ops.begin(), b.ops.end(), [](const OpSpec& o) { return o.attention_window > 0; });
    CHECK(windowed == (layer != 5));
  }
  // Norms before and after each branch, of queries and of keys.
  CHECK(std::count_if(n.blocks[1].ops.begin(), n.blocks[1].ops.end(),
                      [](const OpSpec& o) { return o.kind == OpKind::rms_norm; }) == 6);
  CHECK(n.blocks.front().params.front().shape[0].size == 256);
}

TEST_CASE("Linear biases take the place of positions and have no parameters") {
  nlohmann::json config{{"model_type", "mpt"}, {"d_model", 64},     {"n_heads", 4},
                        {"n_layers", 2},       {"vocab_size", 100}, {"max_seq_len", 32}};
  const std::int64_t learned = build(config).parameter_count();
  config["attn_config"] = {{"alibi", true}, {"attn_impl", "flash"}};
  const Network n = build(config);
  CHECK(learned - n.parameter_count() == 32 * 64);
  CHECK(says(n.simulated_only, "ALiBi"));
  CHECK(n.notes.empty());
  config["attn_config"]["sparse_mask"] = 7;
  CHECK(says(build(config).notes, "sparse_mask = 7"));
}

TEST_CASE("Numbers that Python writes and JSON has no words for are read") {
  const rehearse::testing::ScratchFile file(R"({"a": [0.0, Infinity, -Infinity, NaN], "text": "NaN \"Infinity"})",
                                            ".json");
  const nlohmann::json read = read_model_file(file.path());
  CHECK(read.at("a") == nlohmann::json{0.0, nullptr, nullptr, nullptr});
  CHECK(read.at("text") == "NaN \"Infinity");
}

}  // namespace
}  // namespace rehearse::test
