// Data parallelism (DistributedDataParallel): replicas take slices of the batch. Gradients, partial sums over the
// replicas, are then reduced in buckets.

#include "core/config/settings/strategy.hpp"
#include "core/strategy/aliases.hpp"
#include "core/strategy/strategy.hpp"
#include "core/strategy/workload.hpp"

namespace rehearse {

namespace {

class DataParallel final : public Strategy {
 public:
  bool active(const PlanRequest& request) const override { return request.settings.dp > 1; }
  void assign(const PlanRequest& request, LayoutPlan& plan) const override {
    const auto& blocks = request.workload.network.blocks;
    for (std::size_t b = 0; b < blocks.size(); ++b) {
      for (std::size_t t = 0; t < blocks[b].tensors.size(); ++t) {
        const Shape& shape = blocks[b].tensors[t].shape;
        for (std::size_t d = 0; d < shape.size(); ++d) {
          if (shape[d].tag != DimTag::batch) continue;
          Layout& layout = plan.blocks[b].tensors[t];
          if (request.settings.dp_replicate > 1) layout.emplace_back(Axis::dp_replicate, shard_on(static_cast<int>(d)));
          if (request.settings.dp_shard > 1) layout.emplace_back(Axis::dp_shard, shard_on(static_cast<int>(d)));
        }
      }
    }
  }
};

[[maybe_unused]] const bool registered_data_parallel =
    strategies().add({"data_parallel",
                      "replicas take slices of the batch; gradients reduced in buckets, under backward or after it",
                      {{"dp", "replicas", "1"},
                       {"bucket", "gradient bucket size", "25MB"},
                       {"overlap.grad_reduce", "reduce while backward runs", "true"}},
                      std::make_shared<DataParallel>()});

[[maybe_unused]] const bool named_data_parallel = name_strategy(
    "data_parallel",
    {{"DistributedDataParallel", "PyTorch", "strategy.dp=N, strategy.bucket=25MiB, framework.first_bucket=1MiB"},
     {"no_sync", "PyTorch", "strategy.grad_sync=last"},
     {"MirroredStrategy", "TensorFlow, Keras", "strategy.dp=N on one machine"},
     {"MultiWorkerMirroredStrategy", "TensorFlow, Keras", "strategy.dp=N on several machines"},
     {"TPUStrategy", "TensorFlow, Keras", "strategy.dp=N on TPU cores"},
     {"Keras", "Keras", "strategy.dp=N: fit() in the scope of MirroredStrategy, or of the one chosen"},
     {"keras.distribution.DataParallel", "Keras", "strategy.dp=N"},
     {"Horovod", "Horovod", "strategy.dp=N, strategy.bucket=128MiB (HOROVOD_FUSION_THRESHOLD)"},
     {"--overlap-grad-reduce", "Megatron-LM", "strategy.overlap.grad_reduce=true"}});

}  // namespace

}  // namespace rehearse
