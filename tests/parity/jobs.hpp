#pragma once
// The strategies that parity is shown for, found from the registries, and the settings that turn each on at a number of
// ranks.

#include "core/config/settings/strategy.hpp"
#include "core/model/adapters.hpp"
#include "core/model/images/layer_list.hpp"
#include "core/schedule/schedule.hpp"
#include "core/strategy/workload.hpp"
#include "tests/parity/parity.hpp"

namespace rehearse::test {

inline constexpr int kSamples = 8;  ///< Sequences per step, however they are split.

/// A setting that parity must not depend on. `ranks` is the factor it multiplies ranks by.
struct Variation {
  std::string name;
  int ranks;
  std::function<void(StrategySettings&)> apply;
};

/// Those that a strategy states itself.
inline std::vector<Variation> stated_by(const Strategy& strategy) {
  std::vector<Variation> out;
  for (const StrategyExample& e : strategy.examples())
    out.push_back({e.name, e.ranks, [e](StrategySettings& s) {
                     s.*e.axis *= e.ranks;
                     e.turn_on(s);
                   }});
  return out;
}

/// Settings of every registered strategy by name; a strategy without examples of its own and without an entry here
/// fails the test that walks the registry.
inline const std::map<std::string, std::vector<Variation>>& variations() {
  static const std::map<std::string, std::vector<Variation>> kStatedHere{
      {"data_parallel",
       {{"dp", 2, [](StrategySettings& s) { s.dp_replicate *= 2; }},
        {"dp, one bucket at the end", 2,
         [](StrategySettings& s) {
           s.dp_replicate *= 2;
           s.overlap.grad_reduce = false;
         }},
        {"dp, reduced after every microbatch", 2,
         [](StrategySettings& s) {
           s.dp_replicate *= 2;
           s.grad_sync = GradientSync::every;
         }},
        {"dp, unequal replicas", 2,
         [](StrategySettings& s) {
           s.dp_replicate *= 2;
           if (s.dp_replicate * s.dp_shard == 2) s.batch_per_replica = {kSamples / 2 + 1, kSamples / 2 - 1};
         }},
        {"dp_shard", 2,
         [](StrategySettings& s) {
           s.dp_shard *= 2;
           s.bucket = Bytes{1e3};
         }}}},
      {"tensor_parallel",
       {{"tp", 2, [](StrategySettings& s) { s.tp *= 2; }},
        {"tp, reductions after weight gradients", 2,
         [](StrategySettings& s) {
           s.tp *= 2;
           s.overlap.tp_backward = false;
         }}}},
      {"sequence_parallel",
       {{"tp with sequence parallelism", 2,
         [](StrategySettings& s) {
           s.tp *= 2;
           s.sequence_parallel = true;
         }}}},
      {"context_parallel",
       {{"cp, ring", 2, [](StrategySettings& s) { s.cp *= 2; }},
        {"cp, Ulysses", 2,
         [](StrategySettings& s) {
           s.cp *= 2;
           s.context = ContextExchange::ulysses;
         }},
        {"cp, all-gather", 2,
         [](StrategySettings& s) {
           s.cp *= 2;
           s.context = ContextExchange::allgather;
         }}}},
      {"overlapped_tensor_parallel",
       {{"tp in pieces", 2,
         [](StrategySettings& s) {
           s.tp *= 2;
           s.sequence_parallel = true;
           s.overlap.tp = true;
         }}}},
      {"zero1",
       {{"zero1", 2,
         [](StrategySettings& s) {
           s.dp_replicate *= 2;
           s.zero_stage = 1;
         }},
        {"zero1, gathered late", 2,
         [](StrategySettings& s) {
           s.dp_shard *= 2;
           s.zero_stage = 1;
           s.overlap.param_gather = true;
         }}}},
      {"zero2",
       {{"zero2", 2,
         [](StrategySettings& s) {
           s.dp_shard *= 2;
           s.zero_stage = 2;
         }}}},
      {"zero3",
       {{"zero3", 2,
         [](StrategySettings& s) {
           s.dp_shard *= 2;
           s.zero_stage = 3;
         }}}},
      {"fsdp",
       {{"fsdp", 2,
         [](StrategySettings& s) {
           s.dp_shard *= 2;
           s.fsdp.enabled = true;
         }},
        {"fsdp, kept after forward", 2,
         [](StrategySettings& s) {
           s.dp_shard *= 2;
           s.fsdp.enabled = true;
           s.fsdp.reshard_after_forward = Reshard::never;
         }}}},
      {"hsdp",
       {{"hsdp", 4,
         [](StrategySettings& s) {
           s.dp_shard *= 2;
           s.dp_replicate *= 2;
           s.fsdp.enabled = true;
         }}}},
      {"pipeline_parallel",
       {{"pp", 2, [](StrategySettings& s) { s.pp *= 2; }},
        {"pp, blocking", 2,
         [](StrategySettings& s) {
           s.pp *= 2;
           s.overlap.pp = false;
         }},
        {"pp, uneven stages", 2,
         [](StrategySettings& s) {
           s.pp *= 2;
           s.layers_per_stage = s.pp == 2 ? std::vector<std::int64_t>{3, 1}
                                          : std::vector<std::int64_t>(static_cast<std::size_t>(s.pp), 1);
         }},
        {"pp, scattered messages", 2,
         [](StrategySettings& s) {
           s.pp *= 2;
           s.scatter_gather = true;
         }},
        {"pp, deferred head gradients", 2,
         [](StrategySettings& s) {
           s.pp *= 2;
           s.deferred_head_gradients = 1;
         }}}},
      {"model_parallel",
       {{"model parallelism", 2,
         [](StrategySettings& s) {
           s.pp *= 2;
           s.schedule = "model_parallel";
         }}}},
      {"expert_parallel",
       {{"ep", 2,
         [](StrategySettings& s) {
           s.dp_replicate *= 2;
           s.ep *= 2;
         }},
        {"ep over tp", 2,
         [](StrategySettings& s) {
           s.tp *= 2;
           s.sequence_parallel = true;
           s.ep *= 2;
         }},
        {"etp", 2,
         [](StrategySettings& s) {
           s.tp *= 2;
           s.sequence_parallel = true;
           s.etp *= 2;
         }}}},
      {"parameter_server",
       {{"parameter server", 2,
         [](StrategySettings& s) {
           s.dp_replicate *= 2;
           s.data_parallel = DataParallelism::parameter_server;
           s.bucket = Bytes{1e3};
         }}}},
      {"adversarial", {}},  // A kind of network, Net::gan, spread by the others.
      {"tile_parallel",
       {{"tile_h", 2, [](StrategySettings& s) { s.tile_h *= 2; }},
        {"tile_w", 2, [](StrategySettings& s) { s.tile_w *= 2; }}}},
      {"offload_activations",
       {{"activations in host memory", 1, [](StrategySettings& s) { s.offload = Offload::activations; }}}},
      {"recompute",
       {{"recomputation of modules", 1,
         [](StrategySettings& s) {
           s.recompute = Recompute::selective;
           s.recompute_modules = {"layernorm", "mlp", "core_attn"};
         }},
        {"checkpoint of a layer", 1,
         [](StrategySettings& s) {
           s.recompute = Recompute::selective;
           s.recompute_modules = {"layer"};
         }},
        {"checkpoint by operator", 1,
         [](StrategySettings& s) {
           s.recompute = Recompute::selective;
           s.recompute_modules = {"every_second_product"};
         }},
        {"recomputation in groups", 1,
         [](StrategySettings& s) {
           s.recompute = Recompute::full;
           s.recompute_layers = 2;
         }},
        {"recomputation of one layer", 1,
         [](StrategySettings& s) {
           s.recompute = Recompute::full;
           s.recompute_method = RecomputeMethod::block;
         }},
        {"full recomputation", 1, [](StrategySettings& s) { s.recompute = Recompute::full; }},
        {"selective recomputation", 1, [](StrategySettings& s) { s.recompute = Recompute::selective; }}}}};
  static const std::map<std::string, std::vector<Variation>> kAll = [] {
    std::map<std::string, std::vector<Variation>> all = kStatedHere;
    for (const auto& entry : strategies().entries())
      if (std::vector<Variation> own = stated_by(*entry.value); !own.empty())
        all[entry.name].insert(all[entry.name].end(), own.begin(), own.end());
    return all;
  }();
  return kAll;
}

/// One per registered schedule.
inline std::vector<Variation> schedule_variations() {
  std::vector<Variation> out;
  for (const auto& entry : schedules().entries())
    out.push_back({entry.name, 2, [name = entry.name](StrategySettings& s) {
                     s.pp *= 2;
                     s.schedule = name;
                     const PipelineShape two_chunks{s.pp, 2, kSamples / 2};
                     const PipelineShape one_chunk{s.pp, 1, kSamples / 2};
                     try {
                       schedules().at(name).value->check(one_chunk);
                     } catch (const Error&) {
                       schedules().at(name).value->check(two_chunks);
                       s.virtual_stages = 2;
                     }
                   }});
  return out;
}

inline std::vector<Variation> all_variations() {
  std::vector<Variation> out = schedule_variations();
  for (const auto& [strategy, list] : variations()) out.insert(out.end(), list.begin(), list.end());
  return out;
}

enum class Net { gpt, llama, neox, mixtral, deepseek, gpt_oss, hybrid, adapted, exchanged, mlp, cnn, segmenter, gan };
inline constexpr bool takes_images(Net net) { return net >= Net::mlp; }

/// A layer list over images of 3 x 12 x 8, or vectors.
inline Network layers(const char* input, const char* blocks) {
  const std::string text = std::string(R"({"schema": "rehearse/network/v1", "classes": 4, "input": )") + input +
                           R"(, "blocks": )" + blocks + "}";
  return ModelLibrary({}).load(text);
}

/// Vectors through a layer of this kind, between two products.
inline Network mlp_with(const std::string& kind) {
  const std::string blocks = R"([
    {"name": "a", "layers": [{"op": "linear", "name": "fc", "out": 10, "then": [")" +
                             kind + R"("]}]},
    {"name": "b", "layers": [{"op": "linear", "name": "logits", "out": 4}, {"op": "softmax_loss", "name": "loss"}]}])";
  return layers(R"({"features": 12})", blocks.c_str());
}

