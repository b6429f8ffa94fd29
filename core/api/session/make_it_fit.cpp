#include "core/api/session/make_it_fit.hpp"

#include <algorithm>
#include <functional>
#include <set>
#include <string_view>

#include <fmt/format.h>

#include "core/config/settings/strategy.hpp"
#include "core/estimate/estimate.hpp"
#include "core/estimate/evaluation.hpp"
#include "core/strategy/workload.hpp"

namespace rehearse {

namespace {

/// One change: `make` gives false where it changes nothing or cannot be made. Of a family each goes further than the
/// one before and costs more: tp by two, then by four.
struct Change {
  const char* family;
  std::function<bool(StrategySettings&)> make;
};

bool stronger_recompute(StrategySettings& s, Recompute to) {
  if (s.recompute >= to) return false;
  s.recompute = to;
  return true;
}

/// Multiplies an axis by `factor` and takes it from dp.
bool widen(StrategySettings& s, int StrategySettings::*axis, int factor) {
  if (s.dp % factor != 0 || (s.dp / factor) % s.dp_shard != 0) return false;
  s.*axis *= factor;
  s.dp /= factor;
  s.dp_replicate = s.dp / s.dp_shard;
  return true;
}

std::vector<Change> candidates(const Session& session) {
  constexpr int kMostContext = 16;
  const StrategySettings& now = session.scenario.strategy;
  std::vector<Change> out;
  const auto add = [&out](const char* family, std::function<bool(StrategySettings&)> make) {
    out.push_back({family, std::move(make)});
  };
  for (const Recompute to : {Recompute::selective, Recompute::full})
    add("recompute", [to](StrategySettings& s) { return stronger_recompute(s, to); });
  add("sequence parallelism",
      [](StrategySettings& s) { return s.tp > 1 && !std::exchange(s.sequence_parallel, true); });
  for (int stage = 1; stage <= 3; ++stage)
    add("zero", [stage](StrategySettings& s) {
      return s.dp > 1 && !s.fsdp.enabled && std::exchange(s.zero_stage, std::max(stage, s.zero_stage)) < stage;
    });
  add("fsdp", [](StrategySettings& s) {
    if (s.dp == 1 || s.fsdp.enabled) return false;
    s.fsdp.enabled = true;
    s.zero_stage = 0;
    s.dp_shard = s.dp;
    s.dp_replicate = 1;
    return true;
  });
  add("offload optimizer",
      [](StrategySettings& s) { return std::exchange(s.offload, Offload::optimizer) == Offload::none; });
  add("offload activations",
      [](StrategySettings& s) { return std::exchange(s.offload, Offload::activations) == Offload::none; });
  for (std::int64_t b = now.microbatch / 2; b >= 1; b /= 2)
    if (now.microbatch % b == 0)
      add("microbatch", [b](StrategySettings& s) { return b < std::exchange(s.microbatch, b); });
  for (int f = 2; f <= now.dp && now.tp * f <= session.cluster.machine(0).gpus; f *= 2)
    if (now.dp % f == 0) add("tp", [f](StrategySettings& s) { return widen(s, &StrategySettings::tp, f); });
  if (const Routing* routing = session.workload.network.routing())
    for (int f = 2; std::int64_t{now.ep} * f <= routing->experts; f *= 2)
      if (routing->experts % (std::int64_t{now.ep} * f) == 0 && now.dp * now.tp % (now.ep * f * now.etp) == 0)
        add("ep", [f](StrategySettings& s) { return (s.ep *= f) > 1; });
  const int layers = session.workload.network.layers();
  for (int f = 2; f <= now.dp && now.pp * f <= layers; f *= 2)
    if (now.dp % f == 0 && layers % (now.pp * f) == 0)
      add("pp", [f](StrategySettings& s) { return widen(s, &StrategySettings::pp, f); });
  for (int f = 2; f <= std::min(now.dp, kMostContext) && session.workload.network.sequences; f *= 2)
    if (now.dp % f == 0) add("cp", [f](StrategySettings& s) { return widen(s, &StrategySettings::cp, f); });
  return out;
}

/// What differs, as --set takes it.
std::vector<std::string> settings_text(const StrategySettings& from, const StrategySettings& to) {
  std::vector<std::string> out;
  const auto changed = [&out](const char* key, const auto& a, const auto& b) {
    if (a != b) out.push_back(fmt::format("strategy.{}={}", key, b));
  };
  changed("recompute", name_of(from.recompute), name_of(to.recompute));
  changed("sequence_parallel", from.sequence_parallel, to.sequence_parallel);
  changed("zero_stage", from.zero_stage, to.zero_stage);
  changed("microbatch", from.microbatch, to.microbatch);
  changed("tp", from.tp, to.tp);
  changed("cp", from.cp, to.cp);
  changed("pp", from.pp, to.pp);
  changed("ep", from.ep, to.ep);
  changed("dp", from.dp, to.dp);
  changed("fsdp.enabled", from.fsdp.enabled, to.fsdp.enabled);
  changed("offload", name_of(from.offload), name_of(to.offload));
  if (from.dp_shard > 1) changed("dp_replicate", from.dp_replicate, to.dp_replicate);
  return out;
}

/// The settings as they are, where they fit; nothing for what does not or is refused.
class Trial {
 public:
  Trial(const Session& session, const MemoryRule& rule) : session_(session), rule_(rule), cost_(session.cost_model()) {}

