// What strategies rely on: blocks, tags, segments, ties, and which ops are there.

#include <cmath>

#include <algorithm>

#include "models.hpp"

#include "core/base/index.hpp"

namespace rehearse::test {
namespace {

std::string ops_of(const BlockSpec& b) {
  std::string out;
  for (const auto& op : b.ops) out += op.name + " ";
  return out;
}

const ParamSpec& param(const BlockSpec& b, std::string_view name) { return *find(b.params, name); }

nlohmann::json with_dropout(double p) {
  auto config = gpt2_json(2, 64, 4, 100, 32);
  config.update({{"embd_pdrop", p}, {"attn_pdrop", p}, {"resid_pdrop", p}});
  return config;
}

TEST_CASE("every model over sequences is an embedding, layers and a head that ends in the loss") {
  for (const auto& name : library().names()) {
    INFO(name);
    const auto n = shipped(name);
    CHECK(n.name == name);
    if (!n.sequences) continue;
    REQUIRE(n.blocks.size() >= 3);
    CHECK((n.blocks.front().name == "embedding" && n.blocks.back().name == "head"));
    CHECK((n.blocks.front().input == -1 && n.blocks.back().output == -1));
    int layers = 0;
    for (std::size_t b = 1; b + 1 < n.blocks.size(); ++b) {
      CHECK(n.blocks[b].is_layer());
      layers += n.repeat[b];
    }
    CHECK(n.layers() == layers);
    const OpSpec& last = n.blocks.back().ops.back();
    CHECK(nth(n.blocks.back().tensors, last.outputs[0]).fp32);
  }
}

TEST_CASE("every model ends in a loss") {
  for (const auto& name : library().names()) {
    INFO(name);
    const auto n = shipped(name);
    const auto& ops = n.blocks.back().ops;
    CHECK(std::any_of(ops.begin(), ops.end(), [](const OpSpec& op) {
      return op.kind == OpKind::cross_entropy || op.kind == OpKind::pixel_loss || op.kind == OpKind::adversarial_loss;
    }));
  }
}

TEST_CASE("a GPT-2 layer, op by op") {
  CHECK(ops_of(block(build(with_dropout(0.1)), "layer")) ==
        "ln1 attention.qkv attention.core attention.proj attention.dropout attention.add "
        "ln2 mlp.fc1 mlp.gelu mlp.fc2 mlp.dropout mlp.add ");
  CHECK(ops_of(block(build(with_dropout(0.1)), "embedding")) == "word position dropout ");
}

TEST_CASE("no dropout, no op and no mask") {
  const auto n = build(with_dropout(0));
  CHECK(ops_of(block(n, "layer")) ==
        "ln1 attention.qkv attention.core attention.proj attention.add ln2 mlp.fc1 mlp.gelu mlp.fc2 mlp.add ");
  CHECK(ops_of(block(n, "embedding")) == "word position ");
  CHECK(find(block(n, "layer").ops, "attention.core")->p == 0.0);
  CHECK(n.parameter_count() == build(with_dropout(0.1)).parameter_count());
}

TEST_CASE("a Llama layer rotates q and k and gates its MLP") {
  const auto n = shipped("llama3_8b");
  CHECK(ops_of(block(n, "layer")) ==
        "ln1 attention.qkv attention.rope_q attention.rope_k attention.core attention.proj attention.add ln2 "
        "mlp.gate_up mlp.silu_mul "
        "mlp.down mlp.add ");
  CHECK(ops_of(block(n, "embedding")) == "word ");
  const auto& rope = *find(block(n, "layer").ops, "attention.rope_q");
  CHECK((rope.rotary_dim == 128 && rope.rope_theta == 5e5));
}

TEST_CASE("projections apart are the same parameters in more products") {
  nlohmann::json config{{"model_type", "llama"},    {"num_hidden_layers", 2},       {"hidden_size", 64},
                        {"num_attention_heads", 4}, {"num_key_value_heads", 2},     {"intermediate_size", 96},
                        {"vocab_size", 128},        {"max_position_embeddings", 64}};
  const auto merged = build(config);
  config["merged_projections"] = false;
  const auto apart = build(config);
  CHECK(ops_of(block(apart, "layer")) ==
        "ln1 attention.q attention.k attention.v attention.rope_q attention.rope_k attention.core attention.proj "
        "attention.add ln2 mlp.gate mlp.up mlp.silu_mul "
        "mlp.down mlp.add ");
  CHECK(apart.parameter_count() == merged.parameter_count());
}

TEST_CASE("the two GPT-NeoX residuals have equal parameters") {
  const auto parallel = shipped("gpt_neox_20b");
  CHECK(ops_of(block(parallel, "layer")) ==
        "ln1 attention.qkv attention.rope_q attention.rope_k attention.core attention.proj ln2 mlp.fc1 mlp.gelu "
        "mlp.fc2 branches.add "
        "residual.add ");
  CHECK(find(block(parallel, "layer").ops, "attention.rope_q")->rotary_dim == 24);  // a quarter of 96
  const auto& ops = block(parallel, "layer").ops;
  CHECK(find(ops, "ln1")->inputs == find(ops, "ln2")->inputs);

  const nlohmann::json config{{"model_type", "gpt_neox"},        {"num_hidden_layers", 44},       {"hidden_size", 6144},
                              {"intermediate_size", 24576},      {"num_attention_heads", 64},     {"vocab_size", 50432},
                              {"max_position_embeddings", 2048}, {"use_parallel_residual", false}};
  const auto sequential = build(config);
  CHECK(find(block(sequential, "layer").ops, "ln1")->inputs != find(block(sequential, "layer").ops, "ln2")->inputs);
  CHECK(sequential.parameter_count() == parallel.parameter_count());
}

TEST_CASE("tags say which dimension of a weight tensor parallelism splits") {
  for (const auto& name : library().names()) {
    INFO(name);
    const auto n = shipped(name);
    if (!n.sequences || n.routing() != nullptr || !n.pattern.empty()) continue;
    const auto& layer = block(n, "layer");
    const bool gated = find(layer.ops, "mlp.gate_up") != nullptr;
    const auto tags = [&](const BlockSpec& b, std::string_view p) {
      return std::pair(param(b, p).shape[0].tag, param(b, p).shape[1].tag);
    };
    CHECK(tags(layer, "attention.qkv.weight") == std::pair(DimTag::heads, DimTag::hidden));
    CHECK(tags(layer, "attention.proj.weight") == std::pair(DimTag::hidden, DimTag::heads));
    CHECK(tags(layer, gated ? "mlp.gate_up.weight" : "mlp.fc1.weight") == std::pair(DimTag::ffn, DimTag::hidden));
    CHECK(tags(layer, gated ? "mlp.down.weight" : "mlp.fc2.weight") == std::pair(DimTag::hidden, DimTag::ffn));
    CHECK(tags(block(n, "head"), "logits.weight") == std::pair(DimTag::vocabulary, DimTag::hidden));
    CHECK(tags(block(n, "embedding"), "word.weight") == std::pair(DimTag::vocabulary, DimTag::hidden));
  }
}

TEST_CASE("fused projections make views whose segments split with the heads") {
  const auto n = shipped("llama3_70b");
  const auto& layer = block(n, "layer");
  const auto& qkv = param(layer, "attention.qkv.weight");
  CHECK(qkv.shape[0].size == (64 + 2 * 8) * 128);
  CHECK(qkv.segments == std::vector<std::int64_t>{64 * 128, 8 * 128, 8 * 128});
  CHECK(param(layer, "mlp.gate_up.weight").segments == std::vector<std::int64_t>{28672, 28672});
  CHECK(param(layer, "mlp.down.weight").segments.empty());

  const auto& q = find(layer.tensors, "attention.q")->shape;
  const auto& k = find(layer.tensors, "attention.k")->shape;
  CHECK((q[0].tag == DimTag::batch && q[1].tag == DimTag::sequence));
  CHECK((q[2].tag == DimTag::heads && q[2].size == 64 && q[3].tag == DimTag::head_dim && q[3].size == 128));
  CHECK((k[2].tag == DimTag::kv_heads && k[2].size == 8));
}

TEST_CASE("biases are where the family has them") {
  const auto biases = [](const nlohmann::json& config) {
    const auto n = build(config);
    std::string out;
    for (const auto& p : block(n, "layer").params)
      if (p.name.ends_with("bias") && !p.name.starts_with("ln")) out += p.name + " ";
    return out;
  };
  auto config = llama_json();
  CHECK(biases(config).empty());
  config["attention_bias"] = true;
  CHECK(biases(config) == "attention.qkv.bias attention.proj.bias ");
  config["mlp_bias"] = true;
  CHECK(biases(config) == "attention.qkv.bias attention.proj.bias mlp.gate_up.bias mlp.down.bias ");
  config["model_type"] = "qwen2";
  CHECK(biases(config) == "attention.qkv.bias ");
  CHECK(biases(with_dropout(0)) == "attention.qkv.bias attention.proj.bias mlp.fc1.bias mlp.fc2.bias ");
}

TEST_CASE("a tied output shares the word table and is counted once") {
  auto config = gpt2_json(2, 64, 4, 100, 32);
  const auto tied = build(config);
  config["tie_word_embeddings"] = false;
  const auto untied = build(config);
  CHECK(param(block(tied, "head"), "logits.weight").tied_to == "embedding.word.weight");
  CHECK(untied.parameter_count() - tied.parameter_count() == 100 * 64);
  CHECK(block(untied, "head").parameter_count() == block(tied, "head").parameter_count());
  CHECK(model_flops(untied, 1, 32) == model_flops(tied, 1, 32));
}

TEST_CASE("GPT-2's residual projections start smaller by sqrt(2l)") {
  const auto n = build(gpt2_json(8, 64, 4, 100, 32));
  const auto& layer = block(n, "layer");
  CHECK(param(layer, "mlp.fc1.weight").init_std == 0.02);
  CHECK(param(layer, "mlp.fc2.weight").init_std == Approx(0.02 / 4));
  CHECK(param(layer, "attention.proj.weight").init_std == Approx(0.02 / 4));
  CHECK((param(layer, "ln1.weight").init_one && !param(layer, "ln1.bias").init_one));
}

}  // namespace
}  // namespace rehearse::test
