// How the work was split and which software ran it.

#include <algorithm>
#include <array>
#include <charconv>
#include <set>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/base/posix_regex.hpp"
#include "core/config/settings/kernels.hpp"
#include "core/config/settings/strategy.hpp"
#include "core/config/settings/training.hpp"
#include "core/scoreboard/prediction_range.hpp"
#include "core/scoreboard/rows/row_scenario.hpp"
#include "core/scoreboard/rows/stated_keys.hpp"

namespace rehearse {

namespace {

constexpr std::int64_t kMostRanks = 1'000'000;

void map_axes(RowFields& f, RowJob& job) {
  StrategySettings& s = job.scenario.strategy;
  const auto axis = [&f](const char* name) { return static_cast<int>(f.needed(name, kMostRanks)); };
  s.tp = axis("tp");
  s.pp = axis("pp");
  s.cp = axis("cp");
  s.ep = axis("ep");
  if (const auto etp = f.whole("etp", kMostRanks)) s.etp = static_cast<int>(*etp);
  if (s.cp > 1) StatedKeys(f, job.scenario).word("context", "strategy.context");
  const double model = static_cast<double>(s.tp) * s.pp * s.cp;
  const auto dp = f.whole("dp", kMostRanks);
  if (!dp && std::fmod(job.gpus, model) != 0)
    throw RowSkipped("contradiction in the row",
                     fmt::format("tp({}) * pp({}) * cp({}) does not divide {} GPUs", s.tp, s.pp, s.cp, job.gpus));
  s.dp = s.dp_replicate = static_cast<int>(dp.value_or(static_cast<std::int64_t>(job.gpus / model)));
  if (!dp) f.note("dp", fmt::format("{}", s.dp), "gpus / (tp * pp * cp)");
  if (model * s.dp != job.gpus)
    throw RowSkipped("contradiction in the row", fmt::format("dp({}) * tp({}) * pp({}) * cp({}) = {} != {} GPUs", s.dp,
                                                             s.tp, s.pp, s.cp, model * s.dp, job.gpus));
}

void map_batch(RowFields& f, RowJob& job) {
  StrategySettings& s = job.scenario.strategy;
  auto microbatch = f.whole("micro_batch", 10'000'000);
  auto batch = f.whole("global_batch");
  auto count = f.whole("microbatches");
  if (!count) count = f.whole("grad_accum");
  if (!batch)
    if (const auto tokens = f.whole("global_batch_tokens");
        tokens && *tokens % job.scenario.training.sequence_length == 0) {
      batch = *tokens / job.scenario.training.sequence_length;
      f.note("global_batch", fmt::format("{}", *batch), "global_batch_tokens / seq_len");
    }
  if (!batch && f.whole("batch_per_gpu")) batch = *f.whole("batch_per_gpu") * s.dp;
  if (!microbatch && batch && !count && job.model_kind == "images" && *batch % s.dp == 0) {
    microbatch = *batch / s.dp;
    f.note("micro_batch", fmt::format("{}", *microbatch),
           "batch_per_gpu: images are not accumulated unless a row says so");
  }
  if (!microbatch && batch && count && *batch % (s.dp * *count) == 0) microbatch = *batch / (s.dp * *count);
  if (!microbatch) {
    if (!batch) throw RowSkipped("field missing: micro_batch");
    f.guess("micro_batch", "1", "nobody states it");
    microbatch = 1;
  }
  if (!batch) {
    if (!count) throw RowSkipped("field missing: global_batch");
    batch = *microbatch * *count * s.dp;
    f.note("global_batch", fmt::format("{}", *batch), "micro_batch * microbatches * dp");
  }
  if (*batch % (*microbatch * s.dp) != 0)
    throw RowSkipped(
        "contradiction in the row",
        fmt::format("global_batch({}) is no multiple of micro_batch({}) * dp({})", *batch, *microbatch, s.dp));
  s.microbatch = *microbatch;
  job.scenario.training.global_batch = *batch;
}

/// Scales as the row's words have them: "MXFP8", "FP8-CS", "float8 rowwise".
std::optional<Fp8Recipe> recipe_of(const std::string& precision, const std::string& generation) {
  const bool both = holds(precision, "parenthesised =");  // One note for two columns.
  const auto says = [&](const char* words) { return !both && holds(precision, words); };
  const bool blocks = says("mx") || says("blockwise") || (both && holds(precision, "[parenthesised variant]"));
  if (blocks) return generation == "hopper" || says("blockwise") ? Fp8Recipe::blockwise : Fp8Recipe::mxfp8;
  if (says("rowwise")) return Fp8Recipe::rowwise;
  if (says("tensorwise") || says("-cs")) return Fp8Recipe::tensorwise;
  return std::nullopt;
}

void map_fp8(RowFields& f, RowJob& job, const std::string& precision) {
  StatedKeys stated(f, job.scenario);
  stated.word("fp8_recipe", "training.fp8.recipe");
  if (const auto recipe = recipe_of(precision, job.generation))
    stated.put("training.fp8.recipe", nlohmann::json(std::string(name_of(*recipe))).dump());
  stated.truth("fp8_attention", "training.fp8.attention");
  stated.truth("fp8_parameters", "training.fp8.parameters");
  if (holds(precision, "float8 all-gather")) stated.put("training.fp8.parameters", "true");
}

void map_fp4(RowFields& f, RowJob& job, bool adapters) {
  StatedKeys stated(f, job.scenario);
  stated.truth("fp8_attention", "training.fp8.attention");
  stated.truth("fp4_unrotated", "framework.fp8_rotation", true);
  if (adapters)
    stated.truth("fp8_parameters", "training.fp8.parameters");
  else
    stated.put("training.fp8.parameters", "false");
}

bool trains_adapters(RowFields& f) { return holds(f.text("task"), "lora"); }

/// A type of numbers among the words ("nf4 frozen", "int8", "8-bit Adam") that no arithmetic here has; empty for none.
std::string unknown_type(const std::string& words) {
  static const PosixRegex type("(nf|u?int|(mx|nv)?fp|b?float|bf|tf)[0-9]+|[0-9]+-?bit");
  static const std::set<std::string> known{"fp32", "float32", "tf32", "fp16",  "float16", "bf16", "bfloat16",
                                           "fp8",  "float8",  "fp4",  "mxfp8", "mxfp4",   "nvfp4"};
  const std::string text = lowered(words);
  for (std::string& named : type.all(text))
    if (!known.contains(named)) return std::move(named);
  return {};
}

/// "8-bit Adam", "AdamW8bit", "paged_adamw_8bit": moments in 8 bits; "AdamW, bf16 moments": in 16. Empty for words that
/// say nothing of them; `rest` is what is left of the words.
std::string states_named(const std::string& words, std::string& rest) {
  static const PosixRegex eight("8[- _]?bits?|int8"), half("(bf16|bfloat16|fp16|float16) (moments?|states?)");
  rest = lowered(words);
  std::string out = "int8";
  auto found = eight.search(rest);
  if (!found) {
    found = half.search(rest);
    if (!found) return {};
    out = found->front().starts_with("b") ? "bf16" : "fp16";
  }
  rest.replace(static_cast<std::size_t>(found->front().data() - rest.data()), found->front().size(), " ");
  return out;
}

/// Throws RowSkipped for one whose state and update are others than those of the scenario's optimizers.
Optimizer optimizer_named(const std::string& words) {
  static const PosixRegex name("[a-z]+");
  const std::string text = lowered(words);
  for (const std::string& named : unknown_type(text).empty() ? name.all(text) : std::vector<std::string>())
    for (const std::string& word : {named, named.starts_with("fused") ? named.substr(5) : std::string()})
      if (const auto known = std::find(names_of<Optimizer>().begin(), names_of<Optimizer>().end(), word);
          known != names_of<Optimizer>().end())
        return static_cast<Optimizer>(known - names_of<Optimizer>().begin());
  throw RowSkipped("optimizer unknown", words.substr(0, 60) + ": training.optimizer has none such");
}

void map_precision(RowFields& f, RowJob& job) {
  TrainingSettings& t = job.scenario.training;
  const std::string p = f.needed_text("precision");
  if (const std::string strange = unknown_type(p); !strange.empty())
    throw RowSkipped("precision unknown", fmt::format("{}: no products in {} are known", p.substr(0, 60), strange));
  if (holds(p, "fp4")) {
    t.precision = Precision::fp4_mixed;
    map_fp4(f, job, trains_adapters(f));
  } else if (holds(p, "fp8") || holds(p, "float8")) {
    t.precision = Precision::fp8_mixed;
    map_fp8(f, job, p);
  } else if (holds(p, "pure bf16") || (holds(p, "bf16") && f.text("parameter_dtype") == "bf16"))
    t.precision = Precision::bf16;
  else if (holds(p, "bf16") || holds(p, "bfloat16"))
    t.precision = Precision::bf16_mixed;
  else if (holds(p, "fp16") || holds(p, "mixed"))
    t.precision = Precision::fp16_mixed;
  else if (holds(p, "tf32"))
    t.precision = Precision::tf32;
  else if (holds(p, "fp32"))
    t.precision = Precision::fp32;
  else
    throw RowSkipped("malformed row", "precision: " + p.substr(0, 60));
  StatedKeys stated(f, job.scenario);
  stated.keep("training.precision");
  stated.word("gradient_dtype", "training.gradient_dtype");
  stated.truth("clip_gradients", "training.clip_gradients");
  stated.word("optimizer_states", "training.optimizer_states");
  stated.word("master_weights", "training.master_weights");
  const std::string optimizer = f.text("optimizer");
  if (optimizer.empty()) return;
  std::string name;
  const std::string states = states_named(optimizer, name);
  t.optimizer = optimizer_named(name);
  if (!states.empty()) stated.put("training.optimizer_states", nlohmann::json(states).dump());
  stated.keep("training.optimizer");
}

/// "mla_up_proj,mlp"
std::vector<std::string> names_in(const std::string& text) {
  std::vector<std::string> out;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    out.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return out;
}

/// Low-rank adapters, where the row's task is to train them.
void map_adapters(RowFields& f, RowJob& job) {
  if (!trains_adapters(f)) return;
  LoraSettings& lora = job.scenario.training.lora;
  lora.rank = f.needed("lora_rank", 1 << 16);
  lora.alpha = static_cast<double>(f.needed("lora_alpha", 1 << 20));
  lora.targets = names_in(f.needed_text("lora_targets"));
  StatedKeys(f, job.scenario).truth("lora_all_to_all", "framework.lora_all_to_all");
  lora.dropout = f.number("lora_dropout", 1).value_or(0);
}

/// "modules:mla_up_proj,mlp": what selective recomputation makes again.
void map_modules(StrategySettings& s, const std::string& names) {
  s.recompute = Recompute::selective;
  s.recompute_modules = names_in(names);
}

/// "full:5": whole layers, of the first 5 of every chunk.
void map_first_layers(StrategySettings& s, const std::string& r) {
  int layers = 0;
  const auto [end, failed] = std::from_chars(r.data() + 5, r.data() + r.size(), layers);
  if (failed != std::errc{} || end != r.data() + r.size() || layers < 1)
    throw RowSkipped("malformed row", "recompute: " + r.substr(0, 60));
  s.recompute = Recompute::full;
  s.recompute_method = RecomputeMethod::block;
  s.recompute_layers = layers;
}

/// Words for all layers, and for none.
bool says_all(const std::string& r) {
  for (const char* word : {"true", "yes", "uniform", "block", "activation checkpointing"})
    if (r == word) return true;
  return holds(r, "full");
}
bool says_none(const std::string& r) {
  for (const char* word : {"no", "false", "off"})
    if (r == word) return true;
  return r.starts_with("none") || r.starts_with("no ");
}

void map_recompute(RowFields& f, RowJob& job) {
  StrategySettings& s = job.scenario.strategy;
  StatedKeys stated(f, job.scenario);
  stated.word("checkpoints", "framework.checkpoints");
  stated.keep("strategy.recompute");
  const std::string r = lowered(f.text("recompute"));
  if (r.empty()) {
    f.guess("recompute", "none", "nobody states it");
    return;
  }
  s.recompute = Recompute::none;
  if (says_none(r)) return;
  if (r.starts_with("full:")) return map_first_layers(s, r);
  if (r.starts_with("modules:")) {
    stated.keep("strategy.recompute_modules");
    return map_modules(s, r.substr(8));
  }
  const bool selective = holds(r, "selective") || r == "op_level";
  if (!selective && !says_all(r)) throw RowSkipped("malformed row", "recompute: " + r.substr(0, 60));
  s.recompute = selective && !holds(r, "full") ? Recompute::selective : Recompute::full;
}

/// "optimizer" (ZeRO-Offload), "parameters" (with the optimizer), "activations" of the first `offload_layers` layers of
/// a chunk, or several.
void map_offload(RowFields& f, RowJob& job) {
  StrategySettings& s = job.scenario.strategy;
  const std::string said = lowered(f.text("offload"));
  if (said.empty() || says_none(said)) return;
  const bool activations = holds(said, "activation"), parameters = holds(said, "param"),
             optimizer = parameters || holds(said, "optimizer") || holds(said, "zero-offload");
  if (!activations && !optimizer) return f.guess("offload", "none", "nothing is known of " + said.substr(0, 60));
  s.offload = !activations ? Offload::optimizer : optimizer ? Offload::all : Offload::activations;
  if (parameters) StatedKeys(f, job.scenario).put("strategy.offload_parameters", "true");
  if (activations) s.offload_layers = static_cast<int>(f.whole("offload_layers", 1 << 16).value_or(0));
}

void map_overlap(RowFields& f, RowJob& job) {
  StatedKeys stated(f, job.scenario);
  stated.truth("overlap_grad_reduce", "strategy.overlap.grad_reduce");
  stated.truth("overlap_param_gather", "strategy.overlap.param_gather");
  stated.truth("overlap_p2p", "strategy.overlap.pp");
  if (const std::string tp = f.text("overlap_tp"); !tp.empty()) {
    stated.put("strategy.overlap.tp", tp == "full" ? "true" : "false");
    stated.put("framework.overlap_tp_backward", tp == "none" ? "false" : "true");
  }
  stated.truth("scatter_gather", "framework.scatter_gather");
  stated.truth("sequence_parallel", "strategy.sequence_parallel");
  stated.whole("deferred_head_gradients", "framework.deferred_head_gradients", 1 << 16);
  stated.truth("optimizer_in_backward", "strategy.optimizer_in_backward");
}

/// Switches that say nothing of this job are off.
void without_effect(RowJob& job) {
  StrategySettings& s = job.scenario.strategy;
  KernelSettings& k = job.scenario.kernels;
  if (s.tp == 1) s.sequence_parallel = s.overlap.tp = s.scatter_gather = false;
  if (s.pp == 1) s.scatter_gather = false;
  if (s.pp == 1) s.deferred_head_gradients = 0;
  if (job.scenario.training.lora.rank == 0) k.fused_adapters = false;
  if (job.model_kind != "experts") k.fused_experts = false;
}

/// "alltoall" sends a row for each expert. "per_rank" a copy to each rank that a token visits (DeepEP, HybridEP),
/// between NVLink domains one to each domain.
void map_dispatch(RowFields& f, RowJob& job) {
  StrategySettings& s = job.scenario.strategy;
  const std::string dispatch = s.ep > 1 ? f.text("dispatch") : std::string();
  if (dispatch.empty()) return;
  StatedKeys(f, job.scenario).keep("strategy.dispatch");
  if (dispatch != "per_rank") return;
  const bool crosses = s.ep * s.etp > job.gpus_per_domain;
  s.dispatch = Dispatch::hierarchical;
  s.dispatch_node = crosses ? job.gpus_per_domain / s.etp : 1;
}

/// Where experts have a capacity, tokens beyond it are dropped; buffers that are filled up to it have sizes that nobody
/// needs to count.
void map_capacity(RowFields& f, RowJob& job) {
  const auto factor = job.model_kind == "experts" ? f.number("capacity_factor", 1e6) : std::nullopt;
  if (!factor) return;
  StatedKeys stated(f, job.scenario);
  stated.put("training.experts.capacity_factor", fmt::format("{}", *factor));
  if (*factor > 0) stated.truth("pad_to_capacity", "training.experts.pad_to_capacity");
}

/// The version of FlashAttention that is named, 0 where none is: 2 of "FlashAttention-2", "flash_attn 2", "FA2".
char flash_version(const std::string& words) {
  const std::string text = lowered(words);
  for (const char* family : {"flashattention", "flash attention", "flash_attention", "flash-attention", "flash_attn",
                             "flash-attn", "flashattn", "flash", "fa"}) {
    std::size_t at = text.find(family);
    if (at == std::string::npos) continue;
    at = text.find_first_not_of("-_ v", at + std::string_view(family).size());
    if (at == std::string::npos || text[at] < '0' || text[at] > '9') return 0;
    const bool longer = at + 1 < text.size() && text[at + 1] >= '0' && text[at + 1] <= '9';
    return longer ? '\0' : text[at];
  }
  return 0;
}

/// "unfused", or the flash implementation as its calibration group is named. Rows also describe the attention layer
/// under this name ("MLA"): that says nothing about the kernel.
std::string attention_of(RowFields& f) {
  const std::string said = f.text("attention");
  for (const char* unfused : {"unfused", "no flash", "eager", "naive"})
    if (holds(said, unfused)) return "unfused";
  if (holds(said, "triton")) return "flash_triton";
  if (holds(said, "cudnn_9.13")) return "cudnn_9.13";
  if (holds(said, "cudnn")) return "cudnn";
  if (const char version = flash_version(said); version >= '1' && version <= '3')
    return std::string("flash") + version;
  else if (version != 0)
    f.guess("attention", f.fallback("attention"), "nothing is known of " + said.substr(0, 60));
  return f.fallback("attention");
}

void map_attention(RowFields& f, RowJob& job) {
  const std::string attention = attention_of(f);
  if (attention.empty()) return;
  StatedKeys stated(f, job.scenario);
  stated.put("kernels.attention", attention == "unfused" ? R"("unfused")" : R"("flash")");
  if (attention != "unfused") stated.put("kernels.flash", nlohmann::json(attention).dump());
}

/// Fields that are truth values of one key each.
constexpr std::array<std::pair<const char*, const char*>, 13> kSwitches{
    {{"fused_kernels", "framework.fused_norm"},
     {"fused_activation", "framework.fused_activation"},
     {"fused_cross_entropy", "kernels.fused_cross_entropy"},
     {"fused_gradient_accumulation", "framework.fused_gradient_accumulation"},
     {"cuda_graphs", "kernels.cuda_graphs"},
     {"torch_compile", "kernels.compile"},
     {"limit_all_gathers", "strategy.fsdp.limit_all_gathers"},
     {"launch_blocking", "framework.launch_blocking"},
     {"clip_on_device", "framework.clip_on_device"},
     {"fused_casts", "framework.fused_casts"},
     {"samples_first", "framework.samples_first"},
     {"gather_per_product", "framework.gather_per_product"},
     {"channels_first", "framework.channels_first"}}};

void map_kernels(RowFields& f, RowJob& job) {
  StatedKeys stated(f, job.scenario);
  map_attention(f, job);
  stated.word("host", "framework.host");
  stated.word("products", "framework.products");
  for (const auto& [field, key] : kSwitches) stated.truth(field, key);
  stated.truth("fused_adapters", "framework.fused_adapters");
  stated.truth("fused_experts", "framework.fused_experts");
}

/// Flash implementations that benchmarks of each generation give (topologies/calibration); elsewhere the kernel stands
/// that frameworks prefer there.
bool measured_on(const std::string& generation, const std::string& attention) {
  struct Measured {
    const char* generation;
    std::array<const char*, 4> names;
  };
  constexpr std::array<Measured, 3> kMeasured{{{"ampere", {"flash1", "flash2", "flash_triton"}},
                                               {"hopper", {"flash1", "flash2", "flash3", "cudnn"}},
                                               {"blackwell", {"cudnn", "cudnn_9.13"}}}};
  const std::string library = attention.substr(0, attention.find("_9."));  // Of versions not measured apart.
  for (const Measured& m : kMeasured)
    if (generation == m.generation)
      return std::any_of(m.names.begin(), m.names.end(),
                         [&](const char* n) { return n != nullptr && (attention == n || library == n); });
  return false;
}

/// Attention that nobody measured on these GPUs is not stated: a scenario that names it is refused.
void drop_unmeasured_attention(RowFields& f, RowJob& job) {
  Scenario& s = job.scenario;
  const std::string flash(name_of(s.kernels.flash));
  if (s.kernels.attention != AttentionKernel::flash || !s.stated.contains("kernels.flash") ||
      measured_on(job.generation, flash))
    return;
  s.stated.erase("kernels.flash");
  s.kernels.flash = FlashKernel::automatic;
  f.note("attention_kernel", "the usual one",
         flash + " was not measured on " + job.generation + ": the kernel that frameworks prefer there",
         Evidence::estimate);
}

/// How the work was split is the row's own.
void keep_split(StatedKeys stated) {
  for (const char* key : {"strategy.tp",
                          "strategy.pp",
                          "strategy.cp",
                          "strategy.ep",
                          "strategy.etp",
                          "strategy.dp",
                          "strategy.dp_replicate",
                          "strategy.dp_shard",
                          "strategy.microbatch",
                          "strategy.schedule",
                          "strategy.virtual_stages",
                          "strategy.layers_per_stage",
                          "strategy.uneven_layers",
                          "strategy.offload",
                          "strategy.offload_layers",
                          "strategy.recompute_method",
                          "strategy.recompute_layers",
                          "strategy.dispatch_node",
                          "training.global_batch",
                          "training.sequence_length",
                          "training.lora.rank",
                          "training.lora.alpha",
                          "training.lora.targets",
                          "training.lora.dropout"})
    stated.keep(key);
}

}  // namespace

void map_framework(RowFields& f, const Frameworks& frameworks, RowJob& job) {
  Scenario& s = job.scenario;
  for (const std::string& key : f.keys())
    if (!s.stated.contains(key)) StatedKeys(f, s).own(key);
  drop_unmeasured_attention(f, job);
  if (const std::string profile = f.text("profile"); !profile.empty()) {
    s.framework.name = frameworks.find(profile).id();
    for (const TakenFact& t : take(frameworks.find(profile), s, {job.generation}))
      if (!t.stated)
        f.note(t.fact.key, t.fact.value, fmt::format("{}: {}", t.framework, t.fact.source.text),
               t.fact.source.evidence);
  }
  map_buckets(f, job);
  without_effect(job);
  apply_checkpoints(s);
  if (s.strategy.recompute == Recompute::selective) StatedKeys(f, s).keep("strategy.recompute_modules");
  job.strategy = strategy_family(s.strategy);
}

void map_strategy(RowFields& f, RowJob& job) {
  map_axes(f, job);
  map_batch(f, job);
  map_schedule(f, job);
  map_precision(f, job);
  map_adapters(f, job);
  map_sharding(f, job);
  map_overlap(f, job);
  map_offload(f, job);
  map_capacity(f, job);
  map_dispatch(f, job);
  map_kernels(f, job);
  map_recompute(f, job);
  keep_split(StatedKeys(f, job.scenario));
}

}  // namespace rehearse
