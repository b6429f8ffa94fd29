// Model parallelism without a pipeline: layers on several devices of which one works at a time, the usual first attempt
// at a model that does not fit one device. Its layouts are those of pipeline_parallel; the schedule of the same name
// does the rest.

#include "core/config/settings/strategy.hpp"
#include "core/strategy/aliases.hpp"
#include "core/strategy/strategy.hpp"

namespace rehearse {

namespace {

class ModelParallel final : public Strategy {
 public:
  bool active(const PlanRequest& request) const override {
    return request.settings.pp > 1 && request.settings.schedule == "model_parallel";
  }
};

[[maybe_unused]] const bool registered_model_parallel =
    strategies().add({"model_parallel",
                      "layers on several devices, one of which works at a time: each idles 1 - 1/pp of the step",
                      {{"pp", "devices that the layers are divided over", "1"},
                       {"schedule", "model_parallel; any other keeps several microbatches under way", "1f1b"}},
                      std::make_shared<ModelParallel>()});

[[maybe_unused]] const bool named_model_parallel = name_strategy(
    "model_parallel", {{"device_map", "Hugging Face Accelerate", "strategy.pp=N, strategy.schedule=model_parallel"}});

}  // namespace

}  // namespace rehearse