inline Network small_mlp() {
  return layers(R"({"features": 12})", R"([
    {"name": "a", "layers": [{"op": "linear", "name": "fc", "out": 10, "then": ["relu"]}]},
    {"name": "b", "layers": [{"op": "linear", "name": "fc", "out": 9, "then": ["relu"]}, {"op": "dropout", "p": 0.2}]},
    {"name": "c", "layers": [{"op": "linear", "name": "fc", "out": 8, "then": ["relu"]}]},
    {"name": "d", "layers": [{"op": "linear", "name": "logits", "out": 4}, {"op": "softmax_loss", "name": "loss"}]}])");
}

/// Strides, groups, dilation, every pool, batch norm, a residual sum, dropout of images (whose tiles have halos) and of
/// vectors.
inline Network small_cnn() {
  return layers(R"({"channels": 3, "height": 12, "width": 8})", R"([
    {"name": "a", "layers": [{"op": "conv2d", "name": "conv", "out": 4, "kernel": 3, "same": true, "then":
    ["batch_norm", "relu"]},
                             {"op": "max_pool", "kernel": 3, "stride": 1, "padding": 1}, {"op": "dropout", "p": 0.2}]},
    {"name": "b", "layers": [{"op": "conv2d", "name": "conv", "out": 4, "kernel": 3, "padding": 2, "dilation": 2,
    "groups": 2, "bias": true, "then": ["relu"]},
                             {"op": "add", "name": "sum", "from": ["input", "conv.relu"]}]},
    {"name": "c", "layers": [{"op": "conv2d", "name": "conv", "out": 6, "kernel": [3, 1], "stride": [2, 1],
    "padding": [1, 0], "then": ["batch_norm", "relu"]},
                             {"op": "average_pool", "kernel": 2, "stride": 2}]},
    {"name": "d", "layers": [{"op": "global_pool"}, {"op": "dropout", "p": 0.2}, {"op": "linear", "name": "logits",
    "out": 4},
                             {"op": "softmax_loss", "name": "loss"}]}])");
}

