#include "core/play/player/plan_play.hpp"

namespace rehearse {
namespace {

class LastFlow final : public PlayClock::Handler {
 public:
  explicit LastFlow(const PlayClock& clock) : clock_(clock), end_(clock.now()) {}
  void on_timer(PlayClock::Token) override {}
  void on_flow(PlayClock::Token) override { end_ = clock_.now(); }
  [[nodiscard]] Seconds end() const { return end_; }

 private:
  const PlayClock& clock_;
  Seconds end_;
};

}  // namespace

Seconds play_plan(const FluidPlan& plan, PlayClock& clock) {
  const Seconds begin = clock.now();
  Bytes busiest;
  for (const FluidEdge& e : plan.edges) busiest = max(busiest, e.bytes);
  for (const FluidEdge& e : plan.edges)
    if (e.bytes > Bytes{0}) clock.start_flow(e.src, e.dst, e.bytes, plan.rate_cap * (e.bytes / busiest), 1, 1, 0);
  LastFlow last(clock);
  clock.run(last);
  return last.end() - begin + plan.latency;
}

}  // namespace rehearse
