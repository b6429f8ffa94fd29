#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "core/plan/step_search.hpp"

namespace rehearse {

namespace {

constexpr int kMostStages = 64;
constexpr int kMostChunks = 8;
constexpr int kWidestTensor = 8;  // Beyond, a layer's products are too narrow to be worth their messages.

class Trials {
 public:
  Trials(const StepQuestion& q, int devices, int per_machine) : q_(q), devices_(devices), per_machine_(per_machine), layers_(q.workload.network.layers()) {}

  std::vector<StepTrial> list() {
    for (int tp = 1; tp <= std::min(per_machine_, kWidestTensor); tp *= 2)
      if (per_machine_ % tp == 0 && admits("tp", q_.own.tp, tp))
        for (int pp = 1; pp <= std::min(layers_, kMostStages); ++pp)
          if (const int rest = tp * pp * q_.own.cp; devices_ % rest == 0 && admits("pp", q_.own.pp, pp)) add_mesh(tp, pp, devices_ / rest);
    return std::move(out_);
  }

 private:
  [[nodiscard]] bool fixed(const char* key) const { return q_.fixed.contains(key); }
  template <class T>
  [[nodiscard]] bool admits(const char* key, const T& own, const T& value) const {
    return !fixed(key) || own == value;
  }

  /// The multiple of `unit` nearest to the batch asked for; 0 where it is too far off.
  [[nodiscard]] std::int64_t batch(std::int64_t unit) const {
    const auto asked = static_cast<double>(q_.workload.training.global_batch);
    const double got = std::max(1.0, std::round(asked / static_cast<double>(unit))) * static_cast<double>(unit);
    return std::abs(got - asked) <= q_.batch_tolerance * asked ? static_cast<std::int64_t>(got) : 0;
  }

  void add_mesh(int tp, int pp, int dp) {
    if (fixed("dp") && q_.own.dp > 0 && q_.own.dp != dp) return;
    for (const std::int64_t microbatch : {1, 2, 4}) {
      if (!admits("microbatch", q_.own.microbatch, microbatch)) continue;
      StrategySettings s = q_.own;
      s.tp = tp;
      s.pp = pp;
      s.dp = dp;
      s.dp_shard = 1;
      s.dp_replicate = dp;
      s.microbatch = microbatch;
      if (!fixed("sequence_parallel")) s.sequence_parallel = tp > 1;
      for (const int ep : expert_ranks(s)) {
        s.ep = ep;
        add_schedules(s);
      }
    }
  }

  /// Ways to spread experts: over powers of two that divide them and the ranks of a stage.
  [[nodiscard]] std::vector<int> expert_ranks(const StrategySettings& s) const {
    const Routing* routing = q_.workload.network.routing();
    if (routing == nullptr || fixed("ep")) return {q_.own.ep};
    std::vector<int> out;
    for (int ep = 1; routing->experts % ep == 0 && s.dp * s.cp * s.tp % (ep * s.etp) == 0; ep *= 2) out.push_back(ep);
    return out;
  }

  void add_schedules(StrategySettings s) {
    const std::int64_t replicas = s.dp * s.microbatch;
    const bool whole = layers_ % s.pp == 0;
    if (!fixed("uneven_layers")) s.uneven_layers = !whole;
    if (fixed("schedule") || fixed("virtual_stages")) return add_states(s, batch(replicas));
    s.schedule = "1f1b";
    s.virtual_stages = 1;
    add_states(s, batch(replicas));
    if (s.pp == 1 || !whole) return;
    // Interleaved chunks take microbatches in groups of pp.
    for (int chunks = 2; chunks <= std::min(kMostChunks, layers_ / s.pp); ++chunks)
      if (layers_ % (s.pp * chunks) == 0) {
        s.schedule = "interleaved_1f1b";
        s.virtual_stages = chunks;
        add_states(s, batch(replicas * s.pp));
      }
  }

  void add_states(StrategySettings s, std::int64_t global_batch) {
    if (global_batch == 0) return;
    for (const Recompute recompute : {Recompute::none, Recompute::full}) {
      if (!fixed("recompute")) s.recompute = recompute;
      else if (recompute != Recompute::none) break;
      StrategySettings sharded = s;
      if (!fixed("zero_stage")) sharded.zero_stage = s.dp > 1 && !s.fsdp.enabled ? 1 : 0;
      out_.push_back({sharded, global_batch});
      if (s.pp > 1 || s.dp == 1 || fixed("fsdp") || fixed("zero_stage")) continue;
      sharded.zero_stage = 0;
      sharded.fsdp.enabled = true;
      sharded.dp_shard = s.dp;
      sharded.dp_replicate = 1;
      out_.push_back({sharded, global_batch});
    }
  }

  const StepQuestion& q_;
  int devices_, per_machine_, layers_;
  std::vector<StepTrial> out_;
};

}  // namespace

std::vector<StepTrial> step_trials(const StepQuestion& question, int devices, int per_machine) { return Trials(question, devices, per_machine).list(); }

std::string step_label(const StrategySettings& s) {
  std::string out = fmt::format("tp={} pp={} dp={} mb={}", s.tp, s.pp, s.dp, s.microbatch);
  if (s.cp > 1) out += fmt::format(" cp={}", s.cp);
  if (s.ep > 1) out += fmt::format(" ep={}", s.ep);
  if (s.pp > 1) out += s.virtual_stages > 1 ? fmt::format(" {}({})", s.schedule, s.virtual_stages) : " " + s.schedule;
  if (s.fsdp.enabled) out += " fsdp";
  if (s.zero_stage > 0) out += fmt::format(" zero{}", s.zero_stage);
  if (s.recompute != Recompute::none) out += " recompute=" + name_of(s.recompute);
  return out;
}

}  // namespace rehearse
