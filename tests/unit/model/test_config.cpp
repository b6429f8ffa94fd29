// What configurations mean, and how wrong ones are refused.

#include <cmath>

#include "core/model/hf_config.hpp"
#include "models.hpp"

namespace rehearse::test {
namespace {

nlohmann::json neox_json() {
  return {{"model_type", "gpt_neox"},      {"num_hidden_layers", 2}, {"hidden_size", 64},
          {"num_attention_heads", 4},      {"vocab_size", 256},      {"intermediate_size", 256},
          {"max_position_embeddings", 128}};
}

TEST_CASE("every family's sizes arrive under one set of names") {
  const auto gpt = parse_hf_config(gpt2_json(3, 48, 6, 100, 32), "gpt");
  CHECK(gpt.model_type == "gpt2");
  CHECK((gpt.layers == 3 && gpt.hidden == 48 && gpt.heads == 6 && gpt.kv_heads == 6 && gpt.head_dim == 8));
  CHECK((gpt.ffn == 192 && gpt.vocabulary == 100 && gpt.max_positions == 32 && gpt.rotary_dim == 0));
  CHECK((gpt.tied && gpt.qkv_bias && gpt.mlp_bias && gpt.tanh_gelu));

  const auto llama = parse_hf_config(llama_json(), "llama");
  CHECK(
      (llama.heads == 4 && llama.kv_heads == 2 && llama.head_dim == 16 && llama.ffn == 176 && llama.rotary_dim == 16));
  CHECK((!llama.tied && !llama.qkv_bias && !llama.mlp_bias && llama.norm == OpKind::rms_norm));

  const auto neox = parse_hf_config(neox_json(), "neox");
  CHECK((neox.rotary_dim == 4 && neox.rope_theta == 1e4 && neox.parallel_residual && !neox.tied && neox.qkv_bias));
}

TEST_CASE("defaults are Hugging Face's") {
  auto config = gpt2_json(2, 64, 4, 100, 32);
  config["n_inner"] = nullptr;  // as the published file has it
  CHECK(parse_hf_config(config, "f").ffn == 256);
  CHECK(parse_hf_config(config, "f").hidden_dropout == 0.1);
  config["n_inner"] = 100;
  CHECK(parse_hf_config(config, "f").ffn == 100);

  auto llama = llama_json();
  llama.erase("num_key_value_heads");
  CHECK(parse_hf_config(llama, "f").kv_heads == 4);
  CHECK(parse_hf_config(llama, "f").rope_theta == 1e4);
  llama["head_dim"] = 32;
  CHECK(parse_hf_config(llama, "f").head_dim == 32);
  llama["rope_parameters"] = {{"rope_theta", 5e5}, {"rope_type", "default"}};
  CHECK(parse_hf_config(llama, "f").rope_theta == 5e5);
}

TEST_CASE("keys that change no shape are ignored") {
  auto config = llama_json();
  config.update(
      {{"torch_dtype", "bfloat16"}, {"architectures", {"LlamaForCausalLM"}}, {"bos_token_id", 1}, {"use_cache", true}});
  CHECK(build(config).parameter_count() == build(llama_json()).parameter_count());
}

TEST_CASE("an unknown model type names the valid ones and the nearest") {
  auto config = llama_json();
  config["model_type"] = "lama";
  const auto e = refusal(config);
  CHECK(e.kind == ErrorKind::usage);
  CHECK(e.where == "test.json: /model_type");
  const std::string said = std::string(e.what()) + e.hint;
  CHECK(said.find("lama") != std::string::npos);
  CHECK(said.find("did you mean 'llama'") != std::string::npos);
  for (const auto* name : {"bert", "gpt2", "mixtral"}) CHECK(said.find(name) != std::string::npos);
}

TEST_CASE("a wrong value is refused at its JSON path, for every required size") {
  struct Family {
    nlohmann::json config;
    std::vector<std::string> sizes;
  };
  const std::vector<std::string> sizes{"num_hidden_layers", "hidden_size", "num_attention_heads",
                                       "intermediate_size", "vocab_size",  "max_position_embeddings"};
  const Family families[] = {
      {gpt2_json(2, 64, 4, 100, 32), {"n_layer", "n_embd", "n_head", "vocab_size", "n_positions"}},
      {neox_json(), sizes},
      {llama_json(), sizes}};
  const nlohmann::json bad[] = {
      0, -4, 2.5, 1e30, NAN, INFINITY, "64", true, std::uint64_t{1} << 63, nlohmann::json::array({4})};
  for (const auto& family : families)
    for (const auto& key : family.sizes) {
      for (const auto& value : bad) {
        auto config = family.config;
        config[key] = value;
        INFO(key << " = " << value.dump());
        const auto e = refusal(config);
        CHECK(e.kind == ErrorKind::usage);
        CHECK(e.where == "test.json: /" + key);
      }
      auto config = family.config;
      config.erase(key);
      CHECK(std::string(refusal(config).what()).find(key) != std::string::npos);
    }
}

TEST_CASE("probabilities, flags and small numbers are checked too") {
  const auto refused_at = [](nlohmann::json config, const std::string& key, const nlohmann::json& value) {
    config[key] = value;
    return refusal(config).where == "test.json: /" + key;
  };
  const auto gpt = gpt2_json(2, 64, 4, 100, 32);
  for (const auto* key : {"attn_pdrop", "embd_pdrop", "resid_pdrop"})
    for (const nlohmann::json& value :
         {nlohmann::json(1.0), nlohmann::json(-0.1), nlohmann::json(NAN), nlohmann::json("0.1")})
      CHECK(refused_at(gpt, key, value));
  CHECK(refused_at(gpt, "tie_word_embeddings", 1));
  CHECK(refused_at(gpt, "activation_function", "relu"));
  CHECK(refused_at(gpt, "add_cross_attention", true));
  CHECK(refused_at(neox_json(), "rotary_pct", 1.5));
  CHECK(refused_at(neox_json(), "rotary_pct", 0.0));
  CHECK(refused_at(llama_json(), "rms_norm_eps", -1e-5));
  CHECK(refused_at(llama_json(), "rope_theta", 0));
  CHECK(refused_at(llama_json(), "rope_parameters", 3));
  CHECK(refused_at(llama_json(), "hidden_act", "gelu"));
}

TEST_CASE("sizes that do not divide are refused with the equation") {
  auto gpt = gpt2_json(2, 64, 5, 100, 32);
  CHECK(std::string(refusal(gpt).what()) == "n_embd (64) mod n_head (5) = 4 != 0");
  CHECK_FALSE(refusal(gpt).hint.empty());
  auto llama = llama_json();
  llama["num_key_value_heads"] = 3;
  CHECK(std::string(refusal(llama).what()).find("heads (4) mod key/value heads (3) = 1 != 0") != std::string::npos);
  llama = llama_json();
  llama["head_dim"] = 17;  // rotation turns pairs
  CHECK(std::string(refusal(llama).what()).find("17") != std::string::npos);
  llama["head_dim"] = kMaxWidth;
  CHECK(refusal(llama).kind == ErrorKind::usage);
}

TEST_CASE("the largest configuration allowed does not overflow a count") {
  auto config = llama_json();
  config.update({{"num_hidden_layers", kMaxLayers},
                 {"hidden_size", kMaxWidth},
                 {"intermediate_size", kMaxWidth},
                 {"num_key_value_heads", 4},
                 {"vocab_size", kMaxVocabulary},
                 {"max_position_embeddings", kMaxPositions}});
  const double h = static_cast<double>(kMaxWidth);
  CHECK(static_cast<double>(build(config).parameter_count()) == Approx(kMaxLayers * 7.0 * h * h).epsilon(0.01));
}

TEST_CASE("a configuration inside another file is reported by its whole path") {
  auto config = llama_json();
  config["hidden_size"] = -1;
  try {
    (void)build_network(config, "scenario.json", "mine", "/model");
    FAIL("accepted");
  } catch (const Error& e) {
    CHECK(e.where == "scenario.json: /model/hidden_size");
  }
  CHECK(build_network(llama_json(), "scenario.json", "mine", "/model").name == "mine");
  CHECK(refusal(nlohmann::json::array()).kind == ErrorKind::usage);
}

}  // namespace
}  // namespace rehearse::test
