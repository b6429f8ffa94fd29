#include "core/search/search.hpp"

#include <algorithm>
#include <functional>
#include <iterator>
#include <limits>
#include <tuple>
#include <unordered_map>
#include <unordered_set>

#include "core/base/index.hpp"
#include "core/config/settings/strategy.hpp"
#include "core/search/bounds/plan_bounds.hpp"
#include "core/search/guide.hpp"
#include "core/search/plan_order.hpp"
#include "core/search/playing.hpp"
#include "core/search/tally.hpp"
#include "core/strategy/workload.hpp"

namespace rehearse {

namespace {

constexpr std::size_t kBatch = 64;     // Plans that are evaluated before the best are looked at again.
constexpr std::size_t kReported = 64;  // Plans that a result has at most, unless more are asked for.

class Searching {
 public:
  Searching(const SearchProblem& problem, const StrategySettings& wanted, const SearchOptions& options)
      : problem_(problem),
        options_(options),
        space_(problem.workload, wanted, problem.devices, options.fixed, options.admits),
        kept_(kept_plans(problem, options)),
        quick_(problem, options.most_memory),
        bounds_(problem, options, space_, plans_, quick_),
        guide_(space_, std::max(1, problem.cluster.device_count() / problem.cluster.node_count()),
               [this](const std::vector<Space::Plan>& plans) { return judged(plans); }) {}

  SearchResult run(bool own_is_a_plan) {
    guide(own_is_a_plan);
    if (options_.objective != Objective::memory) result_.at_peak = step_at_peak(problem_);
    space_.enumerate(options_.jobs, options_.stop);
    result_.whole = space_.all();
    result_.combinations = space_.combinations();
    if (space_.legal() / static_cast<std::uint64_t>(options_.shard.count) <= kMostListed)
      search_all();
    else
      search_on();
    play_best(problem_, options_, own_is_a_plan, result_);
    count_unplayed();
    const std::size_t shown = std::max(static_cast<std::size_t>(options_.top), kReported);
    if (options_.shard.count == 1 && result_.best.size() > shown) result_.best.resize(shown);
    return std::move(result_);
  }

 private:
  static constexpr std::uint32_t kNowhere = std::numeric_limits<std::uint32_t>::max();
  struct Item {
    Space::Plan plan;
    std::uint32_t position = kNowhere;  ///< In plans_, where those are listed.
    int placement = 0;
    std::vector<std::string> order;  ///< Of axes.
  };

  /// Whether the search is stopped, or such a share of its time is over. Until a plan fits there is more of it.
  [[nodiscard]] bool ended(double share = 1) const {
    return options_.stopped() || options_.late(result_.best.empty() ? kNothingYet * share : share);
  }
  [[nodiscard]] Item item(std::uint32_t i) const { return {plans_[i], i, 0, {}}; }
  [[nodiscard]] bool tried(const Space::Plan& p, int at = 0) const { return tried_.contains(order_number(p, at)); }

  void tell(const char* doing, double done, double all) const {
    const Seconds best = result_.best.empty() ? Seconds{} : result_.best.front().evaluation.time();
    if (options_.progress) options_.progress({doing, done, all, best});
  }

  [[nodiscard]] Tell teller() const { return std::bind_front(&Searching::tell, this); }

  void guide(bool own_is_a_plan) {
    const auto ended = [this] { return this->ended(kGuideShare); };
    guide_.begin(own_is_a_plan ? space_.find(problem_.own) : std::nullopt, problem_.own, ended);
    guide_.run(kGuideIdle, ended);
  }

