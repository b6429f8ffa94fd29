// How the work was split and which software ran it.

#include <algorithm>
#include <array>
#include <charconv>

#include <fmt/format.h>

#include "core/config/settings/kernels.hpp"
#include "core/config/settings/strategy.hpp"
#include "core/config/settings/training.hpp"
#include "core/scoreboard/prediction_range.hpp"
#include "core/scoreboard/rows/row_scenario.hpp"

namespace rehearse {

namespace {

constexpr std::int64_t kMostRanks = 1'000'000;

/// The enumerator that `text` names.
template <class Enum>
Enum named(const char* field, const std::string& text) {
  const auto& names = names_of<Enum>();
  const auto at = std::find(names.begin(), names.end(), text);
  if (at == names.end()) throw RowSkipped("malformed row", fmt::format("{}: {}", field, text.substr(0, 60)));
  return static_cast<Enum>(at - names.begin());
}

void map_axes(RowFields& f, RowJob& job) {
  StrategySettings& s = job.scenario.strategy;
  const auto axis = [&f](const char* name) { return static_cast<int>(f.needed(name, kMostRanks)); };
  s.tp = axis("tp");
  s.pp = axis("pp");
  s.cp = axis("cp");
  s.ep = axis("ep");
  if (const auto etp = f.whole("etp", kMostRanks)) s.etp = static_cast<int>(*etp);
  if (s.cp > 1)
    if (const std::string context = f.text("context"); !context.empty())
      s.context = named<ContextExchange>("context", context);
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

/// Scales as the row's words have them ("MXFP8", "FP8-CS", "float8 rowwise"), else as its software does.
Fp8Recipe recipe_of(RowFields& f, const std::string& precision, const std::string& generation) {
  const bool both = holds(precision, "parenthesised =");  // One note for two columns.
  const auto says = [&](const char* words) { return !both && holds(precision, words); };
  const bool blocks = says("mx") || says("blockwise") || (both && holds(precision, "[parenthesised variant]"));
  if (blocks) return generation == "hopper" || says("blockwise") ? Fp8Recipe::blockwise : Fp8Recipe::mxfp8;
  if (says("rowwise")) return Fp8Recipe::rowwise;
  if (says("tensorwise") || says("-cs")) return Fp8Recipe::tensorwise;
  const std::string usual = f.text("fp8_recipe");
  return usual.empty() ? Fp8Recipe::delayed : named<Fp8Recipe>("fp8_recipe", usual);
}

bool trains_adapters(RowFields& f) { return holds(f.text("task"), "lora"); }

void map_precision(RowFields& f, RowJob& job) {
  TrainingSettings& t = job.scenario.training;
  const std::string p = f.needed_text("precision");
  if (holds(p, "fp4")) {
    t.precision = Precision::fp4_mixed;
    t.fp8.attention = f.truth("fp8_attention");
    t.fp8.rotation = !f.truth("fp4_unrotated");
    t.fp8.parameters = trains_adapters(f) && f.truth("fp8_parameters");
  } else if (holds(p, "fp8") || holds(p, "float8")) {
    t.precision = Precision::fp8_mixed;
    t.fp8.recipe = recipe_of(f, p, job.generation);
    t.fp8.attention = f.truth("fp8_attention");
    t.fp8.parameters = holds(p, "float8 all-gather") || f.truth("fp8_parameters");
  } else if (holds(p, "pure bf16"))
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
  t.gradient_dtype = f.text("gradient_dtype") == "model" ? GradientDtype::model : GradientDtype::fp32;
  const std::string optimizer = f.text("optimizer");
  t.optimizer = holds(optimizer, "sgd")     ? Optimizer::sgd
                : holds(optimizer, "adamw") ? Optimizer::adamw
                                            : Optimizer::adam;
  t.clip_gradients = f.truth("clip_gradients");
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
  lora.all_to_all = f.truth("lora_all_to_all");
  lora.dropout = f.number("lora_dropout", 1).value_or(0);
}

/// "modules:mla_up_proj,mlp": what selective recomputation makes again.
void map_modules(StrategySettings& s, const std::string& names) {
  s.recompute = Recompute::selective;
  s.recompute_modules = names_in(names);
}

/// PyTorch's checkpoints stop early; those by operator keep every second product.
void map_checkpoint(StrategySettings& s, const std::string& r) {
  s.recompute = Recompute::selective;
  s.recompute_modules = {holds(r, "full") ? "layer" : "every_second_product"};
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
  const std::string r = lowered(f.text("recompute"));
  if (r.empty()) {
    f.guess("recompute", "none", "nobody states it");
    return;
  }
  s.recompute = Recompute::none;
  if (says_none(r)) return;
  if (r.starts_with("full:")) return map_first_layers(s, r);
  if (r.starts_with("modules:")) return map_modules(s, r.substr(8));
  const bool selective = holds(r, "selective") || r == "op_level";
  if (!selective && !says_all(r)) throw RowSkipped("malformed row", "recompute: " + r.substr(0, 60));
  if (f.text("checkpoints") == "pytorch") return map_checkpoint(s, selective ? r : "full");
  s.recompute = selective ? Recompute::selective : Recompute::full;
}

/// "optimizer" (ZeRO-Offload), "activations" of the first `offload_layers` layers of a chunk, or both.
void map_offload(RowFields& f, RowJob& job) {
  StrategySettings& s = job.scenario.strategy;
  const std::string said = lowered(f.text("offload"));
  if (said.empty() || says_none(said)) return;
  const bool activations = holds(said, "activation"),
             optimizer = holds(said, "optimizer") || holds(said, "zero-offload");
  if (!activations && !optimizer) return f.guess("offload", "none", "nothing is known of " + said.substr(0, 60));
  s.offload = !activations ? Offload::optimizer : optimizer ? Offload::all : Offload::activations;
  if (activations) s.offload_layers = static_cast<int>(f.whole("offload_layers", 1 << 16).value_or(0));
}

void map_overlap(RowFields& f, RowJob& job) {
  StrategySettings& s = job.scenario.strategy;
  s.overlap.grad_reduce = f.truth("overlap_grad_reduce");
  s.overlap.param_gather = f.truth("overlap_param_gather");
  s.overlap.pp = f.truth("overlap_p2p");
  const std::string tp = f.text("overlap_tp");
  s.overlap.tp = tp == "full" && s.tp > 1;
  s.overlap.tp_backward = tp != "none";
  s.scatter_gather = s.pp > 1 && s.tp > 1 && f.truth("scatter_gather");
  s.sequence_parallel = s.tp > 1 && f.truth("sequence_parallel");
  if (s.pp > 1) s.deferred_head_gradients = static_cast<int>(f.whole("deferred_head_gradients", 1 << 16).value_or(0));
}

/// "alltoall" sends a row for each expert. "per_rank" a copy to each rank that a token visits (DeepEP, HybridEP),
/// between NVLink domains one to each domain.
void map_dispatch(RowFields& f, RowJob& job) {
  StrategySettings& s = job.scenario.strategy;
  if (s.ep == 1 || f.text("dispatch") != "per_rank") return;
  const bool crosses = s.ep * s.etp > job.gpus_per_domain;
  s.dispatch = Dispatch::hierarchical;
  s.dispatch_node = crosses ? job.gpus_per_domain / s.etp : 1;
}

/// Where experts have a capacity, tokens beyond it are dropped; buffers that are filled up to it have sizes that nobody
/// needs to count.
void map_capacity(RowFields& f, RowJob& job) {
  if (job.model_kind != "experts") return;
  ExpertSettings& e = job.scenario.training.experts;
  e.capacity_factor = f.number("capacity_factor", 1e6).value_or(0);
  e.pad_to_capacity = e.capacity_factor > 0 && f.truth("pad_to_capacity");
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
  for (const Measured& m : kMeasured)
    if (generation == m.generation)
      return std::any_of(m.names.begin(), m.names.end(), [&](const char* n) { return n != nullptr && attention == n; });
  return false;
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

void map_kernels(RowFields& f, RowJob& job) {
  KernelSettings& k = job.scenario.kernels;
  const std::string attention = attention_of(f);
  k.attention = attention == "unfused" ? AttentionKernel::unfused : AttentionKernel::flash;
  if (k.attention == AttentionKernel::flash) {
    k.flash = named<FlashKernel>("attention", attention);
    if (!measured_on(job.generation, attention))
      f.note("attention_kernel", "the usual one",
             attention + " was not measured on " + job.generation + ": the kernel that frameworks prefer there",
             Evidence::estimate);
  }
  if (const std::string host = f.text("host"); !host.empty()) k.host = named<HostCode>("host", host);
  if (const std::string products = f.text("products"); !products.empty())
    k.products = named<ProductCalls>("products", products);
  k.fused_norm = f.truth("fused_kernels");
  k.fused_activation = f.truth("fused_activation");
  k.fused_cross_entropy = f.truth("fused_cross_entropy");
  k.fused_gradient_accumulation = f.truth("fused_gradient_accumulation");
  k.cuda_graphs = f.truth("cuda_graphs");
  k.launch_blocking = f.truth("launch_blocking");
  k.clip_on_device = f.truth("clip_on_device");
  k.fused_casts = f.truth("fused_casts");
  k.fused_adapters = trains_adapters(f) && f.truth("fused_adapters");
  k.fused_experts = job.model_kind == "experts" && f.truth("fused_experts");
  k.samples_first = f.truth("samples_first");
  k.gather_per_product = f.truth("gather_per_product");
}

}  // namespace

void map_strategy(RowFields& f, RowJob& job) {
  map_axes(f, job);
  map_batch(f, job);
  map_schedule(f, job);
  map_precision(f, job);
  map_adapters(f, job);
  map_sharding(f, job);
  map_buckets(f, job);
  map_overlap(f, job);
  map_offload(f, job);
  map_capacity(f, job);
  map_dispatch(f, job);
  map_kernels(f, job);
  map_recompute(f, job);
  job.strategy = strategy_family(job.scenario.strategy);
}

}  // namespace rehearse
