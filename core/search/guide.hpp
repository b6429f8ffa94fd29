#pragma once
// A guided search: good plans within seconds, better ones as time passes, whatever the size of the space. It lists
// nothing: it begins with the scenario's own plan and with one plan of each family, then goes from the best plans known
// to those that differ from them in one choice (moves.hpp).
//
// Of all plans judged, the one to look around next is that with the least value, where every look around a plan of
// the same mesh adds kCrowding: so that other families are looked at before the last per cent of one is found. When
// a look finds nothing better, the next is around the best plan of a mesh that nothing was looked around of yet: a
// family's first plan that fits often makes everything again, is far slower than the family's best, and crowding
// alone comes to it late. A neighbour that does not fit is tried again with less memory (Moves::smaller). While
// nothing fits, the plan that lacks least is looked around.

#include <cstdint>
#include <functional>
#include <optional>
#include <unordered_map>
#include <vector>

#include "core/search/moves.hpp"

namespace rehearse {

/// What is added to the value of a plan for each look around a plan of its mesh, as a share of it.
inline constexpr double kCrowding = 0.02;
/// Of looks that find nothing better, one in so many is followed by one around a plan of a mesh that is new.
inline constexpr int kFresh = 2;
/// Plans of families to begin with, at most.
inline constexpr std::size_t kSeeds = 96;

/// What is known of a plan.
struct Judged {
  bool fits = false;
  double value = 0;     ///< Of the objective: less is better; where it fits.
  double fullness = 0;  ///< Memory needed over what there is.
};

class Guide {
 public:
  /// Judges plans in their order; nothing for those that are refused or cannot be among the best. May end early, with
  /// fewer answers than plans.
  using Judge = std::function<std::vector<std::optional<Judged>>(const std::vector<Space::Plan>&)>;

  /// `node`: GPUs of a node. `space` must outlive it.
  Guide(const Space& space, int node, Judge judge) : space_(space), moves_(space, node), judge_(std::move(judge)) {}

  /// The scenario's own plan first, where it is one; then the families. `own` gives what seeds have in common.
  void begin(const std::optional<Space::Plan>& plan, const StrategySettings& own, const std::function<bool()>& ended);
  /// Looks around until so many looks in a row have found nothing better by a thousandth, nothing is left to look
  /// around, or `ended` is true.
  void run(int idle, const std::function<bool()>& ended);

 private:
  struct Known {
    Space::Plan plan;
    Judged judged;
    bool seen = false;  ///< Looked around.
  };
  void judge(std::vector<Space::Plan> plans, const std::function<bool()>& ended);
  [[nodiscard]] std::vector<Space::Plan> judge_once(const std::vector<Space::Plan>& plans);
  [[nodiscard]] Known* next(int without);
  [[nodiscard]] Known* best_unseen(bool on_new_mesh);

  const Space& space_;
  Moves moves_;
  Judge judge_;
  std::vector<Known> known_;
  std::unordered_map<std::uint64_t, bool> tried_;  ///< By plan number: whether it fits.
  std::unordered_map<std::uint32_t, int> looks_;   ///< By mesh.
  std::optional<double> best_;                     ///< The least value of what fits.
};

}  // namespace rehearse
