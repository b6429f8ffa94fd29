#pragma once
// Tensors of a Program: global name and shape, how they lie on the mesh, where and for how long they are stored.

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "core/program/mesh.hpp"
#include "core/units/dtype.hpp"

namespace rehearse {

enum class ReduceOp : std::uint8_t { sum, max, min, logical_or };

/// Every rank along the axis holds the whole.
struct Replicate { bool operator==(const Replicate&) const = default; };
/// Ranks along the axis hold consecutive slices of dimension `dim`. `parts` are the slice lengths in elements; empty means equal
/// slices, the last ones shorter by rounding up: rank i holds [i*ceil(n/k), min(n, (i+1)*ceil(n/k))). `flat` shards the flattened
/// tensor (ZeRO's buckets). `block` > 1 deals slices of n/(k*block) in a zigzag, as balanced causal ring attention does:
/// rank i holds blocks i and 2k-1-i.
struct Shard {
  int dim = 0;
  std::vector<std::int64_t> parts;
  bool flat = false;
  int block = 1;
  bool operator==(const Shard&) const = default;
};
/// Every rank holds a term; the tensor is their reduction.
struct Partial { ReduceOp op = ReduceOp::sum; bool operator==(const Partial&) const = default; };
/// A shard with `before` and `after` further elements of the neighbours along `dim`.
struct Halo { int dim = 0; std::int64_t before = 0, after = 0; bool operator==(const Halo&) const = default; };

using AxisLayout = std::variant<Replicate, Shard, Partial, Halo>;
/// Per axis; an axis not named is Replicate. When several axes shard one dimension, the list's order is the order of
/// division, outermost first.
using Layout = std::vector<std::pair<Axis, AxisLayout>>;
[[nodiscard]] AxisLayout layout_on(const Layout& layout, Axis axis);
[[nodiscard]] std::string to_string(const Layout& layout);

/// A dimension whose size only the data decides (tokens per expert). `draw` names a registered distribution that is a function of
/// (seed, step, layer, microbatch, rank) only. Sizes are exchanged by a task before they are used.
struct DynamicDim {
  std::string name;
  ExprId bound;         ///< Never exceeded; memory is taken for it unless the allocation is by true size.
  ExprId expectation;   ///< Mean.
  std::string draw;     ///< "balanced", "multinomial", "zipf(1.1)"
  double quantile = 0.99;  ///< Quantile that memory estimates use.
};

/// How long a tensor's storage lives.
enum class Lifetime : std::uint8_t {
  persistent,  ///< The whole run: parameters, gradients, optimizer state.
  step,        ///< Allocated and freed by entries within a step (messages, gathered parameters).
  saved,       ///< Made by a forward body, freed by the backward of the same (chunk, microbatch).
  scratch      ///< Within one body.
};

/// Rows of the memory table.
enum class MemoryCategory : std::uint8_t { weights, gradients, optimizer, activations, communication, workspace, framework };
inline constexpr int kMemoryCategories = 7;
[[nodiscard]] std::string_view name_of(MemoryCategory c);

enum class MemorySpace : std::uint8_t { device, pinned_host, host, nvme };

/// One named tensor or, with `per_*`, a family of them: an instance for each layer, chunk or microbatch.
struct Tensor {
  std::string name;              ///< Global name; "{layer}" stands for the layer's index.
  std::vector<ExprId> shape;     ///< Global shape of one instance; a batch dimension counts the microbatch of all replicas.
  DType dtype = DType::fp32;
  Layout layout;
  Lifetime lifetime = Lifetime::scratch;
  MemoryCategory category = MemoryCategory::activations;
  MemorySpace space = MemorySpace::device;
  bool per_layer = false, per_chunk = false, per_microbatch = false;
  int alias_of = -1;             ///< Shares the storage of this tensor (a view, or tied weights); allocates nothing.
  std::string initial;           ///< Registered initialiser with arguments ("normal(0.02)", "ones"); persistent tensors only.
};

/// Which instance of a tensor, relative to the entry that binds it.
struct InstanceRef {
  int layer_delta = 0, chunk_delta = 0, microbatch_delta = 0;
  bool operator==(const InstanceRef&) const = default;
};

}  // namespace rehearse
