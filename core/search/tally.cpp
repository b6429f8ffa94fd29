#include "core/search/tally.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <unordered_map>

#include "core/base/index.hpp"
#include "core/config/settings/strategy.hpp"
#include "core/search/parallel.hpp"
#include "core/strategy/workload.hpp"

namespace rehearse {

namespace {

class Tallying {
 public:
  Tallying(const SearchProblem& problem, const SearchOptions& options, const Space& space, double limit)
      : problem_(problem),
        options_(options),
        space_(space),
        limit_(limit),
        at_peak_(options.objective == Objective::memory ? Seconds{} : step_at_peak(problem)) {}

  Tally run(const std::vector<Space::Plan>& priced, const Tell& tell) {
    find_ways();
    price(tell);
    Tally out;
    for (std::uint32_t m = 0; m < space_.families().size(); ++m)
      for_each_case(m, [&](const Space::Plan& p, std::uint64_t plans) { add(p, plans, out); });
    for (const Space::Plan& p : priced) {
      (is_bounded(least(p)) ? out.bounded : out.left) -= 1;
      out.proven -= is_bounded(proven(p)) ? 1 : 0;
    }
    const auto parts = static_cast<std::uint64_t>(options_.shard.count);
    for (std::uint64_t* n : {&out.plans, &out.bounded, &out.left, &out.proven}) *n /= parts;
    if (out.left == 0) out.least_left = {};
    return out;
  }

 private:
  /// Of one mesh, what else decides how layers and samples are divided: declared settings, context exchange,
  /// recomputation, sequence parallelism, microbatch.
  using Way = std::array<std::uint32_t, 3>;
  struct HashOfWay {
    std::size_t operator()(const Way& way) const {
      std::uint64_t h = 0;
      for (const std::uint32_t x : way) h = (h ^ x) * 0x9E3779B97F4A7C15ULL, h ^= h >> 32;
      return h;
    }
  };

  [[nodiscard]] int microbatch_of(const Space::Plan& p) const {
    return nth(space_.lists(p.mesh).pipelines, p.pipeline).microbatch;
  }
  [[nodiscard]] Way way_of(const Space::Plan& p) const {
    const std::uint32_t rest = p.declared | std::uint32_t{p.context} << 8 | std::uint32_t{p.recompute} << 16 |
                               (p.sequence_parallel ? 1U : 0U) << 24;
    return {p.mesh, rest, static_cast<std::uint32_t>(microbatch_of(p))};
  }

  /// Whole passes in one chunk: schedules that split them do no less.
  [[nodiscard]] StrategySettings plain(const Space::Plan& p) const {
    StrategySettings s = space_.settings(p);
    s.schedule = "1f1b";
    s.virtual_stages = 1;
    return s;
  }

  /// Calls visit(plan, plans) for plans of a mesh that differ in schedule and chunks alone, one as their example.
  template <class Visit>
  void for_each_case(std::uint32_t m, const Visit& visit) const {
    const auto& pipelines = space_.lists(m).pipelines;
    std::map<std::pair<int, int>, std::pair<std::uint16_t, std::uint64_t>> cases;  // By microbatch and kind.
    for (std::size_t i = 0; i < pipelines.size(); ++i) {
      auto& [example, plans] = cases[{pipelines[i].microbatch, Space::pipeline_kind(pipelines[i])}];
      example = static_cast<std::uint16_t>(i);
      ++plans;
    }
    for (const Space::Family& f : space_.families()[m]) {
      Space::Plan p = f.first;
      for (const auto& [key, value] : cases) {
        if ((f.kinds >> key.second & 1) == 0) continue;
        p.pipeline = value.first;
        for (const std::uint8_t r : space_.recomputes()) {
          p.recompute = r;
          visit(p, value.second);
        }
      }
    }
  }

  void find_ways() {
    for (std::uint32_t m = 0; m < space_.families().size(); ++m)
      for_each_case(m, [this](const Space::Plan& p, std::uint64_t plans) {
        const auto [at, made] = key_of_way_.try_emplace(way_of(p), -1);
        if (made) at->second = key_number(plain(p));
        nth(keys_, at->second).plans += plans;
      });
  }

  int key_number(const StrategySettings& s) {
    const auto [at, made] = numbers_.try_emplace(pass_key(s), static_cast<int>(keys_.size()));
    if (made) keys_.push_back({s, {}, 0});
    return at->second;
  }

  void price(const Tell& tell) {
    std::vector<std::size_t> order(keys_.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::stable_sort(order.begin(), order.end(),
                     [this](std::size_t a, std::size_t b) { return keys_[a].plans > keys_[b].plans; });
    std::atomic<std::size_t> done{0};
    parallel_for(
        options_.jobs, order.size(), options_.ended(),
        [&](std::size_t k) {
          keys_[order[k]].costs = pass_costs(problem_, keys_[order[k]].example);
          ++done;
        },
        [&] { tell("bounding", static_cast<double>(done), static_cast<double>(order.size())); });
  }

  /// What a stage does in the mean, of what `of` gives of a microbatch; 0: unknown.
  template <class Of>
  [[nodiscard]] Seconds of_stage(const Space::Plan& p, const Of& of) const {
    const auto at = key_of_way_.find(way_of(p));
    if (at == key_of_way_.end()) return {};
    const PassCosts& c = nth(keys_, at->second).costs;
    if (!c.known || options_.objective == Objective::memory) return {};
    const Space::Mesh& mesh = nth(space_.meshes(), p.mesh);
    const double microbatches = static_cast<double>(problem_.workload.training.global_batch) /
                                (static_cast<double>(mesh.dp) * microbatch_of(p));
    return of(c) * (microbatches / mesh.pp);
  }
  [[nodiscard]] Seconds proven(const Space::Plan& p) const {
    return of_stage(p, [](const PassCosts& c) { return c.kernels; });
  }
  [[nodiscard]] Seconds least(const Space::Plan& p) const {
    const Seconds judged = of_stage(
        p, [](const PassCosts& c) { return (c.compute - c.launch) * kBoundMargin + c.exposed * kPairedMargin; });
    return max(judged, max(proven(p), at_peak_));
  }
  [[nodiscard]] bool is_bounded(Seconds least) const { return least.value() >= limit_; }

  void add(const Space::Plan& plan, std::uint64_t plans, Tally& out) {
    const Seconds least = this->least(plan);
    out.plans += plans;
    if (is_bounded(proven(plan))) out.proven += plans;
    if (is_bounded(least)) {
      out.bounded += plans;
      return;
    }
    out.left += plans;
    if (out.left == plans || least < out.least_left) out.least_left = least;
  }

  struct Divided {
    StrategySettings example;
    PassCosts costs;
    std::uint64_t plans = 0;
  };

  const SearchProblem& problem_;
  const SearchOptions& options_;
  const Space& space_;
  double limit_;
  Seconds at_peak_;  ///< What plans without another bound take at least.
  std::unordered_map<Way, int, HashOfWay> key_of_way_;
  std::map<PassKey, int> numbers_;
  std::vector<Divided> keys_;
};

}  // namespace

Tally tally(const SearchProblem& problem, const SearchOptions& options, const Space& space, double limit,
            const std::vector<Space::Plan>& priced, const Tell& tell) {
  return Tallying(problem, options, space, limit).run(priced, tell);
}

}  // namespace rehearse
