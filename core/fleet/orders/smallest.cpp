// Fewest GPUs first.

#include "core/fleet/order.hpp"

namespace rehearse::fleet {

namespace {

class Smallest final : public Order {
 public:
  OrderKey key(const JobState& j, double) const override {
    const Request& r = j.job->request;
    return {static_cast<double>(r.gpus) * r.milli, 0, 0, j.number};
  }
};

const bool registered_smallest = orders().add(
    {"smallest", "who asks for the fewest GPUs", {}, [](const Parameters&) { return std::make_unique<Smallest>(); }});

}  // namespace

}  // namespace rehearse::fleet
