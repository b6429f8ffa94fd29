#pragma once
// What is known of each operator from its definition alone. One entry per OpKind: those of OpKind itself in
// op_table.cpp, any other in a file of its own (add_operator). `list`, the operator report, the network check and the
// cost model read it. How an operator shards and what its backward
// is belong to the strategies.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "core/model/network.hpp"

namespace rehearse {

/// Elements that a forward pass must move to and from memory at least: every operand and result once, in one kernel.
/// Multiply by the size of the element type. A dropout mask (one byte an element) and what unfused kernels move between
/// them come on top.
struct ElementTraffic {
  std::int64_t read = 0;
  std::int64_t written = 0;
};

inline constexpr int kAnyInputs = -1;

struct OpInfo {
  OpKind kind;
  std::string_view name;     ///< As in scenario files and reports: "layer_norm".
  std::string_view summary;  ///< One line.
  int inputs;                ///< Tensors it takes; kAnyInputs: two or more.
  int min_params;            ///< Learned tensors it takes at least (a linear's bias may be missing) ...
  int max_params;            ///< ... and at most.
  /// FLOPs of its matrix products and convolutions; null for an operator that has none.
  Flops (*matmul_flops)(const BlockSpec&, const OpSpec&, std::int64_t b, std::int64_t s, bool causal_half);
  ElementTraffic (*traffic)(const BlockSpec&, const OpSpec&, std::int64_t b, std::int64_t s);
  /// Added operators: what is wrong with an op's shapes, or empty. Null: inputs and output are alike.
  std::string (*wrong)(const BlockSpec&, const OpSpec&) = nullptr;
};

/// An operator that OpKind does not list: its entry, whose `kind` is set and returned, and whose `traffic` may be null
/// (every operand once). Call it once, while the program starts. How it is lowered is entered by its name
/// (lower_operators), and so are its kernels.
[[nodiscard]] OpKind add_operator(OpInfo info);

/// In the order of OpKind, then those added.
[[nodiscard]] std::span<const OpInfo> op_table();
[[nodiscard]] const OpInfo& op_info(OpKind kind);

/// Forward traffic of `op` for `b` sequences of `s` tokens, on global shapes. An embedding reads the rows it looks up,
/// not its table.
[[nodiscard]] ElementTraffic forward_traffic(const BlockSpec& block, const OpSpec& op, std::int64_t b, std::int64_t s);

}  // namespace rehearse
