// A synchronous parameter server (Li et al. 2014; TensorFlow's variable_update=parameter_server): variables are dealt
// to the first ranks. Every step the others pull them and push gradients, all through the servers' wires.

#include <fmt/format.h>

#include "core/config/settings/strategy.hpp"
#include "core/strategy/aliases.hpp"
#include "core/strategy/strategy.hpp"

namespace rehearse {

namespace {

class ParameterServer final : public Strategy {
 public:
  bool active(const PlanRequest& request) const override {
    return request.settings.data_parallel == DataParallelism::parameter_server && request.settings.dp > 1;
  }
  void check(const PlanRequest& request) const override {
    if (request.settings.ep * request.settings.etp > 1)
      throw Error(ErrorKind::usage,
                  fmt::format("ep({}) divides what every replica is to hold whole", request.settings.ep), "strategy.ep",
                  "set strategy.ep and strategy.etp to 1");
    const StrategySettings& s = request.settings;
    const auto refuse = [](const std::string& what, const char* where, const char* hint) {
      throw Error(ErrorKind::usage, what, where, hint);
    };
    if (s.tp * s.pp * s.cp * s.tile_h * s.tile_w > 1)
      refuse(fmt::format(
                 "a parameter server copies whole networks: tp({}) * pp({}) * cp({}) * tile_h({}) * tile_w({}) != 1",
                 s.tp, s.pp, s.cp, s.tile_h, s.tile_w),
             "strategy.data_parallel", "set tp, pp, cp, tile_h and tile_w to 1");
    if (s.zero_stage > 0 || s.fsdp.enabled)
      refuse("a parameter server keeps parameters and optimizer state in one place: there is nothing to shard",
             "strategy.data_parallel", "set strategy.zero_stage to 0 and strategy.fsdp.enabled to false");
    if (s.dp_shard > 1)
      refuse(fmt::format("a parameter server knows no dp_shard({})", s.dp_shard), "strategy.dp_shard",
             "set strategy.dp_shard to 1");
    if (s.servers > s.dp)
      refuse(fmt::format("servers({}) > dp({})", s.servers, s.dp), "strategy.servers",
             "servers are ranks that train as well: choose at most dp");
  }
  void assign(const PlanRequest& request, LayoutPlan& plan) const override {
    (void)request;
    plan.central_update = true;
  }
};

[[maybe_unused]] const bool registered_parameter_server = strategies().add(
    {"parameter_server",
     "variables dealt to server ranks; parameters pulled and gradients pushed every step, synchronously",
     {{"data_parallel", "parameter_server", "replicas"},
      {"servers", "ranks that hold variables", "1"},
      {"bucket", "size of one message", "25MB"}},
     std::make_shared<ParameterServer>()});

[[maybe_unused]] const bool named_parameter_server =
    name_strategy("parameter_server",
                  {{"ParameterServerStrategy", "TensorFlow, Keras",
                    "strategy.data_parallel=parameter_server, strategy.servers=N (synchronous here)"},
                   {"variable_update=parameter_server", "tf_cnn_benchmarks", "strategy.data_parallel=parameter_server"},
                   {"CentralStorageStrategy", "TensorFlow, Keras",
                    "strategy.data_parallel=parameter_server, strategy.servers=1 (variables on a GPU here)"}});

}  // namespace

}  // namespace rehearse
