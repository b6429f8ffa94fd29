#pragma once
// Runs tasks over tensors that they share as one call of a device, and task by task on the CPU in fp64, and compares
// what they leave.

#include "core/base/index.hpp"
#include "tests/gpu/against_cpu.hpp"

namespace rehearse::test {

struct SharedTensor {
  OperandSlot slot;
  bool unseen = false;
  bool spent = false;  ///< Nobody reads it afterwards.
};
struct TaskOf {
  ComputeTask task;
  std::vector<std::pair<int, Access>> operands;  ///< Tensors by number.
  std::vector<std::int64_t> dims{}, offsets{};
};
struct FusedCase {
  std::string_view name;
  std::vector<SharedTensor> tensors;
  std::vector<TaskOf> steps;
  bool onto_zeros = false;
};

inline std::vector<OperatorCase> cases_of(const FusedCase& c) {
  std::vector<OperatorCase> out;
  for (const TaskOf& s : c.steps) {
    OperatorCase& one = out.emplace_back(OperatorCase{s.task, {}, s.dims, s.offsets});
    for (const auto& [tensor, access] : s.operands) {
      one.slots.push_back(nth(c.tensors, tensor).slot);
      one.slots.back().access = access;
    }
  }
  return out;
}

using TensorContents = std::vector<std::vector<double>>;

/// What tensors hold at first: NaN where a task writes first.
inline TensorContents contents_before(const FusedCase& c, ElementType type) {
  TensorContents out;
  for (std::size_t i = 0; i < c.tensors.size(); ++i) {
    const OperandSlot& s = c.tensors[i].slot;
    std::vector<double> values = s.values;
    const RandomKey key = RandomKey(i + 1).with("tensors");
    if (values.empty())
      for (std::size_t e = 0; e < count(s.shape); ++e) values.push_back(key.normal(e));
    for (double& x : values) x = s.access == Access::write ? NAN : rounded(x, stored(s.holds, type));
    out.push_back(std::move(values));
  }
  return out;
}

struct AfterTasks {
  TensorContents contents;
  Observations observed;
};

inline AfterTasks by_tasks_on_cpu(const FusedCase& c, ElementType type) {
  AfterTasks out{contents_before(c, type), {}};
  std::vector<std::vector<std::byte>> memory;
  for (std::size_t i = 0; i < c.tensors.size(); ++i)
    memory.push_back(encoded(out.contents[i], stored(c.tensors[i].slot.holds, ElementType::real64)));
  const std::vector<OperatorCase> cases = cases_of(c);
  for (std::size_t s = 0; s < cases.size(); ++s) {
    Laid laid = lay_out(cases[s], ElementType::real64);
    laid.call.observed = &out.observed;
    for (std::size_t i = 0; i < laid.call.operands.size(); ++i)
      laid.call.operands[i].data = nth(memory, c.steps[s].operands[i].first).data();
    cpu_operators().at(operator_name(cases[s].task)).value(laid.call, Numerics::fp64);
  }
  for (std::size_t i = 0; i < memory.size(); ++i)
    out.contents[i] = decoded(memory[i], stored(c.tensors[i].slot.holds, ElementType::real64));
  return out;
}

/// The fusion of this name that takes the tasks, or null.
inline const Fusion* taker(const ComputeDevice& device, const FusedCase& c, std::span<const FusedCall> calls) {
  for (const Fusion& how : device.fusions()) {
    bool same = how.name == c.name && how.operators.size() == c.steps.size();
    for (std::size_t i = 0; same && i < c.steps.size(); ++i) same = how.operators[i] == operator_name(c.steps[i].task);
    if (same && (how.takes == nullptr || how.takes(calls))) return &how;
  }
  return nullptr;
}

struct CallsOf {
  std::vector<OperatorCase> cases;
  std::list<Laid> laid;
  std::vector<FusedCall> calls;
};
inline CallsOf calls_of(const FusedCase& c, ElementType type, Observations& observed) {
  CallsOf out;
  out.cases = cases_of(c);
  for (std::size_t s = 0; s < out.cases.size(); ++s) {
    Laid& laid = out.laid.emplace_back(lay_out(out.cases[s], type));
    laid.call.observed = &observed;
    laid.call.onto_zeros = c.onto_zeros;
    FusedCall& one = out.calls.emplace_back(FusedCall{laid.call, {}, {}, {}});
    for (const auto& [tensor, access] : c.steps[s].operands) {
      const auto n = static_cast<std::int64_t>(count(nth(c.tensors, tensor).slot.shape));
      one.places.push_back({tensor, 0, n});
      one.unseen.push_back(nth(c.tensors, tensor).unseen);
      one.spent.push_back(nth(c.tensors, tensor).spent);
    }
  }
  return out;
}

inline AfterTasks as_one_on_device(const FusedCase& c, ElementType type) {
  AfterTasks out{contents_before(c, type), {}};
  const auto device = device_under_test(type == ElementType::real64   ? Numerics::fp64
                                        : type == ElementType::real32 ? Numerics::fp32
                                                                      : Numerics::plan);
  CallsOf of = calls_of(c, type, out.observed);
  const Fusion* how = taker(*device, c, of.calls);
  REQUIRE(how != nullptr);
  std::vector<std::shared_ptr<Storage>> memory;
  for (std::size_t i = 0; i < c.tensors.size(); ++i) {
    const std::vector<std::byte> bytes = encoded(out.contents[i], stored(c.tensors[i].slot.holds, type));
    memory.push_back(device->allocate(bytes.size()));
    device->write(*memory.back(), 0, bytes);
  }
  const auto run = [&] {
    for (std::size_t s = 0; s < of.calls.size(); ++s)
      for (std::size_t i = 0; i < of.calls[s].places.size(); ++i)
        if (!of.calls[s].unseen[i]) of.calls[s].call.operands[i].data = nth(memory, of.calls[s].places[i].slot)->data();
    device->execute(*how, of.calls);
  };
  device->wait(device->submit(0, {}, {.run = run, .start = {}, .name = "fused"}));
  for (std::size_t i = 0; i < memory.size(); ++i) {
    const ElementType stored_as_type = stored(c.tensors[i].slot.holds, type);
    std::vector<std::byte> bytes(out.contents[i].size() * size_of(stored_as_type));
    device->read(*memory[i], 0, bytes);
    out.contents[i] = decoded(bytes, stored_as_type);
  }
  return out;
}

inline void check_fusion(const FusedCase& c, std::initializer_list<ElementType> types) {
  for (const ElementType type : types) {
    const AfterTasks expected = by_tasks_on_cpu(c, type), actual = as_one_on_device(c, type);
    for (std::size_t i = 0; i < c.tensors.size(); ++i) {
      INFO(c.name << ", tensor " << i << ", " << 8 * size_of(type) << " bits");
      if (!c.tensors[i].unseen && !c.tensors[i].spent)
        CHECK(relative(actual.contents[i], expected.contents[i]) <= tolerance(type));
    }
    CHECK(relative({actual.observed.loss_sum, actual.observed.norm_squared},
                   {expected.observed.loss_sum, expected.observed.norm_squared}) <= tolerance(type));
  }
}

inline bool taken(const FusedCase& c, ElementType type) {
  Observations observed;
  const auto device = device_under_test(Numerics::plan);
  return taker(*device, c, calls_of(c, type, observed).calls) != nullptr;
}

inline constexpr auto kRead = Access::read, kWrite = Access::write, kUpdate = Access::update;
inline constexpr auto k16 = ElementType::real16, k32 = ElementType::real32, k64 = ElementType::real64;

inline ComputeTask accumulating(ComputeTask task) {
  task.accumulates = true;
  return task;
}

}  // namespace rehearse::test
