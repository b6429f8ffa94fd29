// The more important first. With the rule "preempt" a job displaces those of lower priority alone: among equals, those
// that run come before those that wait.

#include "core/fleet/order.hpp"

namespace rehearse::fleet {

namespace {

class Priority final : public Order {
 public:
  OrderKey key(const JobState& j, double) const override {
    return {-static_cast<double>(j.job->priority), j.phase == Phase::running ? 0.0 : 1.0, 0, j.number};
  }
};

const bool registered_priority =
    orders().add({"priority", "the more important first, then who came first", {}, [](const Parameters&) {
                    return std::make_unique<Priority>();
                  }});

}  // namespace

}  // namespace rehearse::fleet