  /// Nothing for plans of other parts, those that are refused, and those that cannot be among the best.
  std::vector<std::optional<Judged>> judged(const std::vector<Space::Plan>& plans) {
    std::vector<char> hopeless(plans.size(), 0);
    parallel_for(options_.jobs, plans.size(), {}, [&](std::size_t k) {
      const bool out = !belongs(plans[k], options_.shard) || fits_without_moving(plans[k]) || is_slow(plans[k]);
      hopeless[k] = out ? 1 : 0;
    });
    std::vector<Item> batch;
    std::vector<std::size_t> places;
    for (std::size_t k = 0; k < plans.size(); ++k)
      if (hopeless[k] == 0) {
        batch.push_back({plans[k], kNowhere, 0, {}});
        places.push_back(k);
      }
    const std::vector<Evaluation> answers =
        evaluate_batch(batch, "looking around the best", looked_around_ += batch.size());
    std::vector<std::optional<Judged>> out(answers.size() == batch.size() ? plans.size() : 0);
    for (std::size_t k = 0; k < answers.size() && !out.empty(); ++k) {
      const Evaluation& e = answers[k];
      if (e.refusal.empty() && e.capacity > Bytes{0})
        out[places[k]] = {e.fits, options_.objective == Objective::memory ? e.needed.value() : e.step_time.value(),
                          e.needed / e.capacity};
    }
    return out;
  }

  /// By what its plain sibling takes, where that has a closed form.
  [[nodiscard]] bool is_slow(const Space::Plan& plan) {
    Bound least;
    if (options_.objective != Objective::memory)
      quick_.with([&](QuickEvaluator& quick) { least = bounds_.by_sibling(quick, space_.settings(plan)); });
    return least.step_time.value() >= limit_;
  }

  /// Every plan is worked out or left out by its bounds, as far as there is time.
  void search_all() {
    choose_plans();
    evaluate_closed_forms();
    bound_plans();
    evaluate_in_order();
    try_orders();
    look_further();
  }

  /// The guided search goes on; of what it has not come to, families are bounded.
  void search_on() {
    guide_.run(std::numeric_limits<int>::max(), [this] { return ended(kGuideLonger); });
    try_orders_of_best();
    std::vector<Space::Plan> priced;
    for (const auto& [number, answer] : tried_)
      if (number % kMostPlacements == 0) priced.push_back(plan_of_order(number));
    const Tally counted = tally(problem_, options_, space_, limit_, priced, teller());
    result_.legal = counted.plans - refused_;
    result_.fit = result_.legal - too_large_;
    std::tie(result_.bounded, result_.proven) = std::tie(counted.bounded, counted.proven);
    std::tie(result_.left, result_.least_left) = std::tie(counted.left, counted.least_left);
  }

  /// This part's plans; their settings are made anew wherever they are needed, as millions of them would not fit.
  void choose_plans() {
    plans_ = space_.plans();
    std::erase_if(plans_, [this](const Space::Plan& plan) { return !belongs(plan, options_.shard); });
    result_.legal = plans_.size();
  }

  void evaluate_closed_forms() {
    answers_.resize(plans_.size());
    steps_.resize(plans_.size());
    const auto answer = [this](QuickEvaluator& quick, std::size_t i) {
      // Those that shard or move are bounded by plain siblings, and come in their order.
      const StrategySettings settings = space_.settings(plans_[i]);
      if (tried(plans_[i]) || shards_in_passes(settings) || moves_activations(settings)) return;
      if (const auto e = quick(settings); e && !e->defect)
        answers_[i] = {true, e->refusal.empty(), e->fits, e->step_time, e->needed};
    };
    bounds_.over(plans_.size(), kClosedFormShare, "closed forms", teller(), answer);
    std::vector<Found> found;
    for (std::uint32_t i = 0; i < plans_.size(); ++i) {
      PlanAnswer& a = answers_[i];
      const auto before = tried_.find(order_number(plans_[i], 0));
      if (before != tried_.end()) a = before->second;
      result_.evaluated += a.known && before == tried_.end();
      result_.legal -= a.known && !a.legal;
      if (!a.fits) continue;
      steps_[i] = a.step_time;
      ++result_.fit;
      fitting_.insert(plan_number(plans_[i]));
      if (before != tried_.end()) continue;
      Found f;
      f.evaluation.fits = true;
      f.evaluation.step_time = a.step_time;
      f.evaluation.needed = a.needed;
      f.order = order_number(plans_[i], 0);
      found.push_back(std::move(f));
    }
    for (const Found& f : found) add_to_front(result_.front, f);
    found.insert(found.end(), std::make_move_iterator(result_.best.begin()),
                 std::make_move_iterator(result_.best.end()));
    rank(found, options_.objective);
    if (found.size() > kept_) found.resize(kept_);
    result_.best = std::move(found);
    for (std::vector<Found>* list : {&result_.best, &result_.front})
      for (Found& f : *list) complete(f);
    find_limit();
  }

