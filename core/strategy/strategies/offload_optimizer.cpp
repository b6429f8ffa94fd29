// ZeRO-Offload (Ren et al. 2021): optimizer state lies in host memory and is updated on CPU cores. Reduced gradients
// are copied there while backward still runs; updated parameters come back one by one, under the update of the next.

#include <fmt/format.h>

#include "core/config/settings/choices.hpp"
#include "core/config/settings/strategy.hpp"
#include "core/strategy/aliases.hpp"
#include "core/strategy/execution_gaps.hpp"
#include "core/strategy/strategy.hpp"
#include "core/strategy/workload.hpp"

namespace rehearse {

namespace {

class OffloadOptimizer final : public Strategy {
 public:
  bool active(const PlanRequest& request) const override {
    return request.settings.offload == Offload::optimizer || request.settings.offload == Offload::all;
  }
  void check(const PlanRequest& request) const override {
    if (request.settings.data_parallel != DataParallelism::replicas)
      throw Error(ErrorKind::usage, "offload 'optimizer' needs replicas that update their own parameters",
                  "strategy.offload", "set strategy.data_parallel to replicas");
    check_rule(request.workload.training.optimizer);
  }
  static void check_rule(Optimizer rule) {
    if (rule == Optimizer::adafactor || rule == Optimizer::lamb)
      throw Error(ErrorKind::usage, fmt::format("offload 'optimizer' has no update on CPU cores for {}", name_of(rule)),
                  "strategy.offload", "set training.optimizer to adam, adamw or sgd, or strategy.offload to none");
  }
  void assign(const PlanRequest& request, LayoutPlan& plan) const override {
    (void)request;
    plan.optimizer_on_host = true;
  }
};

[[maybe_unused]] const bool simulated_only_offload_optimizer =
    execution_gaps().add({"offload_optimizer", "", {}, "no operators for host memory"});
[[maybe_unused]] const bool registered_offload_optimizer =
    strategies().add({"offload_optimizer",
                      "optimizer state in host memory, updated on CPU cores; gradients and parameters over PCIe",
                      {{"offload", "optimizer", "none"}},
                      std::make_shared<OffloadOptimizer>()});

[[maybe_unused]] const bool named_offload_optimizer =
    name_strategy("offload_optimizer", {{"offload_optimizer device=cpu", "DeepSpeed", "strategy.offload=optimizer"},
                                        {"--optimizer-cpu-offload", "Megatron-LM", "strategy.offload=optimizer"}});

}  // namespace

}  // namespace rehearse
