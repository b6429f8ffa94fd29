// A fixed part for each queue: it never holds more than it is guaranteed, whatever lies idle.

#include <algorithm>

#include "core/fleet/quota.hpp"

namespace rehearse::fleet {

namespace {

class Hard final : public Quota {
 public:
  bool admits(int queue, std::int64_t milli) const override {
    return within(queue, milli, [](const QuotaTree::Node& n) { return n.used; });
  }
  bool could_ever(int queue, std::int64_t milli) const override {
    return within(queue, milli, [](const QuotaTree::Node&) { return std::int64_t{0}; });
  }

 private:
  template <class Used>
  [[nodiscard]] bool within(int queue, std::int64_t milli, Used used) const {
    for (int q = queue; q > 0; q = tree()[q].parent) {
      const QuotaTree::Node& n = tree()[q];
      // A group without a guarantee of its own has that of the queues in it.
      double most = kUnlimited;
      if (n.children.empty() || n.settings.guaranteed > 0) most = n.settings.guaranteed;
      if (static_cast<double>(used(n) + milli) > std::min(most, n.settings.limit) * kWholeGpu) return false;
    }
    return true;
  }
};

const bool registered_hard =
    quotas().add({"hard", "each queue holds what it is guaranteed and never more", {}, [](const Parameters&) {
                    return std::make_unique<Hard>();
                  }});

}  // namespace

}  // namespace rehearse::fleet