  /// Fills in what evaluate_closed_forms() has not kept.
  void complete(Found& f) {
    if (f.evaluation.capacity > Bytes{0}) return;
    f.settings = space_.settings(plan_of_order(f.order));
    quick_.with([&](QuickEvaluator& quick) { f.evaluation = quick(f.settings).value(); });
  }

  void bound_plans() {
    std::vector<char> known(plans_.size());
    for (std::uint32_t i = 0; i < plans_.size(); ++i) known[i] = answers_[i].known ? 1 : 0;
    bounds_.work_out(known, teller());
    const Bytes capacity = capacity_of(problem_, options_);
    for (std::uint32_t i = 0; i < plans_.size(); ++i)
      if (!answers_[i].known && bounds_[i].memory <= capacity) order_.push_back(i);
    result_.fit += order_.size();
    std::sort(order_.begin(), order_.end(), [&](std::uint32_t a, std::uint32_t b) {
      return std::make_tuple(promise(a), plans_[a].offload, a) < std::make_tuple(promise(b), plans_[b].offload, b);
    });
  }

  /// Other orders of axes of the plans shown.
  void try_orders_of_best() {
    std::vector<Item> items;
    for (std::size_t k = 0; k < std::min(result_.best.size(), static_cast<std::size_t>(options_.top)); ++k)
      add_orders({plan_of_order(result_.best[k].order), kNowhere, 0, {}}, items);
    for (std::size_t begin = 0; begin < items.size() && !ended(); begin += kBatch)
      evaluate_batch({items.begin() + static_cast<std::ptrdiff_t>(begin),
                      items.begin() + static_cast<std::ptrdiff_t>(std::min(items.size(), begin + kBatch))},
                     "evaluating", begin);
  }

  /// Other orders of axes of plans that fit by closed form and might be among the best in one of them.
  void try_orders() {
    std::vector<Item> may;
    const auto may_be_best = [this](const Item& of) {
      const std::uint32_t i = of.position;
      return (options_.objective == Objective::memory ? answers_[i].needed.value()
                                                      : kRelaxedMargin * bounds_.relaxed_step(i).value()) < limit_;
    };
    for (std::uint32_t i = 0; i < plans_.size(); ++i)
      if (answers_[i].fits && may_be_best(item(i))) may.push_back(item(i));
    evaluate_orders(may, may_be_best);
  }

  void evaluate_orders(const std::vector<Item>& of, const std::function<bool(const Item&)>& may_be_best) {
    for (std::size_t begin = 0; begin < of.size() && !ended(); begin += kBatch) {
      std::vector<Item> items;
      for (std::size_t k = begin; k < std::min(of.size(), begin + kBatch); ++k)
        if (may_be_best(of[k])) add_orders(of[k], items);
      drop_slow_orders(items);
      if (!items.empty()) evaluate_batch(items, "evaluating", 0);
    }
  }

  /// Where links contend, a played step may be far above its closed form: then plans whose closed form is not among the
  /// best may be faster than the best played one, and are looked at, too.
  void look_further() {
    if (options_.backend.empty() || options_.objective == Objective::memory || ended()) return;
    play_in_order(problem_, options_, result_);
    rank(result_.best, options_.objective);
    if (result_.best.empty() || !result_.best.front().evaluation.played) return;
    reach_ = result_.best.front().evaluation.time().value() / kPlayedBelow;
    find_limit();
    evaluate_in_order();
    try_orders();
  }

