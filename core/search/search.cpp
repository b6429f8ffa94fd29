#include "core/search/search.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>

#include "core/search/bounds.hpp"
#include "core/search/parallel.hpp"

namespace rehearse {

namespace {

constexpr std::size_t kBatch = 64;       // Plans that are evaluated before the best are looked at again.
constexpr double kPlayedBelow = 0.98;    // How far a played step may stand below its closed form.
constexpr int kMostPlacements = 24;      // Room for the orders of one plan in Found::order.

std::size_t most_played(const SearchProblem& problem, const SearchOptions& options) {
  return static_cast<std::size_t>(options.most_played >= 0 ? options.most_played : std::clamp(32'768 / std::max(1, problem.devices), 4, 64));
}

/// Plans that are told apart to the end: those shown and those that may be played, now or when parts are joined.
std::size_t kept(const SearchProblem& problem, const SearchOptions& options) { return std::max(static_cast<std::size_t>(options.top), most_played(problem, options)); }

/// In order of the closed form: those that are shown, and more while one may still be faster than the best played.
void play_in_order(const SearchProblem& problem, const SearchOptions& options, SearchResult& result) {
  Seconds best{std::numeric_limits<double>::infinity()};
  std::vector<Found>& found = result.best;
  const std::size_t most = std::min(found.size(), most_played(problem, options));
  const auto stopped = [&] { return options.stop && options.stop(); };
  for (std::size_t i = 0; i < most && !stopped(); ++i) {
    Evaluation& e = found[i].evaluation;
    if (i >= static_cast<std::size_t>(options.top) && e.step_time * kPlayedBelow > best) break;
    play(problem, found[i].settings, options.backend, e, options.stop);
    ++result.played;
    if (e.played) best = std::min(best, *e.played);
    if (options.progress) options.progress({"playing the best", static_cast<double>(i + 1), static_cast<double>(most), best});
  }
  std::erase_if(found, [](const Found& f) { return !f.evaluation.fits; });
}

class Searching {
 public:
  Searching(const SearchProblem& problem, const StrategySettings& wanted, const SearchOptions& options)
      : problem_(problem), options_(options), space_(problem.workload, wanted, problem.devices, options.fixed), kept_(kept(problem, options)) {}

  SearchResult run(bool own_is_a_plan) {
    result_.combinations = space_.combinations();
    choose_plans();
    bound_pass_costs();
    bound_plans();
    evaluate_in_order();
    play_best(problem_, options_, own_is_a_plan, result_);
    return std::move(result_);
  }

 private:
  struct Item {
    std::uint32_t plan = 0;
    int placement = 0;
    std::vector<std::string> order;  ///< Of axes.
  };

  [[nodiscard]] bool stopped() const { return options_.stop && options_.stop(); }

  void tell(const char* doing, double done, double all) const {
    if (!options_.progress) return;
    const bool any = !result_.best.empty();
    options_.progress({doing, done, all, any ? result_.best.front().evaluation.time() : Seconds{}});
  }

  /// This shard's plans; their settings are made anew wherever they are needed, as millions of them would not fit.
  void choose_plans() {
    const std::size_t count = static_cast<std::size_t>(options_.shard.count);
    for (std::size_t i = static_cast<std::size_t>(options_.shard.index); i < space_.plans().size(); i += count) plans_.push_back(static_cast<std::uint32_t>(i));
    result_.legal = plans_.size();
  }

  [[nodiscard]] StrategySettings settings(std::uint32_t plan) const { return space_.settings(space_.plans()[plan]); }

  void bound_pass_costs() {
    std::map<PassKey, std::uint32_t> index;
    std::vector<std::uint32_t> example;
    key_of_.resize(plans_.size());
    for (std::size_t i = 0; i < plans_.size() && !stopped(); ++i) {
      const auto [at, made] = index.emplace(pass_key(settings(plans_[i])), static_cast<std::uint32_t>(example.size()));
      if (made) example.push_back(plans_[i]);
      key_of_[i] = at->second;
    }
    costs_.resize(example.size());
    std::atomic<std::size_t> done{0};
    parallel_for(options_.jobs, example.size(), options_.stop,
                 [&](std::size_t k) {
                   costs_[k] = pass_costs(problem_, settings(example[k]));
                   ++done;
                 },
                 [&] { tell("bounding", static_cast<double>(done), static_cast<double>(example.size())); });
  }

  void bound_plans() {
    bounds_.resize(plans_.size());
    constexpr std::size_t kChunk = 4096;
    parallel_for(options_.jobs, (plans_.size() + kChunk - 1) / kChunk, options_.stop, [&](std::size_t c) {
      for (std::size_t i = c * kChunk; i < std::min(plans_.size(), (c + 1) * kChunk); ++i) bounds_[i] = bound(costs_[key_of_[i]], settings(plans_[i]), problem_.workload.training.global_batch);
    });
    Bytes capacity{std::numeric_limits<double>::max()};
    for (const Cluster::Part& part : problem_.cluster.parts()) capacity = std::min(capacity, part.gpu->memory);
    if (options_.most_memory > Bytes{0}) capacity = std::min(capacity, options_.most_memory);
    for (std::uint32_t i = 0; i < plans_.size(); ++i)
      if (bounds_[i].memory <= capacity) order_.push_back(i);
    result_.fit = order_.size();
    std::sort(order_.begin(), order_.end(), [&](std::uint32_t a, std::uint32_t b) { return std::make_pair(least(a), plans_[a]) < std::make_pair(least(b), plans_[b]); });
  }

  /// Least value of the objective.
  [[nodiscard]] double least(std::uint32_t i) const { return options_.objective == Objective::memory ? bounds_[i].memory.value() : bounds_[i].step_time.value(); }

  /// What a plan must be below to be shown, or to be played with a chance of being the best.
  [[nodiscard]] double threshold() const {
    const auto value = [this](std::size_t i) {
      if (i >= result_.best.size()) return std::numeric_limits<double>::infinity();
      const Evaluation& e = result_.best[i].evaluation;
      return options_.objective == Objective::memory ? e.needed.value() : e.step_time.value();
    };
    const double shown = value(static_cast<std::size_t>(options_.top) - 1);
    return std::min(value(kept_ - 1), std::max(shown, value(0) / kPlayedBelow));
  }

  [[nodiscard]] bool may_reach_front(std::uint32_t i) const {
    return std::none_of(result_.front.begin(), result_.front.end(), [&](const Found& f) { return f.evaluation.step_time <= bounds_[i].step_time && f.evaluation.needed <= bounds_[i].memory; });
  }

  void evaluate_in_order() {
    std::size_t next = 0;
    int for_front = 0;
    while (next < order_.size() && !stopped()) {
      std::vector<Item> batch;
      const double limit = threshold();
      for (; next < order_.size() && batch.size() < kBatch; ++next) {
        const std::uint32_t i = order_[next];
        const bool best = least(i) < limit;
        if (!best && for_front >= options_.front_evaluations) {
          next = order_.size();  // Those that follow are bounded higher still.
          break;
        }
        if (!best && !may_reach_front(i)) continue;
        for_front += !best;
        batch.push_back({i, 0, {}});
      }
      const std::vector<Evaluation> answers = evaluate_batch(batch, next);
      std::vector<Item> other_orders;
      for (std::size_t k = 0; k < answers.size(); ++k)
        if (answers[k].fits && least(batch[k].plan) < threshold()) add_orders(batch[k].plan, other_orders);
      if (!other_orders.empty()) evaluate_batch(other_orders, next);
    }
  }

  void add_orders(std::uint32_t i, std::vector<Item>& out) const {
    const auto orders = space_.placements(space_.plans()[plans_[i]]);
    for (std::size_t o = 1; o < orders.size() && o < kMostPlacements; ++o) out.push_back({i, static_cast<int>(o), orders[o]});
  }

  /// Answers in the order of `batch`; shorter where the search was stopped. The best and the front are brought up to date.
  std::vector<Evaluation> evaluate_batch(const std::vector<Item>& batch, std::size_t position) {
    std::vector<std::optional<Evaluation>> made(batch.size());
    std::vector<StrategySettings> tried(batch.size());
    parallel_for(options_.jobs, batch.size(), options_.stop, [&](std::size_t k) {
      tried[k] = settings(plans_[batch[k].plan]);
      if (!batch[k].order.empty()) tried[k].placement = batch[k].order;
      made[k] = evaluate(problem_, tried[k], options_.most_memory);
    });
    std::vector<Evaluation> out;
    for (std::size_t k = 0; k < batch.size() && made[k]; ++k) {
      take(batch[k], std::move(tried[k]), *made[k]);
      out.push_back(std::move(*made[k]));
    }
    rank(result_.best, options_.objective);
    if (result_.best.size() > kept_) result_.best.resize(kept_);
    const double limit = threshold();
    const auto end = std::partition_point(order_.begin(), order_.end(), [&](std::uint32_t i) { return least(i) < limit; });
    tell("evaluating", static_cast<double>(position), static_cast<double>(std::max<std::ptrdiff_t>(end - order_.begin(), static_cast<std::ptrdiff_t>(position))));
    return out;
  }

  void take(const Item& item, StrategySettings settings, const Evaluation& e) {
    ++result_.evaluated;
    if (e.defect && result_.defects++ == 0) result_.first_defect = plan_label(settings) + ": " + e.refusal;
    if (item.placement == 0) {
      result_.legal -= !e.refusal.empty();
      result_.fit -= !e.fits;
    }
    if (!e.fits) return;
    Found found{std::move(settings), e, std::uint64_t{plans_[item.plan]} * kMostPlacements + static_cast<std::uint64_t>(item.placement)};
    add_to_front(result_.front, found);
    result_.best.push_back(std::move(found));
  }

  const SearchProblem& problem_;
  const SearchOptions& options_;
  Space space_;
  std::size_t kept_;
  std::vector<std::uint32_t> plans_;   ///< Of this shard: indices into the space's.
  std::vector<std::uint32_t> key_of_;  ///< By position in plans_.
  std::vector<PassCosts> costs_;
  std::vector<Bound> bounds_;
  std::vector<std::uint32_t> order_;   ///< Positions in plans_ of what may fit, least bound first.
  SearchResult result_;
};

}  // namespace

SearchResult search(const SearchProblem& problem, const StrategySettings& wanted, const SearchOptions& options, bool own_is_a_plan) {
  return Searching(problem, wanted, options).run(own_is_a_plan);
}

void play_best(const SearchProblem& problem, const SearchOptions& options, bool own_is_a_plan, SearchResult& result) {
  rank(result.best, options.objective);
  if (own_is_a_plan) {
    Found own{problem.own, evaluate(problem, problem.own, options.most_memory), 0};
    if (own.evaluation.refusal.empty()) result.own = std::move(own);
  }
  if (!options.backend.empty()) {
    play_in_order(problem, options, result);
    if (result.own && result.own->evaluation.fits && !(options.stop && options.stop())) {
      play(problem, result.own->settings, options.backend, result.own->evaluation, options.stop);
      ++result.played;
    }
    rank(result.best, options.objective);
  }
  result.interrupted = result.interrupted || (options.stop && options.stop());
  for (Found& f : result.front)
    for (const Found& b : result.best)
      if (b.order == f.order) f.evaluation = b.evaluation;
}

}  // namespace rehearse
