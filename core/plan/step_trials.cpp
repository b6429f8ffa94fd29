#include <algorithm>
#include <cmath>

#include "core/config/settings/strategy.hpp"
#include "core/plan/step_search.hpp"
#include "core/schedule/schedule.hpp"
#include "core/strategy/workload.hpp"

namespace rehearse {

namespace {

constexpr int kMostStages = 64;
constexpr int kMostChunks = 8;
constexpr int kWidestTensor = 8;  // Beyond, a layer's products are too narrow to be worth their messages.
// Tokens of a sequence that context parallelism leaves a rank: below, messages outweigh the attention they divide.
constexpr std::int64_t kShortestShare = 4096;

class Trials {
 public:
  Trials(const StepQuestion& q, int devices, int per_machine, TrialKind kind)
      : q_(q), devices_(devices), per_machine_(per_machine), kind_(kind), layers_(q.workload.network.layers()) {}

  std::vector<StepTrial> list() {
    for (int tp = 1; tp <= std::min(per_machine_, kWidestTensor); tp *= 2)
      if (per_machine_ % tp == 0 && admits("tp", q_.own.tp, tp))
        for (const int cp : context_ranks())
          for (int pp = 1; pp <= std::min(layers_, kMostStages); ++pp)
            if (const int rest = tp * cp * pp; devices_ % rest == 0 && admits("pp", q_.own.pp, pp))
              add_mesh(tp, cp, pp, devices_ / rest);
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

  [[nodiscard]] std::vector<int> context_ranks() const {
    if (fixed("cp")) return {q_.own.cp};
    std::vector<int> out;
    for (int cp = 1; cp == 1 || q_.workload.training.sequence_length / cp >= kShortestShare; cp *= 2) out.push_back(cp);
    return out;
  }

  void add_mesh(int tp, int cp, int pp, int dp) {
    if (fixed("dp") && q_.own.dp > 0 && q_.own.dp != dp) return;
    for (const std::int64_t microbatch : {1, 2, 4}) {
      if (!admits("microbatch", q_.own.microbatch, microbatch)) continue;
      StrategySettings s = q_.own;
      s.tp = tp;
      s.cp = cp;
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
    if (!fixed("uneven_layers")) s.uneven_layers = layers_ % s.pp != 0;
    for (const std::string& name : schedule_names(s)) {
      s.schedule = name;
      for (const int chunks : chunk_counts(s)) {
        s.virtual_stages = chunks;
        add_schedule(s);
      }
    }
  }

  [[nodiscard]] std::vector<std::string> schedule_names(const StrategySettings& s) const {
    const bool further = kind_ == TrialKind::schedules;
    const std::vector<std::string> usual{"1f1b", "interleaved_1f1b"};
    if (fixed("schedule") || s.pp == 1)
      return further ? std::vector<std::string>{} : std::vector{fixed("schedule") ? q_.own.schedule : usual.front()};
    if (!further) return usual;
    std::vector<std::string> out = schedules().names();
    std::erase_if(out,
                  [&](const std::string& name) { return std::find(usual.begin(), usual.end(), name) != usual.end(); });
    return out;
  }

  [[nodiscard]] std::vector<int> chunk_counts(const StrategySettings& s) const {
    if (fixed("virtual_stages")) return {q_.own.virtual_stages};
    std::vector<int> out{1};
    for (int chunks = 2; s.pp > 1 && chunks <= kMostChunks; ++chunks)
      if (layers_ % (s.pp * chunks) == 0) out.push_back(chunks);
    return out;
  }

  /// With the batch nearest to the one asked for that the schedule takes: some take microbatches in groups of pp, some
  /// at least twice as many.
  void add_schedule(const StrategySettings& s) {
    const std::int64_t replicas = s.dp * s.microbatch;
    for (const std::int64_t unit : {replicas, replicas * s.pp}) {
      const std::int64_t total = batch(unit);
      if (total == 0 || !runs(s, total / replicas)) continue;
      add_states(s, total);
      return;
    }
  }

  [[nodiscard]] static bool runs(const StrategySettings& s, std::int64_t microbatches) {
    try {
      schedules().at(s.schedule).value->check({s.pp, s.virtual_stages, static_cast<int>(microbatches)});
      return true;
    } catch (const Error&) {
      return s.pp == 1 && s.virtual_stages == 1;  // One stage has nothing to schedule.
    }
  }

  void add_states(const StrategySettings& s, std::int64_t global_batch) {
    for (const Recompute recompute :
         fixed("recompute") ? std::vector{q_.own.recompute} : std::vector{Recompute::none, Recompute::full}) {
      StrategySettings sharded = s;
      sharded.recompute = recompute;
      if (!fixed("zero_stage")) sharded.zero_stage = s.dp * s.cp > 1 && !s.fsdp.enabled ? 1 : 0;
      // Beside the next step's first passes, as frameworks do it.
      if (!fixed("overlap")) sharded.overlap.param_gather = sharded.zero_stage > 0;
      add_places(sharded, global_batch);
      if (s.pp > 1 || s.dp == 1 || fixed("fsdp") || fixed("zero_stage")) continue;
      sharded.zero_stage = 0;
      sharded.overlap.param_gather = s.overlap.param_gather;
      sharded.fsdp.enabled = true;
      sharded.dp_shard = s.dp;
      sharded.dp_replicate = 1;
      add_places(sharded, global_batch);
    }
  }

  void add_places(StrategySettings s, std::int64_t global_batch) {
    if (kind_ != TrialKind::moved) return out_.push_back({s, global_batch});
    if (fixed("offload") || s.microbatch > 1) return;  // Memory is short: a microbatch of one needs least.
    for (const Offload place : {Offload::optimizer, Offload::all}) {
      s.offload = place;
      out_.push_back({s, global_batch});
    }
  }

  const StepQuestion& q_;
  int devices_, per_machine_;
  TrialKind kind_;
  int layers_;
  std::vector<StepTrial> out_;
};

}  // namespace

std::vector<StepTrial> step_trials(const StepQuestion& question, int devices, int per_machine, TrialKind kind) {
  return Trials(question, devices, per_machine, kind).list();
}

}  // namespace rehearse
