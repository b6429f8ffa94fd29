#pragma once
// Text forms of the Program's enumerators.

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <type_traits>

#include "core/program/program.hpp"

namespace rehearse {

namespace enum_names {

template <class E>
using Of = std::type_identity<E>;

constexpr auto list(Of<ReduceOp>) { return std::to_array<std::string_view>({"sum", "max", "min", "logical_or"}); }
constexpr auto list(Of<Lifetime>) {
  return std::to_array<std::string_view>({"persistent", "step", "saved", "scratch"});
}
constexpr auto list(Of<MemorySpace>) {
  return std::to_array<std::string_view>({"device", "pinned_host", "host", "nvme", "chip"});
}
constexpr auto list(Of<Phase>) {
  return std::to_array<std::string_view>({"forward", "recompute", "input_grad", "weight_grad", "optimizer", "other"});
}
constexpr auto list(Of<Access>) { return std::to_array<std::string_view>({"read", "write", "update"}); }
constexpr auto list(Of<P2pTask::Direction>) { return std::to_array<std::string_view>({"send", "receive"}); }
constexpr auto list(Of<View>) { return std::to_array<std::string_view>({"dense", "expert"}); }
constexpr auto list(Of<Join>) { return std::to_array<std::string_view>({"none", "dp", "pp"}); }
constexpr auto list(Of<StreamRole>) {
  return std::to_array<std::string_view>({"compute", "communication", "copy", "copy_out", "host", "storage"});
}
constexpr auto list(Of<MessageKind>) {
  return std::to_array<std::string_view>(
      {"activations", "activation_gradients", "parameters", "gradients", "inputs", "outputs", "output_gradients"});
}
constexpr auto list(Of<TensorRole>) {
  return std::to_array<std::string_view>({"general", "logits_gradient", "fp8_scales"});
}
constexpr auto list(Of<Var>) {
  return std::to_array<std::string_view>({"coord", "extent", "island", "layer", "chunk", "microbatch", "pass", "copy",
                                          "step", "microbatches", "peer", "dynamic"});
}
constexpr auto list(Of<ExprOp>) {
  return std::to_array<std::string_view>({"constant", "variable", "add", "sub", "mul", "div", "mod", "min", "max", "eq",
                                          "ne", "lt", "le", "and", "or", "not", "select", "element", "lookup"});
}

/// Names that another header already gives, by asking it for every enumerator.
template <class E, std::size_t N>
auto collect() {
  std::array<std::string_view, N> out;
  for (std::size_t i = 0; i < N; ++i) out[i] = name_of(static_cast<E>(i));
  return out;
}
inline auto list(Of<SampleField>) {
  return collect<SampleField, static_cast<std::size_t>(SampleField::token_types) + 1>();
}
inline auto list(Of<Axis>) { return collect<Axis, kAxisCount>(); }
inline auto list(Of<MemoryCategory>) { return collect<MemoryCategory, kMemoryCategories>(); }
inline auto list(Of<ComputeOp>) { return collect<ComputeOp, static_cast<std::size_t>(ComputeOp::quantise) + 1>(); }
inline auto list(Of<CollectiveOp>) {
  return collect<CollectiveOp, static_cast<std::size_t>(CollectiveOp::send_recv) + 1>();
}
inline auto list(Of<DType>) { return collect<DType, static_cast<std::size_t>(DType::uint8) + 1>(); }

}  // namespace enum_names

template <class E>
[[nodiscard]] std::string enum_name(E value) {
  static const auto kNames = enum_names::list(std::type_identity<E>{});
  return std::string(kNames.at(static_cast<std::size_t>(value)));
}

/// False where no enumerator has this name.
template <class E>
[[nodiscard]] bool enum_value(std::string_view name, E& out) {
  static const auto kNames = enum_names::list(std::type_identity<E>{});
  const auto at = std::find(kNames.begin(), kNames.end(), name);
  if (at == kNames.end()) return false;
  out = static_cast<E>(at - kNames.begin());
  return true;
}

}  // namespace rehearse