  /// Those of whose closed form is known that may be faster than the best played one.
  void count_unplayed() {
    if (result_.best.empty() || !result_.best.front().evaluation.played || options_.objective == Objective::memory)
      return;
    const Seconds best = result_.best.front().evaluation.time();
    std::unordered_set<std::uint64_t> played;
    for (const Found& f : result_.best)
      if (f.evaluation.played) played.insert(f.order / kMostPlacements);
    const auto may_be_best = [&](std::uint32_t i) {
      return steps_[i] > Seconds{0} && steps_[i] * kPlayedBelow <= best && !played.contains(plan_number(plans_[i]));
    };
    if (plans_.empty()) return;  // Those that are known are counted already (play_in_order).
    result_.unplayed = 0;
    for (std::uint32_t i = 0; i < plans_.size(); ++i) result_.unplayed += may_be_best(i);
  }

  /// By closed form.
  [[nodiscard]] double value_of(const Found& f) const {
    return options_.objective == Objective::memory ? f.evaluation.needed.value() : f.evaluation.step_time.value();
  }

  /// Least value of the objective.
  [[nodiscard]] double least(std::uint32_t i) const {
    return options_.objective == Objective::memory ? bounds_[i].memory.value() : bounds_[i].step_time.value();
  }

  /// About what the objective will be: the most promising plans come first, so that what time does not suffice for is
  /// the least promising. What could not be bounded comes last.
  [[nodiscard]] double promise(std::uint32_t i) const {
    const double about =
        options_.objective == Objective::memory ? least(i) : std::max(least(i), bounds_.relaxed_step(i).value());
    return about > 0 ? about : std::numeric_limits<double>::infinity();
  }

  /// To be called when the best have changed.
  void find_limit() {
    std::vector<double> values;
    for (const Found& f : result_.best) values.push_back(value_of(f));
    std::sort(values.begin(), values.end());
    values.resize(std::max(values.size(), kept_), std::numeric_limits<double>::infinity());
    limit_ = std::min(values[kept_ - 1],
                      std::max({values[static_cast<std::size_t>(options_.top) - 1], values[0] / kPlayedBelow, reach_}));
  }

  [[nodiscard]] bool may_reach_front(std::uint32_t i) const {
    return std::none_of(result_.front.begin(), result_.front.end(), [&](const Found& f) {
      return f.evaluation.step_time <= bounds_[i].step_time && f.evaluation.needed <= bounds_[i].memory;
    });
  }

  /// From `next` on, plans to evaluate; none: no plan left can be among the best or on the front.
  std::vector<Item> next_batch(std::size_t& next) {
    std::vector<Item> batch;
    for (; next < order_.size() && batch.size() < kBatch; ++next) {
      const std::uint32_t i = order_[next];
      if (moves_more_than_one_of(batch, i)) break;  // Whether this one is needed is seen when those are done.
      const bool best = least(i) < limit_;
      if (tried(plans_[i]) || (best && fits_without_moving(plans_[i]))) continue;
      if (!best && (for_front_ >= options_.front_evaluations || !may_reach_front(i))) continue;
      for_front_ += !best;
      batch.push_back(item(i));
    }
    return batch;
  }

  /// Each plan in one order of its axes, and then, in what time is left, those that fit in others.
  void evaluate_in_order() {
    std::size_t next = 0;
    std::vector<Item> fitting;
    while (!ended()) {
      const std::vector<Item> batch = without_slow(next_batch(next));
      if (batch.empty() && next == order_.size()) break;
      const std::vector<Evaluation> answers = evaluate_batch(batch, "evaluating", next);
      for (std::size_t k = 0; k < answers.size(); ++k)
        if (answers[k].fits && least(batch[k].position) < limit_) fitting.push_back(batch[k]);
    }
    count_left(next);
    evaluate_orders(fitting, [this](const Item& of) { return least(of.position) < limit_; });
  }

