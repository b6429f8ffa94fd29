#pragma once
// Which rank stands for others that do the same with other sizes: along an axis that only sizes ask for, the one that
// computes most; where several axes do, the one that multiplies most at its place along all of them, and of equals the
// one nearest to those that lead along each.

#include <map>
#include <utility>
#include <vector>

#include "core/program/program.hpp"

namespace rehearse {

class RankLeaders {
 public:
  /// `matters`: axes whose coordinates some task or size asks for (mattering_axes).
  RankLeaders(const Program& program, const AxisSet& matters);

  [[nodiscard]] bool leads_along(Axis axis) const;

  /// How much a rank multiplies, where coordinates along several axes decide it together, and how far it is from the
  /// one that leads along each.
  struct Standing {
    double work = 0;
    int distance = 0;
    [[nodiscard]] bool before(const Standing& o) const {
      return work > o.work * (1 + 1e-9) || (work >= o.work * (1 - 1e-9) && distance < o.distance);
    }
  };
  [[nodiscard]] Standing standing(int rank);

 private:
  const Program& p_;
  std::vector<std::pair<Axis, int>> led_;     ///< With the coordinate of the one that leads.
  std::map<std::vector<int>, double> works_;  ///< By the coordinates along these.
};

}  // namespace rehearse
