#pragma once
// Initial values: a function of (seed, global name, global element), independent of sharding and of rank.

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "core/program/held.hpp"
#include "gpu_backend/execute/numerics.hpp"

namespace rehearse {

/// A tensor's name with "{layer}" replaced by the block position.
[[nodiscard]] std::string instance_name(const std::string& name, int layer);

/// Whether all its initial values are 0.
[[nodiscard]] bool begins_as_zeros(const Tensor& tensor);

/// Takes bytes of a tensor and where in its storage they begin.
using WriteBytes = std::function<void(std::size_t offset, std::span<const std::byte> bytes)>;

/// Hands out the value of every element that `held` stores, in order and as a device stores them, in parts that take
/// little memory; 0 for padding and for tensors without an initialiser. Initialisers: "zeros", "ones", "normal(STD)",
/// "uniform(BOUND)": from -BOUND to BOUND. Throws std::logic_error for others.
void write_initial_values(const Tensor& tensor, const Held& held, int layer, std::uint64_t seed, ElementType type,
                          const WriteBytes& write);

/// Values as a device stores them.
[[nodiscard]] std::vector<std::byte> encoded(const std::vector<double>& values, ElementType type);
/// The way back, of real numbers.
[[nodiscard]] std::vector<double> decoded(std::span<const std::byte> values, ElementType type);

}  // namespace rehearse
