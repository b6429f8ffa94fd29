// Tensor-parallel communication cut into pieces and run beside the products (Wang et al. 2023; Transformer Engine's
// user buffers). What needs no cutting runs beside products anyway: the reduction of an input gradient under the weight
// gradient, and the gather of a saved input under the input gradient.

#include <fmt/format.h>

#include "core/config/settings/strategy.hpp"
#include "core/strategy/aliases.hpp"
#include "core/strategy/strategy.hpp"

namespace rehearse {

namespace {

class OverlappedTensorParallel final : public Strategy {
 public:
  bool active(const PlanRequest& request) const override {
    return request.settings.overlap.tp && request.settings.tp > 1;
  }
  void check(const PlanRequest& request) const override {
    if (request.settings.sequence_parallel) return;
    throw Error(
        ErrorKind::usage,
        fmt::format(
            "overlap.tp cuts the gathers and scatters of the sequence into tp({}) pieces: without sequence_parallel "
            "there are none, and backward's all-reduce runs under the weight gradient as it is",
            request.settings.tp),
        "strategy.overlap.tp", "set strategy.sequence_parallel to true, or strategy.overlap.tp to false");
  }
};

[[maybe_unused]] const bool registered_overlapped_tensor_parallel =
    strategies().add({"overlapped_tensor_parallel",
                      "gathers and scatters of tensor parallelism in pieces, each beside the product of another",
                      {{"overlap.tp", "hide tensor-parallel collectives under split products", "false"}},
                      std::make_shared<OverlappedTensorParallel>()});

[[maybe_unused]] const bool named_overlapped_tensor_parallel = name_strategy(
    "overlapped_tensor_parallel",
    {{"--tp-comm-overlap", "Megatron-LM", "strategy.overlap.tp=true"},
     {"async tensor parallel", "torchtitan", "strategy.overlap.tp=true, strategy.sequence_parallel=true"}});

}  // namespace

}  // namespace rehearse
