// Dominant resource fairness (Ghodsi et al., NSDI 2011): the queue whose largest share of GPUs, cores or memory is the
// smallest, over its weight, is served next. No queue is stopped for another.

#include <algorithm>

#include "core/fleet/quota.hpp"

namespace rehearse::fleet {

namespace {

class Drf final : public Quota {
 public:
  bool admits(int queue, std::int64_t milli) const override {
    for (int q = queue; q > 0; q = tree()[q].parent)
      if (static_cast<double>(tree()[q].used + milli) > tree()[q].settings.limit * kWholeGpu) return false;
    return true;
  }
  bool could_ever(int queue, std::int64_t milli) const override {
    for (int q = queue; q > 0; q = tree()[q].parent)
      if (static_cast<double>(milli) > tree()[q].settings.limit * kWholeGpu) return false;
    return true;
  }
  double rank(int queue, std::int64_t) const override {
    const Amounts& held = tree()[queue].held;
    const Amounts& all = tree().capacity;
    const double dominant = std::max({share(held.gpu_milli, all.gpu_milli), share(held.cpu_milli, all.cpu_milli),
                                      share(held.memory_mib, all.memory_mib)});
    return dominant / std::max(tree()[queue].settings.weight, 1e-9);
  }

 private:
  static double share(std::int64_t held, std::int64_t all) {
    return all > 0 ? static_cast<double>(held) / static_cast<double>(all) : 0;
  }
};

const bool registered_drf =
    quotas().add({"drf", "the queue with the smallest dominant share is served next", {}, [](const Parameters&) {
                    return std::make_unique<Drf>();
                  }});

}  // namespace

}  // namespace rehearse::fleet