/// Down and up again, with a skip connection past the middle; a class for every pixel.
inline Network small_segmenter() {
  return layers(R"({"channels": 3, "height": 12, "width": 8})", R"([
    {"name": "a", "layers": [{"op": "conv2d", "name": "conv", "out": 4, "kernel": 3, "same": true, "bias": true,
    "then": ["relu"]},
                             {"op": "conv2d", "name": "again", "out": 4, "kernel": 3, "same": true, "then": ["relu"]}]},
    {"name": "b", "layers": [{"op": "max_pool", "kernel": 2, "stride": 2}, {"op": "conv2d", "name": "conv", "out": 6,
    "kernel": 3, "same": true, "then": ["relu"]},
                             {"op": "gated_conv", "name": "gated", "out": 6, "kernel": 3, "same": true}]},
    {"name": "c", "layers": [{"op": "transposed_conv", "name": "up", "out": 4, "kernel": 2, "stride": 2, "bias": true},
                             {"op": "concat", "name": "both", "from": ["up", "a.conv.relu"]},
                             {"op": "conv2d", "name": "conv", "out": 4, "kernel": 3, "same": true, "then":
                             ["batch_norm", "relu"]}]},
    {"name": "d", "layers": [{"op": "max_pool", "kernel": 2, "stride": 2}, {"op": "upsample", "scale": 2,
    "mode": "bilinear"},
                             {"op": "conv2d", "name": "logits", "out": 4, "kernel": 1, "bias": true},
                             {"op": "softmax_loss", "name": "loss"}]}])");
}

