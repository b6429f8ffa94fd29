// How the work was split and which software ran it.

#include <algorithm>
#include <cctype>
#include <charconv>

#include <fmt/format.h>

#include "core/scoreboard/prediction_range.hpp"
#include "core/scoreboard/row_scenario.hpp"

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
  const double model = static_cast<double>(s.tp) * s.pp * s.cp;
  const auto dp = f.whole("dp", kMostRanks);
  if (!dp && std::fmod(job.gpus, model) != 0)
    throw RowSkipped("contradiction in the row", fmt::format("tp({}) * pp({}) * cp({}) does not divide {} GPUs", s.tp, s.pp, s.cp, job.gpus));
  s.dp = s.dp_replicate = static_cast<int>(dp.value_or(static_cast<std::int64_t>(job.gpus / model)));
  if (!dp) f.note("dp", fmt::format("{}", s.dp), "gpus / (tp * pp * cp)");
  if (model * s.dp != job.gpus)
    throw RowSkipped("contradiction in the row", fmt::format("dp({}) * tp({}) * pp({}) * cp({}) = {} != {} GPUs", s.dp, s.tp, s.pp, s.cp, model * s.dp, job.gpus));
}

void map_batch(RowFields& f, RowJob& job) {
  StrategySettings& s = job.scenario.strategy;
  auto microbatch = f.whole("micro_batch", 10'000'000);
  auto batch = f.whole("global_batch");
  auto count = f.whole("microbatches");
  if (!count) count = f.whole("grad_accum");
  if (!batch)
    if (const auto tokens = f.whole("global_batch_tokens"); tokens && *tokens % job.scenario.training.sequence_length == 0) {
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
    throw RowSkipped("contradiction in the row", fmt::format("global_batch({}) is no multiple of micro_batch({}) * dp({})", *batch, *microbatch, s.dp));
  s.microbatch = *microbatch;
  job.scenario.training.global_batch = *batch;
}

/// "4x15,1": layers of each chunk in model order, n times where "xn" follows.
std::vector<std::int64_t> layers_of(const std::string& text) {
  std::vector<std::int64_t> out;
  const char* at = text.data();
  const char* const end = at + text.size();
  const auto number = [&] {
    int n = 0;
    const auto [next, failed] = std::from_chars(at, end, n);
    if (failed != std::errc{} || n < 0 || n > 10'000) throw RowSkipped("malformed row", "stage_layers: " + text.substr(0, 60));
    at = next;
    return n;
  };
  while (at != end) {
    const int layers = number();
    const int times = at != end && *at == 'x' ? (++at, number()) : 1;
    out.insert(out.end(), static_cast<std::size_t>(times), layers);
    if (at != end && *at++ != ',') throw RowSkipped("malformed row", "stage_layers: " + text.substr(0, 60));
  }
  return out;
}

/// Chunks of equal size where the layers divide. Else, where they do with the embedding and the output layer counted as one each (or the latter
/// alone), the first and the last chunk have a layer less: Megatron-LM's --account-for-embedding-in-pipeline-split; Dubey et al. 2024, sec. 3.3.2.
void divide_layers(RowFields& f, RowJob& job) {
  StrategySettings& s = job.scenario.strategy;
  const std::int64_t chunks = static_cast<std::int64_t>(s.pp) * s.virtual_stages;
  if (s.virtual_stages < 2 || job.layers == 0 || job.layers % chunks == 0) return;
  const int ends = (job.layers + 2) % chunks == 0 ? 2 : (job.layers + 1) % chunks == 0 ? 1 : 0;
  if (ends == 0) return;
  s.layers_per_stage.assign(static_cast<std::size_t>(chunks), (job.layers + ends) / chunks);
  --s.layers_per_stage.back();
  if (ends == 2) --s.layers_per_stage.front();
  f.note("stage_layers", ends == 2 ? "one less in the first and the last chunk" : "one less in the last chunk",
         "so that the layers divide, as Megatron-LM's --account-for-embedding-in-pipeline-split and --account-for-loss-in-pipeline-split have it", Evidence::estimate);
}

/// A schedule that is neither 1F1B nor its interleaved form, by the words that name it; null where none does. Throws for a zero bubble of no known kind.
const char* schedule_named(const std::string& words) {
  for (const auto& [word, name] : {std::pair{"paired_1f1b", "paired_1f1b"}, {"gpipe", "gpipe"}, {"dualpipe", "dualpipe"}, {"zb_h1", "zb_h1"}, {"zb-h1", "zb_h1"}, {"zb1p", "zb_h1"},
                                   {"zb_v", "zb_v"}, {"zb-v", "zb_v"}, {"zbv", "zb_v"}})
    if (holds(words, word)) return name;
  if (holds(words, "zero bubble") || holds(words, "zero-bubble") || holds(words, "zb")) throw RowSkipped("schedule unknown", words.substr(0, 60));
  return nullptr;
}

void map_schedule(RowFields& f, RowJob& job) {
  StrategySettings& s = job.scenario.strategy;
  const std::string schedule = f.text("schedule");
  if (schedule == "paired_1f1b") s.schedule = schedule;
  if (s.pp == 1) return;
  if (const std::string layers = f.text("stage_layers"); !layers.empty()) s.layers_per_stage = layers_of(layers);
  const auto chunks = f.whole("vpp", 1000);
  const bool interleaved = holds(schedule, "interleaved");
  if (!chunks && interleaved) f.guess("vpp", "1", "nobody states how many chunks were interleaved");
  s.virtual_stages = static_cast<int>(chunks.value_or(1));
  if (const char* own = schedule_named(schedule)) s.schedule = own;
  else s.schedule = s.virtual_stages > 1 ? "interleaved_1f1b" : "1f1b";
  if (s.layers_per_stage.empty()) divide_layers(f, job);
  s.uneven_layers = s.layers_per_stage.empty();
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

void map_precision(RowFields& f, RowJob& job) {
  TrainingSettings& t = job.scenario.training;
  const std::string p = f.needed_text("precision");
  if (holds(p, "fp4")) t.precision = Precision::fp4_mixed;
  else if (holds(p, "fp8") || holds(p, "float8")) {
    t.precision = Precision::fp8_mixed;
    t.fp8.recipe = recipe_of(f, p, job.generation);
    t.fp8.attention = f.truth("fp8_attention");
    t.fp8.parameters = holds(p, "float8 all-gather") || f.truth("fp8_parameters");
  }
  else if (holds(p, "bf16") || holds(p, "bfloat16")) t.precision = Precision::bf16_mixed;
  else if (holds(p, "fp16") || holds(p, "mixed")) t.precision = Precision::fp16_mixed;
  else if (holds(p, "tf32")) t.precision = Precision::tf32;
  else if (holds(p, "fp32")) t.precision = Precision::fp32;
  else throw RowSkipped("malformed row", "precision: " + p.substr(0, 60));
  t.gradient_dtype = f.text("gradient_dtype") == "model" ? GradientDtype::model : GradientDtype::fp32;
  const std::string optimizer = f.text("optimizer");
  t.optimizer = holds(optimizer, "sgd") ? Optimizer::sgd : holds(optimizer, "adamw") ? Optimizer::adamw : Optimizer::adam;
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
  if (!holds(f.text("task"), "lora")) return;
  LoraSettings& lora = job.scenario.training.lora;
  lora.rank = f.needed("lora_rank", 1 << 16);
  lora.alpha = static_cast<double>(f.needed("lora_alpha", 1 << 20));
  lora.targets = names_in(f.needed_text("lora_targets"));
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
  if (failed != std::errc{} || end != r.data() + r.size() || layers < 1) throw RowSkipped("malformed row", "recompute: " + r.substr(0, 60));
  s.recompute = Recompute::full;
  s.recompute_method = RecomputeMethod::block;
  s.recompute_layers = layers;
}

void map_recompute(RowFields& f, RowJob& job) {
  StrategySettings& s = job.scenario.strategy;
  std::string r = f.text("recompute");
  if (lowered(r) == "true" || holds(r, "uniform") || holds(r, "block") || lowered(r) == "activation checkpointing") r = "full";
  if (r.empty()) {
    f.guess("recompute", "none", "nobody states it");
    return;
  }
  if (f.text("checkpoints") == "pytorch" && (holds(r, "full") || holds(r, "selective") || r == "op_level")) return map_checkpoint(s, r);
  if (r.starts_with("full:")) return map_first_layers(s, r);
  if (r.starts_with("modules:")) return map_modules(s, r.substr(8));
  const bool none = holds(r, "none") || lowered(r) == "no" || lowered(r) == "false" || lowered(r) == "off";
  if (!holds(r, "full") && !holds(r, "selective") && !none) throw RowSkipped("malformed row", "recompute: " + r.substr(0, 60));
  s.recompute = holds(r, "full") ? Recompute::full : holds(r, "selective") ? Recompute::selective : Recompute::none;
}

/// 0 to 3: a number, or words ("ZeRO-3", "FSDP", "DDP"), of `zero_stage`, else of `parallelism`, else of `fsdp`.
int zero_stage(RowFields& f) {
  for (const char* field : {"zero_stage", "parallelism", "sharding"}) {
    const std::string words = lowered(f.stated(field));
    if (words.empty()) continue;
    if (holds(words, "fsdp") || holds(words, "full_shard")) return 3;
    if (holds(words, "shard_grad_op")) return 2;
    for (const auto& [word, stage] : {std::pair{"zero-", 5}, {"zero", 4}})
      if (const auto at = words.find(word); at != std::string::npos && at + static_cast<std::size_t>(stage) < words.size()) {
        const char digit = words[at + static_cast<std::size_t>(stage)];
        if (digit >= '0' && digit <= '3') return digit - '0';
      }
    if (words.size() == 1 && words[0] >= '0' && words[0] <= '3') return words[0] - '0';
    if (holds(words, "ddp") || words == "dp" || words == "none") return 0;
    if (std::string_view(field) == "zero_stage") throw RowSkipped("malformed row", "zero_stage: " + words.substr(0, 60));
  }
  if (f.stated("fsdp") == "true") return 3;
  const std::string usual = f.text("zero_stage");
  return usual.empty() ? 0 : usual[0] - '0';
}

void map_sharding(RowFields& f, RowJob& job) {
  StrategySettings& s = job.scenario.strategy;
  const int zero = zero_stage(f);
  if (zero >= 2 && !holds(f.text("framework"), "deepspeed")) {
    s.fsdp.enabled = true;
    s.dp_shard = s.dp;
    s.dp_replicate = 1;
    if (zero == 2 || holds(f.text("fsdp_sharding"), "SHARD_GRAD_OP")) s.fsdp.reshard_after_forward = Reshard::never;
    return;
  }
  s.zero_stage = s.dp * s.cp > 1 ? zero : 0;  // State is divided over both.
  s.zero3.lists = zero == 3 && f.truth("zero3_lists");
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

/// "alltoall" sends a row for each expert. "per_rank" a copy to each rank that a token visits (DeepEP, HybridEP), between NVLink domains one to each domain.
void map_dispatch(RowFields& f, RowJob& job) {
  StrategySettings& s = job.scenario.strategy;
  if (s.ep == 1 || f.text("dispatch") != "per_rank") return;
  const bool crosses = s.ep * s.etp > job.gpus_per_domain;
  s.dispatch = Dispatch::hierarchical;
  s.dispatch_node = crosses ? job.gpus_per_domain / s.etp : 1;
}

/// "unfused", or the flash implementation as its calibration group is named. Rows also describe the attention layer under this name ("MLA"): that
/// says nothing about the kernel.
std::string attention_of(RowFields& f) {
  const std::string said = f.text("attention");
  for (const char* unfused : {"unfused", "no flash", "eager", "naive"})
    if (holds(said, unfused)) return "unfused";
  if (holds(said, "triton")) return "flash_triton";
  if (holds(said, "cudnn_9.13")) return "cudnn_9.13";
  if (holds(said, "cudnn")) return "cudnn";
  std::string letters;  // "FlashAttention-2", "flash_attn 2", "FA2": all flash2.
  for (const char c : lowered(said))
    if (std::isalnum(static_cast<unsigned char>(c)) != 0) letters += c;
  for (const char* family : {"flash", "flashattention", "flashattn", "fa"})
    for (const char version : {'1', '2', '3'})
      if (letters.find(std::string(family) + version) != std::string::npos || letters.find(std::string(family) + 'v' + version) != std::string::npos)
        return std::string("flash") + version;
  return f.fallback("attention");
}

void map_kernels(RowFields& f, RowJob& job) {
  KernelSettings& k = job.scenario.kernels;
  const std::string attention = attention_of(f);
  k.attention = attention == "unfused" ? AttentionKernel::unfused : AttentionKernel::flash;
  if (k.attention == AttentionKernel::flash) {
    k.flash = named<FlashKernel>("attention", attention);
    if (job.generation != "ampere" && job.generation != "hopper")
      f.note("attention_kernel", attention, "where benchmarks of it on " + job.generation + " are at hand, else the kernel that frameworks prefer there", Evidence::estimate);
  }
  if (const std::string host = f.text("host"); !host.empty()) k.host = named<HostCode>("host", host);
  if (const std::string products = f.text("products"); !products.empty()) k.products = named<ProductCalls>("products", products);
  k.fused_norm = f.truth("fused_kernels");
  k.fused_activation = f.truth("fused_activation");
  k.fused_cross_entropy = f.truth("fused_cross_entropy");
  k.cuda_graphs = f.truth("cuda_graphs");
  k.fused_experts = job.model_kind == "experts" && f.truth("fused_experts");
  k.samples_first = f.truth("samples_first");
}

}  // namespace

void map_strategy(RowFields& f, RowJob& job) {
  map_axes(f, job);
  map_batch(f, job);
  map_schedule(f, job);
  map_precision(f, job);
  map_adapters(f, job);
  map_sharding(f, job);
  map_overlap(f, job);
  map_dispatch(f, job);
  map_kernels(f, job);
  map_recompute(f, job);
  job.strategy = strategy_family(job.scenario.strategy);
}

}  // namespace rehearse
