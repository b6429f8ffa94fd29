#pragma once
// Small jobs to lower, and the sums over a Program's tasks that tests state facts about.

#include <fstream>
#include <functional>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "core/base/index.hpp"
#include "core/config/settings/strategy.hpp"
#include "core/model/library.hpp"
#include "core/program/body.hpp"
#include "core/program/liveness.hpp"
#include "core/program/validate/validate.hpp"
#include "core/strategy/lower.hpp"
#include "core/strategy/workload.hpp"
#include "tests/support/source_path.hpp"

namespace rehearse::test {

inline Network shipped(const std::string& name) {
  return ModelLibrary(rehearse::testing::source_path("scenarios/models")).load(name);
}

/// A shipped model with some of its keys changed.
inline Network changed(const std::string& name, const nlohmann::json& keys) {
  std::ifstream file(rehearse::testing::source_path("scenarios/models/") + name + "/config.json");
  nlohmann::json config = nlohmann::json::parse(file);
  if (!keys.is_null()) config.update(keys);
  return ModelLibrary({}).load(config.dump());
}

inline Network tiny_gpt(int layers = 4, double dropout = 0.1) {
  return changed("tiny_gpt2",
                 {{"n_layer", layers}, {"embd_pdrop", dropout}, {"attn_pdrop", dropout}, {"resid_pdrop", dropout}});
}
inline Network tiny_llama(int layers = 4) { return changed("tiny_llama", {{"num_hidden_layers", layers}}); }
/// Norms in parallel, rotary positions, untied head.
inline Network tiny_neox(int layers = 4) {
  return changed("gpt_neox_20b", {{"num_hidden_layers", layers},
                                  {"hidden_size", 64},
                                  {"num_attention_heads", 4},
                                  {"intermediate_size", 256},
                                  {"vocab_size", 250},
                                  {"max_position_embeddings", 128}});
}

/// Noise to images of 3 x 12 x 8, and a network that tells them from real ones: all kinds of layers that such networks
/// have.
inline Network tiny_gan() {
  return ModelLibrary({}).load(
      R"({"schema": "rehearse/network/v1", "input": {"channels": 5, "height": 1, "width": 1, "noise": true}, "blocks": [
    {"name": "project", "layers": [{"op": "transposed_conv", "name": "conv", "out": 6, "kernel": [6, 4], "then":
    ["batch_norm", "relu"]}]},
    {"name": "up", "layers": [{"op": "transposed_conv", "name": "conv", "out": 3, "kernel": 4, "stride": 2,
    "padding": 1, "then": ["tanh"]}]}],
  "discriminator": {"blocks": [
    {"name": "down", "layers": [{"op": "conv2d", "name": "conv", "out": 4, "kernel": 3, "stride": 2, "same": true,
    "then": ["leaky_relu"]},
                                {"op": "conv2d", "name": "again", "out": 6, "kernel": 3, "same": true, "then":
                                ["batch_norm", "leaky_relu"]}]},
    {"name": "score", "layers": [{"op": "conv2d", "name": "conv", "out": 4, "kernel": 3, "stride": 2, "same": true,
    "bias": true, "then": ["leaky_relu"]},
                                 {"op": "linear", "name": "scores", "out": 1}, {"op": "adversarial_loss",
                                 "name": "loss"}]}]}})");
}

/// A workload and a strategy; the global batch follows from `microbatches`.
struct Job {
  Workload workload;
  StrategySettings strategy;
  int microbatches = 4;

  explicit Job(Network network, std::int64_t sequence = 32) {
    workload.network = std::move(network);
    workload.training.sequence_length = sequence;
  }
  [[nodiscard]] int ranks() const {
    return strategy.dp * strategy.cp * strategy.tp * strategy.pp * strategy.tile_h * strategy.tile_w;
  }
  [[nodiscard]] Program lower() const {
    Workload w = workload;
    w.training.global_batch = microbatches * strategy.microbatch * strategy.dp;
    return rehearse::lower(w, strategy, ranks());
  }
};

/// The context an entry's expressions are evaluated in on `rank`.
inline ExprContext context_of(const Program& p, int rank, const Entry& e) {
  ExprContext at = p.mesh.context(rank);
  at.layer = e.layer;
  at.chunk = e.chunk;
  at.microbatch = e.microbatch;
  at.microbatches = p.microbatches;
  return at;
}

using TaskVisitor = std::function<void(const Entry&, const Body&, const Task&)>;

/// Every task of one step of a rank, in issue order.
inline void for_each_task(const Program& p, int rank, const TaskVisitor& visit) {
  for (const Entry& e : nth(p.roles, nth(p.role_of_rank, rank)).step) {
    const Body& body = nth(p.bodies, e.body);
    for (const auto v : body.graph.vertices()) visit(e, body, body.graph[v]);
  }
}

inline double bytes_of(const Program& p, const Body& body, const Operand& o, const ExprContext& at) {
  return p.local_bytes(nth(p.tensors, nth(body.formals, o.formal).like), at);
}

/// The large side of a collective on one rank: what NCCL's formulas take.
inline double collective_bytes(const Program& p, const Body& body, const Task& task, const ExprContext& at) {
  double in = 0, out = 0;
  for (const Operand& o : task.operands) (o.access == Access::write ? out : in) += bytes_of(p, body, o, at);
  return std::max(in, out);
}

/// Persistent bytes (views excluded) of one category on a rank's device.
inline double persistent_bytes(const Program& p, int rank, MemoryCategory category) {
  const Role& role = nth(p.roles, nth(p.role_of_rank, rank));
  double bytes = 0;
  for (const Role::Persistent& held : role.persistent) {
    const Tensor& t = nth(p.tensors, held.tensor);
    if (t.category == category && t.alias_of < 0 && t.space == MemorySpace::device)
      bytes += p.local_bytes(t, p.mesh.context(rank));
  }
  return bytes;
}

inline Bytes peak_of_stage(const Program& p, int stage) {
  return peak_memory(p, Bytes{0}, Bytes{0}).at(static_cast<std::size_t>(stage)).peak;
}

}  // namespace rehearse::test
