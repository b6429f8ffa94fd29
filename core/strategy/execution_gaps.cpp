#include "core/strategy/execution_gaps.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string>
#include <vector>

#include "core/base/error.hpp"
#include "core/strategy/bodies/optimizer_state.hpp"
#include "core/strategy/operators/linear_loss.hpp"

namespace rehearse {

Registry<std::string>& execution_gaps() {
  static Registry<std::string> registry("execution gap");
  return registry;
}

std::string execution_gap(std::string_view strategy) {
  for (const auto& entry : execution_gaps().entries())
    if (entry.name == strategy) return entry.value;
  return {};
}

void check_executable(const PlanRequest& request) {
  for (const std::string& name : active_strategies(request))
    if (const std::string gap = execution_gap(name); !gap.empty())
      throw Error(ErrorKind::unavailable, fmt::format("{} is simulated only: {}", name, gap), "strategy",
                  "'rehearse simulate' plays this plan; 'rehearse list strategies' says what runs for real");
  if (const std::vector<std::string>& gaps = request.workload.network.simulated_only; !gaps.empty())
    throw Error(ErrorKind::unavailable,
                fmt::format("{} is simulated only: no back end computes {}", request.workload.network.name,
                            fmt::join(gaps, ", ")),
                "model", "'rehearse simulate' plays this plan; sizes, FLOPs and memory are the model's");
  if (const std::string gap = optimizer_state_gap(request.workload); !gap.empty())
    throw Error(ErrorKind::unavailable, fmt::format("these optimizer states are simulated only: {}", gap),
                "training.optimizer_states",
                "'rehearse simulate' plays this plan; leave training.optimizer_states and training.master_weights out "
                "to run it");
  if (const std::string gap = linear_loss_gap(request.workload.kernels); !gap.empty())
    throw Error(ErrorKind::unavailable, fmt::format("a loss on the chip is simulated only: {}", gap),
                "framework.linear_loss",
                "'rehearse simulate' plays this plan; '--set framework.linear_loss=chunks' runs it chunk by chunk");
}

}  // namespace rehearse
