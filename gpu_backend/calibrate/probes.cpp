#include "gpu_backend/calibrate/probes.hpp"

#include <nlohmann/json.hpp>

#include "core/config/settings/kernels.hpp"
#include "core/config/settings/strategy.hpp"
#include "core/config/settings/training.hpp"
#include "core/model/architecture.hpp"
#include "core/strategy/lower.hpp"
#include "core/strategy/workload.hpp"

namespace rehearse {

namespace {

struct Shape {
  std::int64_t samples, length, width, heads, vocabulary;
  int layers = 1;
};

nlohmann::json gpt(const Shape& s, const std::string& activation, double dropout) {
  return {{"model_type", "gpt2"},       {"n_layer", s.layers},
          {"n_embd", s.width},          {"n_head", s.heads},
          {"n_inner", s.width},         {"n_positions", s.length},
          {"vocab_size", s.vocabulary}, {"activation_function", activation},
          {"layer_norm_epsilon", 1e-5}, {"embd_pdrop", dropout},
          {"attn_pdrop", dropout},      {"resid_pdrop", dropout},
          {"initializer_range", 0.02},  {"tie_word_embeddings", true}};
}

nlohmann::json llama(const Shape& s) {
  return {{"model_type", "llama"},
          {"num_hidden_layers", s.layers},
          {"hidden_size", s.width},
          {"intermediate_size", s.width},
          {"num_attention_heads", s.heads},
          {"num_key_value_heads", s.heads},
          {"vocab_size", s.vocabulary},
          {"max_position_embeddings", s.length},
          {"hidden_act", "silu"},
          {"rms_norm_eps", 1e-5},
          {"rope_theta", 1e4},
          {"attention_bias", false},
          {"mlp_bias", false},
          {"attention_dropout", 0.0},
          {"initializer_range", 0.02},
          {"tie_word_embeddings", false}};
}

struct Variant {
  nlohmann::json (*model)(const Shape&);
  TrainingSettings training;
  KernelSettings kernels;
  int tp = 1;
  bool fills_gaps = true;
};

nlohmann::json gpt_with_dropout(const Shape& s) { return gpt(s, "gelu_new", 0.1); }
nlohmann::json gpt_exact(const Shape& s) { return gpt(s, "gelu", 0.0); }

Program lowered(const Variant& v, const Shape& shape) {
  Workload w{build_network(v.model(shape), "probe"), v.training, v.kernels, {}};
  w.training.global_batch = shape.samples;
  w.training.sequence_length = shape.length;
  StrategySettings s;
  s.microbatch = shape.samples;
  s.tp = v.tp;
  return lower(w, s, v.tp);
}

TrainingSettings training(Precision precision, Optimizer optimizer) {
  TrainingSettings t;
  t.precision = precision;
  t.optimizer = optimizer;
  t.weight_decay = 0.1;
  return t;
}

std::vector<Variant> variants() {
  const auto flash = AttentionKernel::flash, unfused = AttentionKernel::unfused;
  return {{gpt_with_dropout, training(Precision::fp32, Optimizer::adamw), {flash, true, false, false}, 1, false},
          {llama, training(Precision::fp32, Optimizer::adam), {flash, true, true, false}},
          {gpt_exact, training(Precision::fp16_mixed, Optimizer::sgd), {unfused, false, false, false}},
          {gpt_with_dropout, training(Precision::bf16_mixed, Optimizer::adamw), {unfused, false, true, false}, 2},
          {gpt_exact, training(Precision::bf16_mixed, Optimizer::adamw), {unfused, false, false, false}, 2}};
}

}  // namespace

ProbeGrid small_grid() {
  return {{8, 64, 256, 1024},
          {16, 64, 256, 1024},
          {16, 64, 256, 1024},
          {32, 128, 512},
          {16, 64},
          {2, 8},
          {64, 512, 2048},
          {{64, 256}, {256, 1024}, {1024, 4096}}};
}
ProbeGrid large_grid() {
  return {{64, 512, 4096, 32768},
          {128, 1024, 4096, 16384},
          {128, 1024, 4096, 16384},
          {256, 1024, 4096},
          {64, 128},
          {16, 128},
          {512, 4096, 16384},
          {{256, 1024}, {1024, 8192}, {4096, 32768}},
          false,
          3e9};
}

std::vector<Probe> calibration_probes(const ProbeGrid& grid) {
  std::vector<Probe> out;
  const auto adapted = [&](Variant v) {
    if (grid.mixed) v.training.precision = Precision::bf16_mixed;
    return v;
  };
  for (const AttentionKernel kernel : {AttentionKernel::flash, AttentionKernel::unfused}) {
    for (const std::int64_t length : grid.lengths) {
      for (const std::int64_t head_dim : grid.head_dims) {
        for (const std::int64_t heads : grid.heads) {
          // Dropout costs as much as a product on a processor, and keeps attention off a GPU's tensor cores. Unfused,
          // it is an operator of its own.
          for (const auto model : {gpt_exact, gpt_with_dropout}) {
            if (kernel == AttentionKernel::unfused && model == gpt_exact) continue;
            const Variant v{model, training(Precision::fp32, Optimizer::adamw), {kernel, true, false, false}, 1, false};
            out.push_back({lowered(adapted(v), {1, length, heads * head_dim, heads, 64}), true, false, 0});
          }
        }
      }
    }
  }
  // Rows and widths. What fills gaps is measured at the corners: an operator at one size says nothing of what a row
  // takes, and what a number in it.
  int kind = 0;
  for (const Variant& v : variants()) {
    ++kind;
    for (std::size_t t = 0; t < grid.tokens.size(); ++t) {
      for (std::size_t i = 0; i < grid.widths.size(); ++i) {
        const bool corner = (t == 0 || t + 1 == grid.tokens.size()) && (i == 0 || i + 1 == grid.widths.size());
        if (v.fills_gaps && !corner) continue;
        const ProbeGrid::Width w = grid.widths[i];
        out.push_back({lowered(adapted(v), {grid.tokens[t] / 64, 64, w.width, w.width / 32, w.vocabulary}), false,
                       v.fills_gaps, kind});
      }
    }
  }
  return out;
}

Program dispatch_probe() { return lowered(variants().front(), {1, 4, 8, 2, kDispatchVocabulary, 12}); }

}  // namespace rehearse
