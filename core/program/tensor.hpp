#pragma once
// Tensors of a Program: global name and shape, how they lie on the mesh, where and for how long they are stored.

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "core/base/dtype.hpp"
#include "core/program/mesh.hpp"

namespace rehearse {

enum class ReduceOp : std::uint8_t { sum, max, min, logical_or };

/// Every rank along the axis holds the whole.
struct Replicate {
  bool operator==(const Replicate&) const = default;
};
/// Ranks along the axis hold consecutive slices of dimension `dim`. `parts` are the slice lengths in elements; empty
/// means equal slices, the last ones shorter by rounding up: rank i holds [i*ceil(n/k), min(n, (i+1)*ceil(n/k))).
/// `flat` shards the flattened tensor that the other axes leave (ZeRO). `zigzag` deals 2k blocks, rank i holding i and
/// 2k-1-i, as balanced causal ring attention does. `padded` rounds storage and wire up to the largest slice, as
/// collectives of equal counts need. `turned` counts the ranks that slices have moved on around a ring: rank i holds
/// the slice of rank (i - turned) mod k.
struct Shard {
  int dim = 0;
  std::vector<std::int64_t> parts;
  bool flat = false;
  bool zigzag = false;
  bool padded = false;
  int turned = 0;
  bool operator==(const Shard&) const = default;
};
/// Whose slice rank `i` of `k` holds.
[[nodiscard]] inline int owner_on_ring(const Shard& shard, int i, int k) { return ((i - shard.turned) % k + k) % k; }
/// Equal slices of dimension `dim`.
[[nodiscard]] inline Shard shard_on(int dim) {
  Shard s;
  s.dim = dim;
  return s;
}
/// Equal slices of the flattened tensor.
[[nodiscard]] inline Shard shard_flat() {
  Shard s;
  s.flat = true;
  return s;
}
/// Every rank holds a term; the tensor is their reduction.
struct Partial {
  ReduceOp op = ReduceOp::sum;
  bool operator==(const Partial&) const = default;
};
/// A shard with `before` and `after` further elements of the neighbours along `dim`.
struct Halo {
  int dim = 0;
  std::int64_t before = 0, after = 0;
  std::vector<std::int64_t> parts;  ///< Lengths of the slices without halo, as in Shard.
  bool operator==(const Halo&) const = default;
};
/// Every rank holds its own number of elements of `dim`, which is a dynamic size and already local.
struct Ragged {
  int dim = 0;
  bool operator==(const Ragged&) const = default;
};

using AxisLayout = std::variant<Replicate, Shard, Partial, Halo, Ragged>;
/// Per axis; an axis not named is Replicate. When several axes shard one dimension, the list's order is the order of
/// division, outermost first.
using Layout = std::vector<std::pair<Axis, AxisLayout>>;
[[nodiscard]] AxisLayout layout_on(const Layout& layout, Axis axis);
[[nodiscard]] std::string to_string(const Layout& layout);

/// A dimension whose size only the data decides (tokens per expert). `draw` names a registered distribution that is a
/// function of (seed, step, layer, microbatch, rank) only. Sizes are exchanged by a task before they are used.
struct DynamicDim {
  std::string name;
  ExprId bound;                    ///< Never exceeded; memory is taken for it unless the allocation is by true size.
  ExprId expectation;              ///< Mean.
  std::string draw;                ///< "balanced", "multinomial", "zipf(1.1)"
  double quantile = 0.99;          ///< Quantile that memory estimates use.
  ExprId length = ExprPool::kOne;  ///< Number of values: one, or one per peer or expert.
  int source = -1;    ///< int64 tensor that holds the values in execution; whoever writes it produces them.
  AxisSet draw_axes;  ///< Axes the draw varies along; ranks that differ only elsewhere draw the same.
  /// The values are what the peers of `transpose_group` drew for this rank in that dimension.
  int transpose_of = -1;
  int transpose_group = -1;
  bool allocate_true_size = false;  ///< Storage follows the value instead of the bound.
};

/// How long a tensor's storage lives.
enum class Lifetime : std::uint8_t {
  persistent,  ///< The whole run: parameters, gradients, optimizer state.
  step,        ///< Allocated and freed by entries within a step (messages, gathered parameters).
  saved,       ///< Made by a forward body, freed by the backward of the same (chunk, microbatch).
  scratch      ///< Within one body.
};

/// Rows of the memory table.
enum class MemoryCategory : std::uint8_t {
  weights,
  gradients,
  optimizer,
  activations,
  communication,
  workspace,
  framework
};
inline constexpr int kMemoryCategories = 7;
[[nodiscard]] std::string_view name_of(MemoryCategory c);

/// What a tensor is, where that is more than its category and lifetime say.
enum class TensorRole : std::uint8_t {
  general,
  logits_gradient,  ///< Of the loss by fp32 logits, as frameworks make it op by op.
  fp8_scales        ///< Scales of an operator's operands, and the largest values that make those of the next step.
};

/// `chip`: registers and shared memory of the kernel that makes it and reads it, which takes no storage.
enum class MemorySpace : std::uint8_t { device, pinned_host, host, nvme, chip };
inline constexpr int kMemorySpaces = 5;

/// Which instance of a tensor, relative to the entry that binds it.
struct InstanceRef {
  int layer_delta = 0, chunk_delta = 0, microbatch_delta = 0, pass_delta = 0;
  bool operator==(const InstanceRef&) const = default;
};

/// One named tensor or, with `per_*`, a family of them: an instance for each layer, chunk or microbatch.
struct Tensor {
  std::string name;  ///< Global name; "{layer}" stands for the layer's index.
  /// Global shape of one instance; a batch dimension counts the microbatch of all replicas.
  std::vector<ExprId> shape;
  DType dtype = DType::fp32;
  Layout layout;
  Lifetime lifetime = Lifetime::scratch;
  MemoryCategory category = MemoryCategory::activations;
  TensorRole role = TensorRole::general;
  MemorySpace space = MemorySpace::device;
  bool per_layer = false, per_chunk = false, per_microbatch = false, per_pass = false;
  /// A view: shares the storage of this tensor on the same rank and allocates nothing.
  int alias_of = -1;
  InstanceRef alias_instance;  ///< Which instance of it.
  /// The view starts `alias_offset` elements along this dimension of the base's local storage; -1: flattened.
  int alias_dim = -1;
  ExprId alias_offset = ExprPool::kZero;
  /// Registered initialiser with arguments ("normal(0.02)", "uniform(0.1)", "ones"); persistent tensors only.
  std::string initial;
  /// Name that the initial values are a function of, where it isn't the tensor's own (tied and master copies).
  std::string initial_key;
  /// What it keeps beside a parameter's value: "master", "exp_avg"; empty for the value itself. With initial_key, or
  /// the name where that is empty, it says what a checkpoint holds, whichever plan wrote it.
  std::string part;
  /// Lengths of pieces that dimension 0 concatenates (q, k, v): a shard of it takes its slice of each.
  std::vector<std::int64_t> segments;
};

}  // namespace rehearse
