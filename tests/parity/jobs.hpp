#pragma once
// The strategies that parity is shown for, found from the registries, and the settings that turn each on at a number of ranks.

#include "core/schedule/schedule.hpp"
#include "tests/parity/parity.hpp"

namespace rehearse::test {

inline constexpr int kSamples = 8;  ///< Sequences per step, however they are split.

/// A setting that parity must not depend on. `ranks` is the factor it multiplies ranks by.
struct Variation {
  std::string name;
  int ranks;
  std::function<void(StrategySettings&)> apply;
};

/// Settings of every registered strategy by name; a strategy without an entry here fails the test that walks the registry.
inline const std::map<std::string, std::vector<Variation>>& variations() {
  static const std::map<std::string, std::vector<Variation>> kAll{
      {"data_parallel",
       {{"dp", 2, [](StrategySettings& s) { s.dp_replicate *= 2; }},
        {"dp, one bucket at the end", 2, [](StrategySettings& s) { s.dp_replicate *= 2; s.overlap.grad_reduce = false; }},
        {"dp_shard", 2, [](StrategySettings& s) { s.dp_shard *= 2; s.bucket = Bytes{1e3}; }}}},
      {"tensor_parallel", {{"tp", 2, [](StrategySettings& s) { s.tp *= 2; }}}},
      {"sequence_parallel", {{"tp with sequence parallelism", 2, [](StrategySettings& s) { s.tp *= 2; s.sequence_parallel = true; }}}},
      {"zero1",
       {{"zero1", 2, [](StrategySettings& s) { s.dp_replicate *= 2; s.zero_stage = 1; }},
        {"zero1, gathered late", 2, [](StrategySettings& s) { s.dp_shard *= 2; s.zero_stage = 1; s.overlap.param_gather = true; }}}},
      {"pipeline_parallel", {{"pp", 2, [](StrategySettings& s) { s.pp *= 2; }}, {"pp, blocking", 2, [](StrategySettings& s) { s.pp *= 2; s.overlap.pp = false; }},
                             {"pp, scattered messages", 2, [](StrategySettings& s) { s.pp *= 2; s.scatter_gather = true; }}}},
      {"offload_activations", {{"activations in host memory", 1, [](StrategySettings& s) { s.offload = Offload::activations; }}}},
      {"recompute", {{"recomputation of modules", 1, [](StrategySettings& s) { s.recompute = Recompute::selective; s.recompute_modules = {"layernorm", "mlp", "core_attn"}; }},
                     {"recomputation in groups", 1, [](StrategySettings& s) { s.recompute = Recompute::full; s.recompute_layers = 2; }},
                     {"recomputation of one layer", 1, [](StrategySettings& s) { s.recompute = Recompute::full; s.recompute_method = RecomputeMethod::block; }},
                     {"full recomputation", 1, [](StrategySettings& s) { s.recompute = Recompute::full; }},
                     {"selective recomputation", 1, [](StrategySettings& s) { s.recompute = Recompute::selective; }}}}};
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

enum class Net { gpt, llama, neox };

/// A small network, a vocabulary that four ranks must pad, dropout on for GPT, gradients clipped.
inline Job small_job(Net which, Optimizer optimizer = Optimizer::adamw) {
  const auto network = [which] {
    switch (which) {
      case Net::gpt: return changed("tiny_gpt2", {{"n_layer", 4}, {"n_embd", 16}, {"n_head", 4}, {"n_inner", 32}, {"n_positions", 16}, {"vocab_size", kVocabulary},
                                                  {"embd_pdrop", 0.1}, {"attn_pdrop", 0.1}, {"resid_pdrop", 0.1}});
      case Net::llama: return changed("tiny_llama", {{"num_hidden_layers", 4}, {"hidden_size", 16}, {"num_attention_heads", 8}, {"num_key_value_heads", 4},
                                                     {"intermediate_size", 24}, {"vocab_size", kVocabulary}, {"max_position_embeddings", 16}});
      case Net::neox: return changed("gpt_neox_20b", {{"num_hidden_layers", 4}, {"hidden_size", 32}, {"num_attention_heads", 4}, {"intermediate_size", 32},
                                                      {"vocab_size", kVocabulary}, {"max_position_embeddings", 16}});
    }
    throw std::logic_error("network");
  };
  Job job(network(), 8);
  TrainingSettings& t = job.workload.training;
  t.precision = Precision::fp32;
  t.optimizer = optimizer;
  t.learning_rate = 3e-3;  // Larger steps let rounding grow beyond the tolerance within twenty of them, split or not.
  t.weight_decay = 0.1;
  t.clip_gradients = true;
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

}  // namespace rehearse::test
