#pragma once
// Bodies that the closed form walks as one piece of work each, though their calls may leave the node: those whose calls
// meet ranks of their own kind only. Such ranks enter the body together, so that it is the same play on all of them,
// and it is played once.

#include <array>
#include <functional>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "core/base/index.hpp"
#include "core/estimate/walk/call_prices.hpp"
#include "core/play/player/compiled_role.hpp"

namespace rehearse {

/// What a collective of a call costs; `task` is its vertex in the body.
using PriceOfTask = std::function<CallPrice(const WholeBodies::Call& call, int task)>;

struct PlayedPass {
  PricedBody body;
  Seconds quiet_at_end;  ///< Time at the end in which no collective of it runs.
};
/// One call by itself, as the host issues it, its kernels `stretch` times as long.
[[nodiscard]] PlayedPass play_alone(const Program& program, const CostModel& cost, const WholeBodies::Call& call,
                                    double stretch, const PriceOfTask& calls);

class WholePasses final : public WholeBodies {
 public:
  WholePasses(const Program& program, const CostModel& cost, CallPrices& calls);

  /// Calls on this group may have to wait for ranks of another kind. Returns whether bodies were taken as whole that
  /// now are not.
  bool set_meets_others(int group) {
    if (std::exchange(nth(meets_others_, group), 1) != 0 || nth(used_, group) == 0) return false;
    whole_.clear();
    return true;
  }
  /// From now on prices are those of ranks of this class: equal GPUs whose groups lie alike, whatever their role.
  void set_price_class(int number) { class_ = number; }

  const PricedBody* price(const Call& call) override;
  const Pair* price_pair(const Call& first, const Call& second) override;

 private:
  /// Body; class, or the rank where the stage matters; layer, chunk, microbatch, pass, copy and step where calls
  /// differ; launches.
  using Key = std::tuple<int, int, std::array<int, 6>, int>;
  [[nodiscard]] Key key_of(const Call& call);
  /// launch_stretch of the call.
  [[nodiscard]] double stretch(const Call& call);
  [[nodiscard]] bool whole(int body, int rank);
  [[nodiscard]] bool find_whole(const Body& body, int rank);
  [[nodiscard]] bool stage_matters(const Body& body) const;

  const Program& p_;
  const CostModel& cost_;
  PriceOfTask price_of_task_;
  std::vector<char> meets_others_, used_;      ///< By Program group.
  std::map<std::pair<int, int>, bool> whole_;  ///< By body and class.
  int class_ = 0;
  std::map<Key, PricedBody> prices_;
  std::map<Key, double> stretches_;
  std::map<std::pair<Key, Key>, Pair> pairs_;
  std::map<int, bool> stage_matters_;
};

}  // namespace rehearse
