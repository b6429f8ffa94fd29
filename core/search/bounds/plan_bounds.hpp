#pragma once
// Bounds of all plans of a space that have no closed form: by their plain sibling (relaxation.hpp) where that has one,
// else by one microbatch (bounds.hpp); where asked for, by few layers played (steady_step.hpp).

#include <algorithm>
#include <cstdint>
#include <map>
#include <vector>

#include "core/search/bounds/bounds.hpp"
#include "core/search/bounds/relaxation.hpp"
#include "core/search/bounds/steady_step.hpp"
#include "core/search/parallel.hpp"
#include "core/search/search.hpp"

namespace rehearse {

/// Says how far something is: what, done, all.
using Tell = std::function<void(const char*, double, double)>;

/// Positions from `begin` to before `end`.
struct Range {
  std::size_t begin = 0, end = 0;
};

/// Calls work(evaluator, i) for all of a range, in turns that any thread takes. None begins after `stop` turned true;
/// it may be empty.
template <class Work>
void in_turns(int jobs, const std::function<bool()>& stop, QuickEvaluators& quick, Range range, const char* doing,
              const Tell& tell, const Work& work) {
  constexpr std::size_t kTurn = 1024;  // Each takes microseconds, once its tables are there.
  const std::size_t count = range.end - range.begin;
  std::atomic<std::size_t> done{0};
  parallel_for(
      jobs, (count + kTurn - 1) / kTurn, stop,
      [&](std::size_t turn) {
        const std::size_t begin = range.begin + turn * kTurn, end = std::min(range.end, begin + kTurn);
        quick.with([&](QuickEvaluator& mine) {
          for (std::size_t i = begin; i < end && !(stop && stop()); ++i) work(mine, i);
        });
        done += end - begin;
      },
      [&] { tell(doing, static_cast<double>(done), static_cast<double>(count)); });
}

/// Values of a map that are to be worked out, each with settings that have its key.
template <class Key, class Value>
class Wanted {
 public:
  struct One {
    typename std::map<Key, Value>::value_type* entry;
    StrategySettings example;
  };

  /// Each key once: what no time was left for stays as it is.
  void add(std::map<Key, Value>& known, const Key& key, const StrategySettings& s) {
    if (const auto [at, made] = known.emplace(key, Value{}); made) all_.push_back({&*at, s});
  }
  [[nodiscard]] std::size_t size() const { return all_.size(); }
  [[nodiscard]] const One& operator[](std::size_t k) const { return all_[k]; }
  /// Puts them in the order of their keys, and gives runs of neighbours that are `alike`.
  template <class Alike>
  [[nodiscard]] std::vector<Range> runs(const Alike& alike) {
    std::sort(all_.begin(), all_.end(), [](const One& a, const One& b) { return a.entry->first < b.entry->first; });
    std::vector<Range> out;
    for (std::size_t k = 0; k < all_.size(); ++k) {
      if (k == 0 || !alike(all_[k - 1].entry->first, all_[k].entry->first)) out.push_back({k, k});
      out.back().end = k + 1;
    }
    return out;
  }

 private:
  std::vector<One> all_;
};

class PlanBounds {
 public:
  /// Positions in `plans` are what the rest goes by; they may be filled in later. All must outlive it.
  PlanBounds(const SearchProblem& problem, const SearchOptions& options, const Space& space,
             const std::vector<Space::Plan>& plans, QuickEvaluators& quick)
      : problem_(problem), options_(options), space_(space), plans_(plans), quick_(quick), traffic_(problem) {}

  /// Calls work(evaluator, k) for all k below `count`, until that share of the time is over.
  template <class Work>
  void over(std::size_t count, double share, const char* doing, const Tell& tell, const Work& work) const {
    in_turns(options_.jobs, options_.ended(share), quick_, {0, count}, doing, tell, work);
  }

  /// Bounds all plans but those that `known` names. What no time was left for, or could not be bounded, has bounds of
  /// zero.
  void work_out(const std::vector<char>& known, const Tell& tell);
  [[nodiscard]] const Bound& operator[](std::uint32_t i) const { return bounds_[i]; }
  /// What the plan's sibling takes without anything sharded or moved, in any order of axes that leaves tensor
  /// parallelism where it is; 0: unknown.
  [[nodiscard]] Seconds relaxed_step(std::uint32_t i) const { return relaxed_[relaxed_of_[i]].step_time; }
  /// By the plain sibling alone, in microseconds; zeros where that has no closed form. From any thread.
  [[nodiscard]] Bound by_sibling(QuickEvaluator& quick, const StrategySettings& settings);
  /// How many of these take no less than `limit` seconds, by what is derived without margins. As far as there is time.
  [[nodiscard]] std::size_t proven_slow(const std::vector<std::uint32_t>& plans, double limit);
  /// Raises the bounds of these, as far as playing a few layers says more (steady_step.hpp).
  void sharpen(const std::vector<std::uint32_t>& plans);
  /// Bounds of settings that need not be of the space, by all that is known of bounding. Zeros where no time was left.
  [[nodiscard]] std::vector<Bound> of_settings(const std::vector<StrategySettings>& settings);

 private:
  [[nodiscard]] StrategySettings settings(std::uint32_t i) const { return space_.settings(plans_[i]); }
  [[nodiscard]] bool is_wide(std::size_t i) const {
    return space_.width(plans_[i]) > problem_.cluster.device_count() / problem_.cluster.node_count();
  }
  [[nodiscard]] Bound by_one_microbatch(const StrategySettings& settings) const;
  [[nodiscard]] Seconds by_few_layers(const StrategySettings& settings) const;
  void price(Wanted<PassKey, PassCosts>& wanted, const Tell& tell);
  void price_one_microbatch(const std::vector<StrategySettings>& settings);
  void play_few_layers(const std::vector<StrategySettings>& settings);
  void relax(const Tell& tell);
  void price_microbatches(const std::vector<char>& known, const Tell& tell);

  const SearchProblem& problem_;
  const SearchOptions& options_;
  const Space& space_;
  const std::vector<Space::Plan>& plans_;
  QuickEvaluators& quick_;
  PlanTraffic traffic_;
  std::vector<std::uint32_t> relaxed_of_;  ///< By position.
  std::vector<Relaxed> relaxed_;
  std::map<PassKey, PassCosts> costs_;
  std::map<SteadyKey, SteadyStep> steady_;
  std::vector<Bound> bounds_;  ///< By position.
};

}  // namespace rehearse
