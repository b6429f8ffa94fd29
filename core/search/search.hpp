#pragma once
// The best plans for a workload on a cluster.
//
//   1. A guided search: from the scenario's own plan and one of each family, one choice at a time.  guide.hpp
//   2. Space: all legal plans.                                                                      space.hpp
//   Of a space that is small enough to be listed (kMostListed), every plan is then either evaluated, or left out
//   because its bounds (relaxation.hpp, bounds.hpp) say that it is not among the best:
//   3. Closed form of every plan of equal layers in whole passes with whole parameters and gradients.
//   4. Bounds on memory and step time of the rest: what does not fit or is not among the best is out.  plan_bounds.hpp
//   5. What is left is worked out, from tables or lowered, the most promising first, until no plan left can be among
//   the best; then, of what may be, every other order of axes.
//
//   Of a larger one the guided search goes on while there is time, and families of plans are bounded by what their
//   kernels alone take (tally.hpp).
//
//   6. A back end plays the best few: while a closed form is near enough to the best played step that its own may be
//   below.  playing.hpp
//
// The same plans in the same order come out for any number of threads where time ended nothing: batches have a fixed
// size and are looked at when they are complete.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/estimate/evaluation.hpp"
#include "core/search/space.hpp"

namespace rehearse {

/// Share of the time for all but playing after which the first guided search ends, and, in a space that is not listed,
/// the one that goes on.
inline constexpr double kGuideShare = 0.4, kGuideLonger = 0.8;
/// Looks around a plan, one after the other, without anything better, after which the first guided search ends.
inline constexpr int kGuideIdle = 12;
/// Plans of a space that are held and bounded one by one: what a minute suffices for.
inline constexpr std::uint64_t kMostListed = 600'000;

/// When this share of the time is over, no more closed forms are worked out of a space that is listed. Plans whose
/// layers are divided over more GPUs than a node has come last: their tables take long to fill, and they are seldom
/// among the best.
inline constexpr double kClosedFormShare = 0.9;

/// While no plan is known that fits, a search takes so many times its time.
inline constexpr double kNothingYet = 4;

/// Of the time for all but playing: when so much is over, a plan that is being played is given up, too.
inline constexpr double kPlayedShare = 6.0 / 5;

/// What is best. On one cluster tokens per second, cost and energy follow from the step time; memory is headroom.
enum class Objective { step_time, tokens_per_s_per_gpu, cost_per_token, energy_per_token, memory };
[[nodiscard]] const std::vector<std::string>& objective_names();

/// Part `index` of `count`, 0 <= index < count: of every count plans about one.
struct SearchShard {
  int index = 0, count = 1;
};

struct SearchProgress {
  std::string doing;  ///< "looking around the best", "closed forms", "bounding", "evaluating", "playing the best"
  double done = 0, all = 0;  ///< In units of what is done; `all` may shrink, and is 0 where nobody knows it.
  Seconds best;              ///< Step time of the best so far; 0: none yet.
};

struct SearchOptions {
  Objective objective = Objective::step_time;
  Bytes most_memory{0};                                 ///< Per device; 0: what devices have.
  std::set<std::string> fixed;                          ///< Searched keys that keep their value.
  std::function<bool(const StrategySettings&)> admits;  ///< As Space has it: what the software can do.
  int jobs = 1;                                         ///< Threads, at least 1.
  int top = 10;                                         ///< Plans wanted, at least 1.
  std::string backend;                                  ///< Plays the best few; empty: nothing is played.
  int most_played = -1;                                 ///< -1: 32,768 over the devices, but 4 to 512.
  /// Plans evaluated for the front of step time and memory alone, that cannot be among the best.
  int front_evaluations = 64;
  SearchShard shard;
  /// Share that is over of the time for all but playing; asked as `stop` is, may be empty. From 1 on nothing more is
  /// bounded by microbatches or lowered (4, 5), and from kPlayedShare on not played (6); what is left is counted.
  /// Before, from kClosedFormShare on no more closed forms are worked out (3, 4). Until a plan fits, kNothingYet.
  std::function<double()> time_spent;
  std::function<bool()> stop;  ///< Asked between plans, from any thread; true ends the search with what was found.
  std::function<void(const SearchProgress&)> progress;  ///< From the calling thread.

  [[nodiscard]] bool stopped() const { return stop && stop(); }
  [[nodiscard]] bool late(double share = 1) const { return time_spent && time_spent() >= share; }
  /// For loops over threads, which ask it between turns.
  [[nodiscard]] std::function<bool()> ended(double share = 1) const {
    return [this, share] { return stopped() || late(share); };
  }
};

struct Found {
  StrategySettings settings;
  Evaluation evaluation;
  std::uint64_t order = 0;  ///< Place in the space: settles ties.
};

struct SearchResult {
  double combinations = 0;  ///< Space::combinations.
  std::size_t legal = 0;    ///< Plans that nothing refused, each in one placement.
  bool whole = true;        ///< The space was enumerated to its end: with false, there are more combinations and plans.
  std::size_t fit = 0;      ///< Of those, not shown to need more memory than there is.
  std::size_t evaluated = 0;  ///< Times worked out, placements counted.
  std::size_t lowered = 0;    ///< Of those, by lowering the plan in full.
  std::size_t bounded = 0;    ///< Plans that may fit and whose bound says that they are not among the best.
  /// Of those, the ones that are slower by what is derived (bounds.hpp): the others by bounds whose margins are chosen.
  std::size_t proven = 0;
  std::size_t left = 0;  ///< Plans that may be among the best, for which no time was left.
  /// What none of these takes less than: the least of their bounds, where some have none `at_peak`. 0: unknown.
  Seconds least_left;
  Seconds at_peak;  ///< What no plan takes less than (step_at_peak).
  std::size_t played = 0;
  /// Plans whose closed form is so near that they may be faster than the best played one, for which there was no room.
  std::size_t unplayed = 0;
  std::vector<Found> best;   ///< Best first, as far as played by the played time; no two with equal time and memory.
  std::vector<Found> front;  ///< Of what was evaluated: no other is both faster and smaller. Fastest first.
  std::optional<Found> own;  ///< The scenario's own strategy, where it could be lowered.
  std::size_t defects = 0;   ///< Plans on which the program failed by itself: left out.
  std::string first_defect;
  bool interrupted = false;
};

/// `wanted` gives the settings that are not searched and the values of those that are fixed. problem.own is what the
/// best is held against, where `own_is_a_plan`. Throws Error (usage) for an empty space.
[[nodiscard]] SearchResult search(const SearchProblem& problem, const StrategySettings& wanted,
                                  const SearchOptions& options, bool own_is_a_plan = true);

/// The last step by itself, for plans that parts of a search found: plays the best of result.best, ranks them, and
/// fills in result.own.
void play_best(const SearchProblem& problem, const SearchOptions& options, bool own_is_a_plan, SearchResult& result);

/// Best first by `objective`, played ones before others; of equal ones the earlier in the space. Drops those that
/// repeat another's time and memory.
void rank(std::vector<Found>& found, Objective objective);
/// Puts `found` on the front unless something there is as fast and as small; drops what it beats.
void add_to_front(std::vector<Found>& front, const Found& found);

}  // namespace rehearse