/// As its configuration says, every time it is called: it reads files.
inline Network read_network(Net which) {
  switch (which) {
    case Net::gpt:
      return changed("tiny_gpt2", {{"n_layer", 4},
                                   {"n_embd", 16},
                                   {"n_head", 4},
                                   {"n_inner", 32},
                                   {"n_positions", 16},
                                   {"vocab_size", kVocabulary},
                                   {"embd_pdrop", 0.1},
                                   {"attn_pdrop", 0.1},
                                   {"resid_pdrop", 0.1}});
    case Net::llama:
      return changed("tiny_llama", {{"num_hidden_layers", 4},
                                    {"hidden_size", 16},
                                    {"num_attention_heads", 8},
                                    {"num_key_value_heads", 4},
                                    {"intermediate_size", 24},
                                    {"vocab_size", kVocabulary},
                                    {"max_position_embeddings", 16}});
    case Net::neox:
      return changed("gpt_neox_20b", {{"num_hidden_layers", 4},
                                      {"hidden_size", 32},
                                      {"num_attention_heads", 4},
                                      {"intermediate_size", 32},
                                      {"vocab_size", kVocabulary},
                                      {"max_position_embeddings", 16}});
    case Net::mixtral:
      return changed("tiny_mixtral", {{"hidden_size", 16},
                                      {"num_attention_heads", 4},
                                      {"num_key_value_heads", 2},
                                      {"intermediate_size", 12},
                                      {"num_local_experts", 4},
                                      {"vocab_size", kVocabulary},
                                      {"max_position_embeddings", 16}});
    case Net::deepseek:
      return changed("tiny_deepseek", {{"hidden_size", 16},
                                       {"intermediate_size", 24},
                                       {"moe_intermediate_size", 12},
                                       {"q_lora_rank", 8},
                                       {"kv_lora_rank", 8},
                                       {"qk_nope_head_dim", 4},
                                       {"qk_rope_head_dim", 4},
                                       {"v_head_dim", 6},
                                       {"n_routed_experts", 8},
                                       {"num_experts_per_tok", 2},
                                       {"num_nextn_predict_layers", 0},
                                       {"vocab_size", kVocabulary},
                                       {"max_position_embeddings", 16}});
    // A window shorter than a sequence, and a bound that some gates and ups meet.
    case Net::gpt_oss:
      return changed("tiny_gpt_oss", {{"hidden_size", 16},
                                      {"num_attention_heads", 4},
                                      {"num_key_value_heads", 2},
                                      {"head_dim", 4},
                                      {"intermediate_size", 12},
                                      {"num_local_experts", 4},
                                      {"sliding_window", 3},
                                      {"swiglu_limit", 0.004},
                                      {"vocab_size", kVocabulary},
                                      {"max_position_embeddings", 16}});
    // Chunks shorter than a sequence, and one that it does not fill.
    case Net::hybrid:
      return changed("tiny_nemotron_h", {{"hybrid_override_pattern", "ME*-"},
                                         {"num_hidden_layers", 4},
                                         {"hidden_size", 16},
                                         {"mamba_num_heads", 4},
                                         {"mamba_head_dim", 4},
                                         {"n_groups", 2},
                                         {"ssm_state_size", 4},
                                         {"chunk_size", 3},
                                         {"num_attention_heads", 4},
                                         {"num_key_value_heads", 2},
                                         {"head_dim", 4},
                                         {"intermediate_size", 24},
                                         {"n_routed_experts", 4},
                                         {"num_experts_per_tok", 2},
                                         {"moe_intermediate_size", 12},
                                         {"moe_shared_expert_intermediate_size", 16},
                                         {"moe_latent_size", 8},
                                         {"vocab_size", kVocabulary},
                                         {"max_position_embeddings", 16}});
    case Net::adapted:
    case Net::exchanged:
      return with_adapters(changed("tiny_llama", {{"num_hidden_layers", 4},
                                                  {"hidden_size", 16},
                                                  {"num_attention_heads", 8},
                                                  {"num_key_value_heads", 4},
                                                  {"intermediate_size", 24},
                                                  {"vocab_size", kVocabulary},
                                                  {"max_position_embeddings", 16}}),
                           {2, 3, {"qkv", "proj", "fc1", "fc2"}, 0.1, which == Net::exchanged});
    case Net::mlp: return small_mlp();
    case Net::cnn: return small_cnn();
    case Net::segmenter: return small_segmenter();
    case Net::gan: return tiny_gan();
  }
  throw std::logic_error("network");
}

