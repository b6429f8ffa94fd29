// Least remaining time first, as it is or as the job's owner estimated it; in seconds, or in GPU-seconds.

#include <algorithm>

#include "core/fleet/order.hpp"

namespace rehearse::fleet {

namespace {

class Shortest final : public Order {
 public:
  Shortest(bool estimated, bool of_gpus) : estimated_(estimated), of_gpus_(of_gpus) {}
  OrderKey key(const JobState& j, double now) const override {
    double left = j.left_at(now);
    if (estimated_ && j.job->estimate.value() > 0)
      left = std::max(0.0, left - (j.job->duration - j.job->estimate).value());
    const Request& r = j.job->request;
    return {of_gpus_ ? left * r.gpus * r.milli / kWholeGpu : left, 0, 0, j.number};
  }

 private:
  bool estimated_, of_gpus_;
};

OrderFactory factory(bool estimated, bool of_gpus) {
  return [=](const Parameters&) { return std::make_unique<Shortest>(estimated, of_gpus); };
}

const bool registered_shortest =
    orders().add({"shortest", "least remaining time, which is known", {}, factory(false, false)});
const bool registered_shortest_estimate =
    orders().add({"shortest_estimate", "least remaining time, as its owner estimated it", {}, factory(true, false)});
const bool registered_shortest_gpu =
    orders().add({"shortest_gpu", "least remaining GPU time, which is known", {}, factory(false, true)});

}  // namespace

}  // namespace rehearse::fleet
