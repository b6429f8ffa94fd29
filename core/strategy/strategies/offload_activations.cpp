// Activations offloaded to host memory over PCIe (activation_offload.hpp).

#include <fmt/format.h>

#include "core/config/settings/strategy.hpp"
#include "core/strategy/no_lowering.hpp"
#include "core/strategy/strategy.hpp"
#include "core/strategy/workload.hpp"

namespace rehearse {

namespace {

class OffloadActivations final : public Strategy {
 public:
  bool active(const PlanRequest& request) const override {
    return request.settings.offload == Offload::activations || request.settings.offload == Offload::all;
  }
  void check(const PlanRequest& request) const override {
    const StrategySettings& s = request.settings;
    if (s.data_parallel != DataParallelism::replicas)
      throw NoLowering(fmt::format("offload '{}' has no lowering for data_parallel '{}'", name_of(s.offload),
                                   name_of(s.data_parallel)),
                       "strategy.offload", "set strategy.data_parallel to replicas");
    if (request.workload.network.routing() != nullptr)
      throw Error(
          ErrorKind::usage,
          fmt::format("offload '{}': experts' activations have sizes that only the data decides", name_of(s.offload)),
          "strategy.offload", "set strategy.offload to optimizer or none");
  }
};

[[maybe_unused]] const bool registered_offload_activations =
    strategies().add({"offload_activations",
                      "what layers keep for backward in host memory, copied out after forward and back before backward",
                      {{"offload", "activations", "none"},
                       {"offload_layers", "layers of a chunk, from its first; 0: all but its last", "0"}},
                      std::make_shared<OffloadActivations>()});

}  // namespace

}  // namespace rehearse
