// First come, first served.

#include "core/fleet/order.hpp"

namespace rehearse::fleet {

namespace {

class Arrival final : public Order {
 public:
  OrderKey key(const JobState& j, double) const override { return {j.arrival, 0, 0, j.number}; }
};

const bool registered_arrival =
    orders().add({"arrival", "who came first", {}, [](const Parameters&) { return std::make_unique<Arrival>(); }});

}  // namespace

}  // namespace rehearse::fleet
