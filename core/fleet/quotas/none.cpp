// Queues have names only: whoever comes first gets what is free.

#include "core/fleet/quota.hpp"

namespace rehearse::fleet {

namespace {

class None final : public Quota {
 public:
  bool separates() const override { return false; }
  bool admits(int, std::int64_t) const override { return true; }
  bool could_ever(int, std::int64_t) const override { return true; }
};

const bool registered_none =
    quotas().add({"none", "queues have no shares", {}, [](const Parameters&) { return std::make_unique<None>(); }});

}  // namespace

}  // namespace rehearse::fleet
