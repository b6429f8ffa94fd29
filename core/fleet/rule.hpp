#pragma once
// Who may go before a job that cannot start: the passing seam. One file each in rules/.

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/base/registry.hpp"
#include "core/fleet/order.hpp"

namespace rehearse::fleet {

class Pass;  // engine/pass.hpp

/// Starts (and stops) jobs at one moment.
class Rule {
 public:
  virtual ~Rule() = default;
  virtual void look(Pass& pass) = 0;
};

using RuleFactory = std::function<std::unique_ptr<Rule>(const Parameters&)>;
/// Rules: "wait", "skip", "easy", "conservative", "preempt".
[[nodiscard]] Registry<RuleFactory>& rules();

}  // namespace rehearse::fleet