/// A small network, a vocabulary that four ranks must pad, dropout on for GPT, gradients clipped.
inline Job small_job(Net which, Optimizer optimizer = Optimizer::adamw) {
  static std::map<Net, Network> read;
  const auto [network, fresh] = read.try_emplace(which);
  if (fresh) network->second = read_network(which);
  Job job(network->second, takes_images(which) ? 0 : 8);
  TrainingSettings& t = job.workload.training;
  t.precision = Precision::fp32;
  t.optimizer = optimizer;
  t.learning_rate = 3e-3;  // Larger steps let rounding grow beyond the tolerance within twenty of them, split or not.
  t.weight_decay = 0.1;
  t.clip_gradients = true;
  if (which == Net::gan) t.discriminator = {OwnOptimizer::sgd, 1e-2};
  return job;
}

/// The job with variations applied; the same samples per step as without. Throws Error where a strategy refuses.
inline Program spread(Job job, const std::vector<Variation>& chosen) {
  StrategySettings& s = job.strategy;
  for (const Variation& v : chosen) v.apply(s);
  s.dp = s.dp_replicate * s.dp_shard;
  job.microbatches = kSamples / s.dp;
  if (s.recompute == Recompute::selective) job.workload.kernels.attention = AttentionKernel::unfused;
  return job.lower();
}

/// The network's job with variations applied, or nothing where a strategy refuses.
inline std::optional<Program> spread_if_legal(Net net, const std::vector<Variation>& chosen) {
  try {
    return spread(small_job(net), chosen);
  } catch (const Error&) {
    return std::nullopt;
  }
}

/// Whether variations can be put together for a network: no strategy refuses.
inline bool legal(Net net, const std::vector<Variation>& chosen) { return spread_if_legal(net, chosen).has_value(); }

/// The first network that a variation can be used for.
inline Net net_of(const Variation& v) {
  for (const Net net : {Net::gpt, Net::cnn, Net::mixtral})
    if (legal(net, {v})) return net;
  throw std::logic_error(v.name + " is for no network");
}

}  // namespace rehearse::test
