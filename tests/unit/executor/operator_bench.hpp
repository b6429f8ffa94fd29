#pragma once
// Calls single operators on hand-made tensors, in fp64.

#include <list>
#include <numeric>
#include <string>
#include <vector>

#include "gpu_backend/cpu/cpu_device.hpp"

namespace rehearse::test {

/// A whole tensor of doubles, bytes or integers.
struct Array {
  std::vector<std::int64_t> shape;
  std::vector<double> real;
  std::vector<std::uint8_t> bytes;
  std::vector<std::int64_t> integers;
  ElementType type = ElementType::real64;

  [[nodiscard]] std::size_t size() const {
    return static_cast<std::size_t>(std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>()));
  }
};

inline Array reals(std::vector<std::int64_t> shape) {
  Array out{std::move(shape), {}, {}, {}, ElementType::real64};
  out.real.assign(out.size(), 0.0);
  return out;
}
/// Normal numbers, different for every `stream`.
inline Array random_reals(std::vector<std::int64_t> shape, std::uint64_t stream) {
  Array out = reals(std::move(shape));
  const RandomKey key = RandomKey(stream).with("test");
  for (std::size_t i = 0; i < out.real.size(); ++i) out.real[i] = key.normal(i);
  return out;
}
inline Array mask_of(std::vector<std::int64_t> shape) {
  Array out{std::move(shape), {}, {}, {}, ElementType::byte};
  out.bytes.assign(out.size(), 0);
  return out;
}
inline Array integers_of(std::vector<std::int64_t> shape, std::vector<std::int64_t> values) {
  return {std::move(shape), {}, {}, std::move(values), ElementType::int64};
}

/// An operand: an array and what the task does with it.
struct Argument {
  Array* array;
  Access access;
};
inline Argument in(Array& a) { return {&a, Access::read}; }
inline Argument out(Array& a) { return {&a, Access::write}; }
inline Argument inout(Array& a) { return {&a, Access::update}; }

/// Runs the operator that `task` names.
inline Observations call(const ComputeTask& task, const std::vector<Argument>& arguments,
                         std::vector<std::int64_t> dims = {}, std::vector<std::int64_t> offsets = {},
                         std::int64_t step = 0) {
  std::list<Held> helds;
  Observations observed;
  OperatorCall c;
  c.task = &task;
  c.dims = std::move(dims);
  c.offsets = std::move(offsets);
  c.step = step;
  c.random = RandomKey(1).with(task.random);
  c.observed = &observed;
  for (const Argument& a : arguments) {
    Held h;
    h.shape = h.extents = a.array->shape;
    for (const std::int64_t n : h.shape) h.global.push_back({{0, n}}), h.inner.push_back({0, n});
    h.flat = {0, static_cast<std::int64_t>(a.array->size())};
    helds.push_back(std::move(h));
    void* data = a.array->type == ElementType::byte    ? static_cast<void*>(a.array->bytes.data())
                 : a.array->type == ElementType::int64 ? static_cast<void*>(a.array->integers.data())
                                                       : static_cast<void*>(a.array->real.data());
    c.operands.push_back({static_cast<std::byte*>(data), a.array->type, a.access, nullptr, &helds.back(), 0});
  }
  cpu_operators().at(operator_name(task)).value(c, Numerics::fp64);
  return observed;
}

inline ComputeTask task_of(ComputeOp op, std::string variant = {}) {
  ComputeTask t;
  t.op = op;
  t.variant = std::move(variant);
  return t;
}

}  // namespace rehearse::test
