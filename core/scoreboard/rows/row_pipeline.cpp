// How layers stand on pipeline stages, and over which ranks state is divided.

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "core/config/settings/strategy.hpp"
#include "core/scoreboard/rows/row_scenario.hpp"
#include "core/scoreboard/rows/stated_keys.hpp"

namespace rehearse {

namespace {

/// Fields that may say how state is divided, in the order in which they are asked.
constexpr std::array<const char*, 5> kShardingFields{"zero_stage", "sharding", "fsdp_sharding", "fsdp", "parallelism"};

/// "4x15,1": layers of each chunk in model order, n times where "xn" follows.
std::vector<std::int64_t> layers_of(const std::string& text) {
  std::vector<std::int64_t> out;
  const char* at = text.data();
  const char* const end = at + text.size();
  const auto number = [&] {
    int n = 0;
    const auto [next, failed] = std::from_chars(at, end, n);
    if (failed != std::errc{} || n < 0 || n > 10'000)
      throw RowSkipped("malformed row", "stage_layers: " + text.substr(0, 60));
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

/// Chunks of equal size where the layers divide. Else, where they do with the embedding and the output layer counted as
/// one each (or the latter alone), the first and the last chunk have a layer less: Megatron-LM's
/// --account-for-embedding-in-pipeline-split; Dubey et al. 2024, sec. 3.3.2.
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
         "so that the layers divide, as Megatron-LM's --account-for-embedding-in-pipeline-split and "
         "--account-for-loss-in-pipeline-split have it",
         Evidence::estimate);
}

/// A schedule by the words that name it; "" for 1F1B, whose chunks say which kind it is. Throws for other words.
std::string schedule_named(const std::string& words) {
  for (const auto& [word, name] : {std::pair{"paired_1f1b", "paired_1f1b"},
                                   {"gpipe", "gpipe"},
                                   {"dualpipe", "dualpipe"},
                                   {"zb_h1", "zb_h1"},
                                   {"zb-h1", "zb_h1"},
                                   {"zb1p", "zb_h1"},
                                   {"zb_v", "zb_v"},
                                   {"zb-v", "zb_v"},
                                   {"zbv", "zb_v"}})
    if (holds(words, word)) return name;
  for (const char* usual : {"1f1b", "interleaved", "pipedream", "none"})
    if (holds(words, usual)) return {};
  throw RowSkipped("schedule unknown", words.substr(0, 60));
}

/// Where state is divided inside each node and copied between them: the words that say so.
bool hybrid(RowFields& f) {
  for (const char* field : kShardingFields)
    if (holds(f.stated(field), "hsdp") || holds(f.stated(field), "hybrid")) return true;
  return false;
}

/// N of "ZeRO-N", "zero N", "ZeRO stage N", or of a number alone.
std::optional<int> numbered_stage(const std::string& words) {
  std::size_t at = words.find("zero");
  if (at == std::string::npos && words.size() != 1) return std::nullopt;
  at = at == std::string::npos ? 0 : at + 4;
  for (bool skipped = true; skipped;) {
    skipped = false;
    if (words.compare(at, 5, "stage") == 0)
      at += 5, skipped = true;
    else if (at < words.size() && (words[at] == '-' || words[at] == '_' || words[at] == ' '))
      ++at, skipped = true;
  }
  if (at >= words.size() || words[at] < '0' || words[at] > '3') return std::nullopt;
  return words[at] - '0';
}

/// The stage that words mean, absent where they mean none.
std::optional<int> stage_in(const std::string& words) {
  if (const auto stage = numbered_stage(words)) return stage;
  if (holds(words, "no_shard") || holds(words, "no fsdp")) return 0;
  if (holds(words, "shard_grad_op")) return 2;
  for (const char* full : {"fsdp", "hsdp", "full_shard", "hybrid", "true"})
    if (holds(words, full)) return 3;
  for (const char* none : {"ddp", "none", "no", "false", "dp"})
    if (words == none) return 0;
  return std::nullopt;
}

/// 0 to 3, from the first of the fields that says so: numbers, or words ("ZeRO-3", "FSDP", "DDP"); absent where none
/// does. What `parallelism` says may be about other axes.
std::optional<int> zero_stage(RowFields& f) {
  for (const char* field : kShardingFields) {
    const std::string words = lowered(f.stated(field));
    if (words.empty()) continue;
    if (const auto stage = stage_in(words)) return stage;
    if (std::string_view(field) != "parallelism")
      throw RowSkipped("malformed row", fmt::format("{}: {}", field, words.substr(0, 60)));
  }
  if (f.whole("dp_shard").value_or(1) > 1) return 3;
  return stage_in(lowered(f.text("zero_stage")));
}

/// Ranks of data parallelism that parameters are divided over.
std::int64_t sharding_group(RowFields& f, const RowJob& job) {
  const StrategySettings& s = job.scenario.strategy;
  if (const auto stated = f.whole("dp_shard", s.dp)) return *stated;
  const int node = hybrid(f) ? std::clamp(job.gpus_per_domain / (s.tp * s.cp), 1, s.dp) : s.dp;
  if (node != s.dp) f.note("dp_shard", fmt::format("{}", node), "GPUs of a node / (tp * cp)");
  return node;
}

}  // namespace

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
  if (const std::string own = schedule.empty() ? schedule : schedule_named(schedule); !own.empty())
    s.schedule = own;
  else
    s.schedule = s.virtual_stages > 1 ? "interleaved_1f1b" : "1f1b";
  if (s.layers_per_stage.empty()) divide_layers(f, job);
  s.uneven_layers = s.layers_per_stage.empty();
}

void map_sharding(RowFields& f, RowJob& job) {
  StrategySettings& s = job.scenario.strategy;
  StatedKeys stated(f, job.scenario);
  const auto zero = zero_stage(f);
  if (!zero) return;
  stated.keep("strategy.zero_stage");
  stated.keep("strategy.fsdp.enabled");
  if (*zero < 2 || holds(f.text("framework"), "deepspeed")) {
    s.zero_stage = s.dp * s.cp > 1 ? *zero : 0;  // State is divided over both.
    if (*zero == 3) stated.truth("zero3_lists", "framework.zero3_lists");
    return;
  }
  s.fsdp.enabled = true;
  const auto group = sharding_group(f, job);
  if (s.dp % group != 0)
    throw RowSkipped("contradiction in the row",
                     fmt::format("groups of {} to shard over do not divide dp({})", group, s.dp));
  s.dp_shard = static_cast<int>(group);
  s.dp_replicate = static_cast<int>(s.dp / group);
  if (*zero == 2 || holds(f.text("fsdp_sharding"), "SHARD_GRAD_OP")) {
    s.fsdp.reshard_after_forward = Reshard::never;
    stated.keep("strategy.fsdp.reshard_after_forward");
  } else if (holds(f.text("fsdp_sharding"), "FULL_SHARD")) {
    s.fsdp.reshard_after_forward = Reshard::always;
    stated.keep("strategy.fsdp.reshard_after_forward");
  }
}

void map_buckets(RowFields& f, RowJob& job) {
  StrategySettings& s = job.scenario.strategy;
  StatedKeys stated(f, job.scenario);
  if (const auto megabytes = f.whole("bucket_cap_mb")) {
    stated.keep("strategy.bucket");
    s.bucket = Bytes{static_cast<double>(*megabytes) * 1024 * 1024};
    return;
  }
  const auto count = f.whole("bucket_parameters");
  if (!count) return;
  stated.keep("strategy.bucket");
  constexpr double kPerRank = 1e6;  // So that each rank's share stays large.
  const double parameters =
      std::max(static_cast<double>(*count), f.truth("bucket_grows") ? kPerRank * s.dp * s.cp : 0.0);
  s.bucket =
      Bytes{parameters * (job.scenario.training.gradient_dtype == GradientDtype::fp32 ? 4 : size_of(DType::bf16))};
  f.note("bucket", to_string(s.bucket), "bucket_parameters, in the type of gradients");
}

}  // namespace rehearse
