#include <algorithm>
#include <array>
#include <cstdlib>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/import/job/draft.hpp"

namespace rehearse::job {

namespace {

/// Megatron's modules that have a word here.
void take_modules(Draft& d) {
  static constexpr std::array<const char*, 7> kKnown{"core_attn", "layernorm",      "mlp",        "moe_act",
                                                     "moe",       "shared_experts", "mla_up_proj"};
  Json modules = Json::array();
  std::vector<std::string> unknown;
  for (std::string name : d.list("job.recompute_modules")) {
    std::erase(name, ',');
    if (std::find(kKnown.begin(), kKnown.end(), name) != kKnown.end())
      modules.push_back(name);
    else if (!name.empty())
      unknown.push_back(name);
  }
  if (d.flag("job.recompute_experts")) modules.push_back("moe");
  if (!unknown.empty())
    d.notes.push_back(fmt::format("recomputed modules without a word here are kept: {}", fmt::join(unknown, ", ")));
  if (!modules.empty()) d.follow("strategy.recompute_modules", modules);
}

/// Every n-th layer of the model, as the first layers of every chunk: no key says which.
void recompute_every(Draft& d, int every, std::int64_t layers) {
  const std::int64_t chunks = std::max<std::int64_t>(1, d.whole("strategy.pp", 1)) *
                              std::max<std::int64_t>(1, d.whole("strategy.virtual_stages", 1));
  if (layers == 0) return d.ask("how many layers recompute", "--set strategy.recompute_layers=N");
  d.follow("strategy.recompute_method", "block");
  d.follow("strategy.recompute_layers", std::max<std::int64_t>(1, layers / every / chunks));
}

void take_torchtitan_checkpoints(Draft& d, std::int64_t layers) {
  const std::string mode = d.word("job.checkpoint_mode", "selective"), option = d.word("job.selective_option", "2");
  if (mode == "memory_budget")
    return d.ask("which activations a memory budget recomputes", "--set strategy.recompute=none|selective|full");
  if (mode != "selective") return d.follow("strategy.recompute", mode);
  if (option == "op") {
    d.follow("strategy.recompute", "selective");
    return d.follow("strategy.recompute_modules", Json::array({"every_second_product"}));
  }
  d.follow("strategy.recompute", "full");
  if (const int every = std::atoi(option.c_str()); every > 1) recompute_every(d, every, layers);
}

/// NeMo 1: method and number go with "full"; "selective" with "block" and no layers recomputes nothing.
void take_nemo_checkpoints(Draft& d) {
  const std::string how = d.word("strategy.recompute", "none");
  if (how == "selective" && d.word("job.checkpoint_method") == "block" && d.whole("job.checkpoint_layers", -1) == 0)
    return d.replace("strategy.recompute", "none");
  if (how != "full") return;
  if (d.has("job.checkpoint_method")) d.follow("strategy.recompute_method", d.word("job.checkpoint_method"));
  if (d.whole("job.checkpoint_layers", 0) > 0)
    d.follow("strategy.recompute_layers", d.whole("job.checkpoint_layers", 1));
}

}  // namespace

void finish_recomputation(Draft& d, const std::string& framework, std::int64_t layers) {
  if (framework == "torchtitan") take_torchtitan_checkpoints(d, layers);
  if (d.has("job.recompute_modules") || d.has("job.recompute_experts")) take_modules(d);
  if (framework == "nemo" || d.has("job.checkpoint_method")) take_nemo_checkpoints(d);
  if (d.has("job.checkpoint_method") && framework != "nemo") {
    d.follow("strategy.recompute", "full");
    d.follow("strategy.recompute_method", d.word("job.checkpoint_method"));
  }
  if (d.has("strategy.recompute_modules")) d.follow("strategy.recompute", "selective");
  if (d.flag("job.fsdp_checkpoints")) d.follow("strategy.recompute", "full");
  if (const Fact* f = d.find("job.llmc_recompute"); f != nullptr)
    d.notes.push_back(d.whole("job.llmc_recompute", 0) == 0
                          ? "llm.c keeps all activations (-r 0)"
                          : "llm.c recomputes GELU (-r 1) or norms too (-r 2), and no key says it");
  if (d.word("strategy.recompute", "none") != "full")
    d.facts.erase("strategy.recompute_method"), d.facts.erase("strategy.recompute_layers");
  if (d.word("strategy.recompute", "none") != "selective") d.facts.erase("strategy.recompute_modules");
  if (d.whole("strategy.recompute_layers", 1) < 1) d.facts.erase("strategy.recompute_layers");
}

}  // namespace rehearse::job