  /// Keeps the fastest that fits. What the fullest stage then lacks, at most 0 where it fits; nothing where the change
  /// is refused.
  std::optional<Bytes> lacking(const StrategySettings& settings) {
    if (session_.framework && !rehearse::lacking(*session_.framework, settings).empty()) return std::nullopt;
    try {
      const Program program = session_.lowered(settings);
      const MemoryReport report = memory_report(program, session_.cluster, rule_);
      const StageMemory& worst = report.tightest();
      if (!report.fits()) return max(worst.needed - worst.capacity, Bytes{1});
      const int steps = steps_in_period(settings, session_.workload.input);
      const Seconds time = estimate(program, cost_, session_.as_run(settings), steps).step_time;
      if (!best_ || time < best_->step_time)
        best_ = Suggestion{settings_text(session_.scenario.strategy, settings), worst.needed, time};
      return Bytes{0};
    } catch (const Error&) {
      return std::nullopt;  // This network or schedule refuses the change: others may do.
    }
  }
  [[nodiscard]] const std::optional<Suggestion>& best() const { return best_; }

 private:
  const Session& session_;
  const MemoryRule& rule_;
  CostModel cost_;
  std::optional<Suggestion> best_;
};

}  // namespace

std::optional<Suggestion> cheapest_change(const Session& session, const MemoryRule& rule) {
  constexpr std::size_t kPaired = 5;
  const std::vector<Change> changes = candidates(session);
  Trial trial(session, rule);
  std::vector<std::pair<Bytes, std::size_t>> saving;
  std::set<std::string_view> enough;  ///< Families of which one fits: the next would only cost more.
  for (std::size_t i = 0; i < changes.size(); ++i) {
    StrategySettings s = session.scenario.strategy;
    if (enough.contains(changes[i].family) || !changes[i].make(s)) continue;
    const auto lacking = trial.lacking(s);
    if (lacking && *lacking == Bytes{0}) enough.insert(changes[i].family);
    if (lacking) saving.emplace_back(*lacking, i);
  }
  if (trial.best()) return trial.best();
  std::sort(saving.begin(), saving.end());
  if (saving.size() > kPaired) saving.resize(kPaired);
  for (std::size_t i = 0; i < saving.size(); ++i) {
    for (std::size_t j = i + 1; j < saving.size(); ++j) {
      // In the order of the list: later changes build on earlier ones.
      const auto [first, second] = std::minmax(saving[i].second, saving[j].second);
      StrategySettings s = session.scenario.strategy;
      if (changes[first].make(s) && changes[second].make(s)) (void)trial.lacking(s);
    }
  }
  return trial.best();
}

}  // namespace rehearse
