#include "core/search/guide.hpp"

#include <algorithm>
#include <limits>

namespace rehearse {

namespace {

/// Plans judged between two looks at the clock.
constexpr std::size_t kAtOnce = 64;
/// How often a plan that does not fit is tried again with less memory, and up to which fullness at first.
constexpr std::size_t kSmallerTries = 6;
constexpr double kMostOver = 4;

}  // namespace

void Guide::begin(const std::optional<Space::Plan>& plan, const StrategySettings& own,
                  const std::function<bool()>& ended) {
  if (plan) judge({*plan}, ended);
  const std::vector<Space::Plan> seeds = moves_.seeds(own, kSeeds);
  // A few at first, so that something fits soon.
  constexpr std::size_t kFirst = 8;
  for (std::size_t at = 0; at < seeds.size() && !ended(); at += kFirst)
    judge({seeds.begin() + static_cast<std::ptrdiff_t>(at),
           seeds.begin() + static_cast<std::ptrdiff_t>(std::min(seeds.size(), at + kFirst))},
          ended);
}

void Guide::run(int idle, const std::function<bool()>& ended) {
  for (int without = 0; without < idle && !ended(); ++without) {
    Known* from = next(without);
    if (from == nullptr) return;
    from->seen = true;
    const Space::Plan plan = from->plan;
    ++looks_[plan.mesh];
    const double before = best_.value_or(std::numeric_limits<double>::infinity());
    judge(moves_.around(plan), ended);
    if (best_ && *best_ < before * (1 - 1e-3)) without = -1;
  }
}

Guide::Known* Guide::next(int without) {
  Known* out = without % kFresh == 1 ? best_unseen(true) : nullptr;
  return out != nullptr ? out : best_unseen(false);
}

/// Of what fits the best, crowding added; where nothing fits what lacks least.
Guide::Known* Guide::best_unseen(bool on_new_mesh) {
  Known* out = nullptr;
  double least = std::numeric_limits<double>::infinity();
  for (Known& k : known_) {
    if (k.seen || k.judged.fits != best_.has_value()) continue;
    const auto looks = looks_.find(k.plan.mesh);
    if (on_new_mesh && looks != looks_.end()) continue;
    const double crowded = 1 + kCrowding * (looks == looks_.end() ? 0 : looks->second);
    const double value = (k.judged.fits ? k.judged.value : k.judged.fullness) * crowded;
    if (value >= least) continue;
    out = &k;
    least = value;
  }
  return out;
}

void Guide::judge(std::vector<Space::Plan> plans, const std::function<bool()>& ended) {
  std::vector<std::vector<Space::Plan>> smaller;
  const auto remember = [&](const std::vector<Space::Plan>& lacking) {
    for (const Space::Plan& p : lacking) smaller.push_back(moves_.smaller(p));
  };
  for (std::size_t at = 0; at < plans.size() && !ended(); at += kAtOnce)
    remember(judge_once({plans.begin() + static_cast<std::ptrdiff_t>(at),
                         plans.begin() + static_cast<std::ptrdiff_t>(std::min(plans.size(), at + kAtOnce))}));
  // One step for each that does not fit, then the next step for those that still don't.
  for (std::size_t step = 0; step < kSmallerTries && !ended(); ++step) {
    std::vector<Space::Plan> batch;
    for (std::vector<Space::Plan>& ways : smaller) {
      if (step >= ways.size()) continue;
      if (step > 0)
        if (const auto before = tried_.find(plan_number(ways[step - 1])); before != tried_.end() && before->second) {
          ways.clear();
          continue;
        }
      batch.push_back(ways[step]);
    }
    for (std::size_t at = 0; at < batch.size() && !ended(); at += kAtOnce)
      (void)judge_once({batch.begin() + static_cast<std::ptrdiff_t>(at),
                        batch.begin() + static_cast<std::ptrdiff_t>(std::min(batch.size(), at + kAtOnce))});
  }
}

/// Those that do not fit and may with less.
std::vector<Space::Plan> Guide::judge_once(const std::vector<Space::Plan>& plans) {
  std::vector<Space::Plan> fresh, lacking;
  for (const Space::Plan& p : plans)
    if (!tried_.contains(plan_number(p)) && space_.legal(p)) {
      tried_.emplace(plan_number(p), false);
      fresh.push_back(p);
    }
  if (fresh.empty()) return {};
  const std::vector<std::optional<Judged>> answers = judge_(fresh);
  for (std::size_t i = 0; i < answers.size(); ++i) {
    if (!answers[i]) continue;
    known_.push_back({fresh[i], *answers[i], false});
    tried_[plan_number(fresh[i])] = answers[i]->fits;
    if (answers[i]->fits)
      best_ = std::min(best_.value_or(std::numeric_limits<double>::infinity()), answers[i]->value);
    else if (answers[i]->fullness < kMostOver || !best_)
      lacking.push_back(fresh[i]);
  }
  return lacking;
}

}  // namespace rehearse
