#pragma once
// The parallel strategy: keys of a scenario after parsing and validation.

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/units.hpp"
#include "core/config/setting_key.hpp"
#include "core/config/settings/choices.hpp"

namespace rehearse {

struct OverlapSettings {
  bool grad_reduce = true;    ///< Gradient buckets are reduced while backward still runs.
  bool param_gather = false;  ///< ZeRO: gathered parameters arrive during the next forward.
  bool tp = false;            ///< Tensor-parallel collectives are hidden under split GEMMs in forward too.
  /// The input gradient's reduction runs under the weight gradient's product; otherwise nothing runs beside it.
  bool tp_backward = true;
  /// Pipeline sends run beside compute; otherwise a stage computes on only when its message has left.
  bool pp = true;

  bool operator==(const OverlapSettings&) const = default;
};

/// Fully sharded data parallelism (PyTorch FSDP; Zhao et al. 2023): one unit per block, one root unit for embedding and
/// head.
struct FsdpSettings {
  bool enabled = false;
  Reshard reshard_after_forward = Reshard::automatic;  ///< automatic: always without pipeline stages, else never.
  /// automatic: likewise. never keeps parameters whole until the step's last use.
  Reshard reshard_after_backward = Reshard::automatic;
  int prefetch_forward = 1;  ///< Units gathered ahead of the one at work, 0 or more.
  int prefetch_backward = 1;
  bool limit_all_gathers = true;  ///< false: a pass gathers all its units as soon as it begins.

  bool operator==(const FsdpSettings&) const = default;
};

/// ZeRO stage 3 as DeepSpeed runs it; counts are elements.
struct Zero3Settings {
  double prefetch_bucket = 5e7;        ///< Parameters gathered ahead of the block at work.
  double persistence_threshold = 1e5;  ///< Smaller parameters stay whole on every rank.
  /// Parameters whose next use is further away are dropped: those that a recomputed layer used long before its backward
  /// are gathered again.
  double reuse_distance = 1e9;
  /// Every parameter is a call of its own over a list of tensors, one per rank, before which the device is idle
  /// (DeepSpeed until October 2021).
  bool lists = false;

  bool operator==(const Zero3Settings&) const = default;
};

/// Parallel strategy. Sizes of axes multiply to the number of devices; `dp` is dp_replicate * dp_shard.
struct StrategySettings {
  int dp = 1, dp_replicate = 1, dp_shard = 1, tp = 1, pp = 1, cp = 1, ep = 1, etp = 1, tile_h = 1, tile_w = 1;
  std::int64_t microbatch = 1;                      ///< Sequences per microbatch and replica.
  ContextExchange context = ContextExchange::ring;  ///< With cp > 1.
  Dispatch dispatch = Dispatch::all_to_all;
  /// Neighbouring expert-parallel ranks that one copy of a token serves; 0: those of one routing group.
  int dispatch_node = 0;
  std::string schedule = "1f1b";  ///< Registered pipeline schedule.
  bool uneven_layers = false;     ///< Stages may differ by one layer where the chunks do not divide the layers.
  /// Layers of each chunk in model order, pp * virtual_stages of them; empty: equal shares.
  std::vector<std::int64_t> layers_per_stage;
  /// Sequences of each replica per step, multiples of `microbatch`; empty: equal shares.
  std::vector<std::int64_t> batch_per_replica;
  Balance balance = Balance::none;  ///< Fills in those two that are empty.
  int virtual_stages = 1;           ///< Model chunks per pipeline rank.
  bool sequence_parallel = false;
  Recompute recompute = Recompute::none;
  /// Recompute::selective: modules whose results are made again in backward.
  std::vector<std::string> recompute_modules{"core_attn"};
  RecomputeMethod recompute_method = RecomputeMethod::uniform;
  /// Recompute::full: layers per group (uniform) or per chunk (block), at least 1.
  int recompute_layers = 1;
  int zero_stage = 0;     ///< Sharded over dp: 1 optimizer state, 2 and gradients, 3 and parameters.
  Bytes bucket{25e6};     ///< Gradient bucket size.
  Bytes first_bucket{0};  ///< Size of the bucket that is full first; 0: as the others.
  GradientSync grad_sync = GradientSync::automatic;
  DataParallelism data_parallel = DataParallelism::replicas;
  int servers = 1;  ///< parameter_server: the first ranks, to which variables are dealt by size.
  FsdpSettings fsdp;
  Zero3Settings zero3;
  /// Axes from the fastest varying device index to the slowest.
  std::vector<std::string> placement{"tp", "cp", "ep", "dp", "pp"};
  std::string devices;  ///< File that says which device each rank runs on; empty: rank i on device i.
  /// Microbatches whose weight gradient of the output layer waits for the last stage's last backward.
  int deferred_head_gradients = 0;
  /// Pipeline messages split over tp ranks and gathered over NVLink (Narayanan et al. 2021, sec. 4.1).
  bool scatter_gather = false;
  OverlapSettings overlap;
  Offload offload = Offload::none;
  /// Layers of a chunk, from its first, whose activations go to host memory; 0: all but its last.
  int offload_layers = 0;
  DeclaredSettings declared = {};  ///< Keys that other files declare.

  bool operator==(const StrategySettings&) const = default;
};

}  // namespace rehearse