  void count_left(std::size_t next) {
    const double limit = limit_;
    result_.left = 0;
    std::vector<std::uint32_t> excluded = order_;
    std::erase_if(excluded, [&](std::uint32_t i) { return least(i) < limit || tried(plans_[i]); });
    if (options_.objective != Objective::memory) result_.proven = bounds_.proven_slow(excluded, limit);
    for (; next < order_.size(); ++next) {
      const Space::Plan& plan = plans_[order_[next]];
      if (least(order_[next]) >= limit || tried(plan) || fits_without_moving(plan)) continue;
      const Seconds least = max(bounds_[order_[next]].step_time, result_.at_peak);
      if (result_.left++ == 0 || least < result_.least_left) result_.least_left = least;
    }
    result_.bounded = order_.size() - std::min(order_.size(), looked_at_ + result_.left);
  }

  [[nodiscard]] bool moves_more_than_one_of(const std::vector<Item>& batch, std::uint32_t i) const {
    return plans_[i].offload != static_cast<std::uint8_t>(Offload::none) &&
           std::any_of(batch.begin(), batch.end(), [&](const Item& item) {
             Space::Plan other = item.plan;
             other.offload = plans_[i].offload;
             return other == plans_[i];
           });
  }

  /// Copies to the host take time that nothing gives back: where a plan fits that moves less, or nothing, this one is
  /// not faster. By memory it may be better.
  [[nodiscard]] bool fits_without_moving(const Space::Plan& plan) const {
    if (options_.objective == Objective::memory || plan.offload == static_cast<std::uint8_t>(Offload::none))
      return false;
    for (const Offload less : {Offload::none, Offload::optimizer, Offload::activations}) {
      Space::Plan p = plan;
      if (p.offload != static_cast<std::uint8_t>(Offload::all) && less != Offload::none) continue;
      p.offload = static_cast<std::uint8_t>(less);
      if (fitting_.contains(plan_number(p))) return true;
    }
    return false;
  }

  void add_orders(const Item& of, std::vector<Item>& out) const {
    const auto orders = space_.placements(of.plan);
    for (std::size_t o = 1; o < orders.size() && o < kMostPlacements; ++o)
      if (!tried(of.plan, static_cast<int>(o))) out.push_back({of.plan, of.position, static_cast<int>(o), orders[o]});
  }

  [[nodiscard]] StrategySettings settings_of(const Item& item) const {
    StrategySettings out = space_.settings(item.plan);
    if (!item.order.empty()) out.placement = item.order;
    return out;
  }

  /// Of plans that may be among the best, those whose sharper bound says that they are not.
  std::vector<Item> without_slow(std::vector<Item> batch) {
    std::vector<std::uint32_t> may;
    for (const Item& item : batch)
      if (least(item.position) < limit_) may.push_back(item.position);
    bounds_.sharpen(may);
    std::erase_if(batch, [&](const Item& item) {
      return least(item.position) >= limit_ && std::find(may.begin(), may.end(), item.position) != may.end();
    });
    return batch;
  }

  /// Another order has bounds of its own.
  void drop_slow_orders(std::vector<Item>& items) {
    std::vector<StrategySettings> tried;
    for (const Item& item : items) tried.push_back(settings_of(item));
    const std::vector<Bound> bounds = bounds_.of_settings(tried);
    const double limit = limit_;
    std::vector<Item> fast;
    for (std::size_t k = 0; k < items.size(); ++k)
      if ((options_.objective == Objective::memory ? bounds[k].memory.value() : bounds[k].step_time.value()) < limit)
        fast.push_back(items[k]);
    items = std::move(fast);
  }

  /// Answers in the order of `batch`; shorter where the search was stopped or time is over. The best and the front are
  /// brought up to date.
  std::vector<Evaluation> evaluate_batch(const std::vector<Item>& batch, const char* doing, std::size_t position) {
    std::vector<std::optional<Evaluation>> made(batch.size());
    std::vector<StrategySettings> tried(batch.size());
    std::vector<char> lowered(batch.size(), 0);
    parallel_for(
        options_.jobs, batch.size(), [this] { return ended(); },
        [&](std::size_t k) {
          tried[k] = settings_of(batch[k]);
          quick_.with([&](QuickEvaluator& quick) { made[k] = quick(tried[k]); });
          lowered[k] = made[k] ? 0 : 1;
          if (!made[k]) made[k] = evaluate(problem_, tried[k], options_.most_memory);
        });
    std::vector<Evaluation> out;
    for (std::size_t k = 0; k < batch.size() && made[k]; ++k) {
      result_.lowered += lowered[k] != 0;
      take(batch[k], std::move(tried[k]), *made[k]);
      out.push_back(std::move(*made[k]));
    }
    rank(result_.best, options_.objective);
    if (result_.best.size() > kept_) result_.best.resize(kept_);
    find_limit();
    // Guided, nobody knows how many.
    tell(doing, static_cast<double>(position),
         order_.empty() ? 0 : static_cast<double>(std::max(order_.size(), position)));
    return out;
  }

  void take(const Item& item, StrategySettings settings, const Evaluation& e) {
    ++result_.evaluated;
    tried_[order_number(item.plan, item.placement)] = {true, e.refusal.empty(), e.fits, e.step_time, e.needed};
    if (e.defect && result_.defects++ == 0) result_.first_defect = plan_label(settings) + ": " + e.refusal;
    if (item.placement == 0) count(item, e);
    if (!e.fits) return;
    if (item.position != kNowhere) {
      Seconds& step = steps_[item.position];
      if (step == Seconds{0} || e.step_time < step) step = e.step_time;
    }
    fitting_.insert(plan_number(item.plan));
    Found found{std::move(settings), e, order_number(item.plan, item.placement)};
    add_to_front(result_.front, found);
    result_.best.push_back(std::move(found));
  }

  /// Of plans that are not listed, evaluate_closed_forms() counts those of a listed space.
  void count(const Item& item, const Evaluation& e) {
    refused_ += !e.refusal.empty();
    too_large_ += e.refusal.empty() && !e.fits;
    if (item.position == kNowhere) return;
    ++looked_at_;
    result_.legal -= !e.refusal.empty();
    result_.fit -= !e.fits;
  }

  const SearchProblem& problem_;
  const SearchOptions& options_;
  Space space_;
  std::size_t kept_;
  std::vector<Space::Plan> plans_;  ///< Of this part, where the space is listed.
  QuickEvaluators quick_;
  std::vector<PlanAnswer> answers_;  ///< By position in plans_, as is the next.
  PlanBounds bounds_;
  Guide guide_;
  /// Closed form in the best order tried, by position; 0 where unknown or too large for memory.
  std::vector<Seconds> steps_;
  std::unordered_set<std::uint64_t> fitting_;  ///< Numbers of plans that fit.
  /// Positions in plans_ of what may fit and is no closed form, most promising first.
  std::vector<std::uint32_t> order_;
  std::size_t looked_at_ = 0;      ///< Of those, evaluated.
  std::size_t looked_around_ = 0;  ///< Judged for the guide.
  std::size_t refused_ = 0, too_large_ = 0;
  std::unordered_map<std::uint64_t, PlanAnswer> tried_;  ///< By order number: what evaluate_batch() did.
  int for_front_ = 0;                                    ///< Evaluated for the front alone.
  double reach_ = 0;                                     ///< Closed forms up to here may be the best when played.
  /// What a plan must be below to be shown, or to be played with a chance of being the best.
  double limit_ = std::numeric_limits<double>::infinity();
  SearchResult result_;
};

}  // namespace

SearchResult search(const SearchProblem& problem, const StrategySettings& wanted, const SearchOptions& options,
                    bool own_is_a_plan) {
  return Searching(problem, wanted, options).run(own_is_a_plan);
}

}  // namespace rehearse
