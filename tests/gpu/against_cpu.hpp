#pragma once
// Runs one operator on a CUDA device and on the CPU in fp64, and compares all that it writes.

#include <cmath>
#include <cstring>
#include <list>
#include <numeric>
#include <string>
#include <vector>

#include "gpu_backend/cpu/cpu_device.hpp"
#include "gpu_backend/train/initial.hpp"
#include "tests/gpu/device_under_test.hpp"
#include "tests/support/catch.hpp"

namespace rehearse::test {

/// What an operand holds. Sums are numbers that are stored in the type of sums (fp32 beside 16-bit operands):
/// gradients, log-sum-exp.
enum class Holds { reals, sums, integers, mask };

struct OperandSlot {
  std::vector<std::int64_t> shape;
  Access access = Access::read;
  Holds holds = Holds::reals;
  std::vector<double> values{};     ///< Drawn where none are given.
  std::vector<Runs> global{};       ///< Whole where none are given.
  std::vector<std::int64_t> all{};  ///< Global shape; `shape` where none is given.
  std::vector<Run> inner{};         ///< The rank's own, where a halo lies around it.
};

struct OperatorCase {
  ComputeTask task;
  std::vector<OperandSlot> slots;
  std::vector<std::int64_t> dims{}, offsets{};
  std::int64_t first_sample = 0, step = 2;
  /// Operands of [samples, tokens, ...] whose rows lie side by side on the device, in this order.
  std::vector<std::vector<std::size_t>> beside{};
};

inline std::size_t count(const std::vector<std::int64_t>& shape) {
  return static_cast<std::size_t>(std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>()));
}

/// As `type` stores it.
inline double rounded(double x, ElementType type) {
  if (type == ElementType::real16) return static_cast<double>(from_bfloat16(to_bfloat16(static_cast<float>(x))));
  return type == ElementType::real32 ? static_cast<double>(static_cast<float>(x)) : x;
}

inline std::vector<double> decoded(const std::vector<std::byte>& bytes, ElementType type) {
  std::vector<double> out(bytes.size() / size_of(type));
  for (std::size_t i = 0; i < out.size(); ++i) {
    const std::byte* at = bytes.data() + i * size_of(type);
    const auto as = [at](auto x) {
      std::memcpy(&x, at, sizeof x);
      return x;
    };
    switch (type) {
      case ElementType::real64: out[i] = as(double{}); break;
      case ElementType::real32: out[i] = static_cast<double>(as(float{})); break;
      case ElementType::real16: out[i] = static_cast<double>(from_bfloat16(as(std::uint16_t{}))); break;
      case ElementType::int64: out[i] = static_cast<double>(as(std::int64_t{})); break;
      case ElementType::byte: out[i] = static_cast<double>(as(std::uint8_t{})); break;
    }
  }
  return out;
}

inline ElementType stored(Holds holds, ElementType reals) {
  if (holds == Holds::integers) return ElementType::int64;
  if (holds == Holds::mask) return ElementType::byte;
  return holds == Holds::sums && reals == ElementType::real16 ? ElementType::real32 : reals;
}

/// A case laid out: values before, and how ranks hold them.
struct Laid {
  std::vector<std::vector<double>> values;
  std::list<Held> helds;
  OperatorCall call;
};

inline Laid lay_out(const OperatorCase& c, ElementType type) {
  Laid out;
  out.call.task = &c.task, out.call.dims = c.dims, out.call.offsets = c.offsets;
  out.call.first_sample = c.first_sample, out.call.step = c.step;
  out.call.random = RandomKey(1).with(c.task.random);
  for (std::size_t i = 0; i < c.slots.size(); ++i) {
    const OperandSlot& s = c.slots[i];
    std::vector<double> values = s.values;
    const RandomKey key = RandomKey(i + 1).with("operands");
    if (values.empty())
      for (std::size_t e = 0; e < count(s.shape); ++e) values.push_back(key.normal(e));
    for (double& x : values) x = rounded(x, stored(s.holds, type));
    out.values.push_back(std::move(values));
    Held h;
    h.shape = s.all.empty() ? s.shape : s.all;
    h.extents = s.shape;
    h.global = s.global;
    if (h.global.empty())
      for (const std::int64_t n : s.shape) h.global.push_back({{0, n}});
    h.inner = s.inner;
    if (h.inner.empty())
      for (const std::int64_t n : s.shape) h.inner.push_back({0, n});
    h.flat = {0, static_cast<std::int64_t>(count(s.shape))};
    out.helds.push_back(std::move(h));
    out.call.operands.push_back({nullptr, stored(s.holds, type), s.access, nullptr, &out.helds.back(), 0});
  }
  return out;
}

struct Result {
  std::vector<std::vector<double>> values;
  Observations observed;
  Bytes peak{};  ///< Of the device's memory.
};

inline Result on_reference(const OperatorCase& c, ElementType type) {
  Laid laid = lay_out(c, type);
  Result out;
  laid.call.observed = &out.observed;
  std::vector<std::vector<std::byte>> memory;
  for (std::size_t i = 0; i < c.slots.size(); ++i) {
    TensorView& x = laid.call.operands[i];
    x.type = stored(c.slots[i].holds, ElementType::real64);
    memory.push_back(encoded(laid.values[i], x.type));
    x.data = memory.back().data();
  }
  cpu_operators().at(operator_name(c.task)).value(laid.call, Numerics::fp64);
  for (std::size_t i = 0; i < memory.size(); ++i) out.values.push_back(decoded(memory[i], laid.call.operands[i].type));
  return out;
}

/// Operands in the memory of a device, some of them side by side.
class DeviceOperands {
 public:
  DeviceOperands(ComputeDevice& device, const OperatorCase& c, Laid& laid) : device_(device), laid_(laid) {
    for (std::size_t i = 0; i < c.slots.size(); ++i) places_.push_back({i, 0, bytes_of(i), bytes_of(i)});
    storage_.resize(c.slots.size());
    for (const std::vector<std::size_t>& together : c.beside) {
      std::size_t row = 0;
      for (const std::size_t i : together) {
        const auto rows = static_cast<std::size_t>(c.slots[i].shape[0] * c.slots[i].shape[1]);
        places_[i] = {together.front(), row, bytes_of(i) / rows, 0};
        row += places_[i].width;
      }
      for (const std::size_t i : together) {
        places_[i].apart = row;
        laid.call.operands[i].apart = static_cast<std::int64_t>(row / size_of(laid.call.operands[i].type));
      }
    }
    for (std::size_t i = 0; i < c.slots.size(); ++i)
      if (places_[i].storage == i)
        storage_[i] = device.allocate(places_[i].width > 0 ? bytes_of(i) / places_[i].width * places_[i].apart : 0);
  }

  void write(std::size_t i, const std::vector<std::byte>& bytes) {
    const Place& at = places_[i];
    for (std::size_t row = 0; at.width > 0 && row < bytes.size() / at.width; ++row)
      device_.write(*storage_[at.storage], row * at.apart + at.first,
                    std::span(bytes).subspan(row * at.width, at.width));
  }
  std::vector<std::byte> read(std::size_t i) {
    const Place& at = places_[i];
    std::vector<std::byte> bytes(bytes_of(i));
    for (std::size_t row = 0; at.width > 0 && row < bytes.size() / at.width; ++row)
      device_.read(*storage_[at.storage], row * at.apart + at.first,
                   std::span(bytes).subspan(row * at.width, at.width));
    return bytes;
  }
  /// Tells the call where its operands are.
  void place() {
    for (std::size_t i = 0; i < places_.size(); ++i)
      laid_.call.operands[i].data = storage_[places_[i].storage]->data() + places_[i].first;
  }

 private:
  /// Bytes: from where a row of all begins, of a row, and from row to row.
  struct Place {
    std::size_t storage, first, width, apart;
  };
  [[nodiscard]] std::size_t bytes_of(std::size_t i) const {
    return laid_.values[i].size() * size_of(laid_.call.operands[i].type);
  }
  ComputeDevice& device_;
  Laid& laid_;
  std::vector<Place> places_;
  std::vector<std::shared_ptr<Storage>> storage_;
};

inline Result on_device(const OperatorCase& c, ElementType type) {
  const auto device = device_under_test(type == ElementType::real64   ? Numerics::fp64
                                        : type == ElementType::real32 ? Numerics::fp32
                                                                      : Numerics::plan);
  Laid laid = lay_out(c, type);
  Result out;
  laid.call.observed = &out.observed;
  DeviceOperands memory(*device, c, laid);
  for (std::size_t i = 0; i < c.slots.size(); ++i) {
    const std::vector<std::byte> bytes = encoded(laid.values[i], laid.call.operands[i].type);
    // What is only written begins as NaN (all bits set).
    memory.write(i, c.slots[i].access == Access::write ? std::vector<std::byte>(bytes.size(), std::byte{0xff}) : bytes);
  }
  const Operator* op = device->find(operator_name(c.task));
  REQUIRE(op != nullptr);
  const auto run = [&] {
    memory.place();
    device->execute(*op, laid.call);
  };
  device->wait(device->submit(0, {}, {.run = run, .start = {}, .name = "operator"}));
  for (std::size_t i = 0; i < c.slots.size(); ++i)
    out.values.push_back(decoded(memory.read(i), laid.call.operands[i].type));
  out.peak = cuda_memory(*device).peak;
  return out;
}

/// What of an operand is the rank's own.
inline std::vector<double> own_of(const OperandSlot& s, const std::vector<double>& stored) {
  if (s.inner.empty()) return stored;
  std::vector<double> out;
  for (std::size_t i = 0; i < stored.size(); ++i) {
    std::size_t rest = i;
    bool own = true;
    for (std::size_t d = s.shape.size(); d-- > 0; rest /= static_cast<std::size_t>(s.shape[d])) {
      const auto x = static_cast<std::int64_t>(rest % static_cast<std::size_t>(s.shape[d]));
      own = own && x >= s.inner[d].first && x < s.inner[d].first + s.inner[d].length;
    }
    if (own) out.push_back(stored[i]);
  }
  return out;
}

/// |a - b| / |b| over all elements (2-norms); infinite where one is NaN and the other not.
inline double relative(const std::vector<double>& a, const std::vector<double>& b) {
  double difference = 0, size = 0;
  for (std::size_t i = 0; i < b.size(); ++i) {
    if (std::isinf(b[i]) && a[i] == b[i]) continue;
    difference += (a[i] - b[i]) * (a[i] - b[i]);
    size += b[i] * b[i];
  }
  if (std::isnan(difference)) return INFINITY;
  return std::sqrt(difference) / std::max(std::sqrt(size), 1e-30);
}

/// Bounds on that: rounding of a few operations, of sums over some hundred terms.
inline double tolerance(ElementType type) {
  return type == ElementType::real64 ? 1e-13 : type == ElementType::real32 ? 3e-6 : 8e-3;
}

inline void check_against_cpu(const OperatorCase& c, ElementType type) {
  const Result expected = on_reference(c, type), actual = on_device(c, type);
  for (std::size_t i = 0; i < c.slots.size(); ++i) {
    INFO(operator_name(c.task) << ", operand " << i << ", " << 8 * size_of(type) << " bits");
    if (c.slots[i].access == Access::read) {
      // Bit for bit, so also where it holds infinities.
      CHECK(std::equal(actual.values[i].begin(), actual.values[i].end(), lay_out(c, type).values[i].begin()));
    } else if (c.slots[i].holds == Holds::mask) {
      CHECK(own_of(c.slots[i], actual.values[i]) == own_of(c.slots[i], expected.values[i]));
    } else {
      CHECK(relative(own_of(c.slots[i], actual.values[i]), own_of(c.slots[i], expected.values[i])) <= tolerance(type));
    }
  }
  CHECK(actual.observed.tokens == expected.observed.tokens);
  CHECK(relative({actual.observed.loss_sum, actual.observed.norm_squared},
                 {expected.observed.loss_sum, expected.observed.norm_squared}) <= tolerance(type));
}

/// In every type that operators are used in.
inline void check_all_types(const OperatorCase& c) {
  for (const ElementType type : {ElementType::real64, ElementType::real32, ElementType::real16})
    check_against_cpu(c, type);
}

inline std::vector<double> whole_numbers(std::size_t n, std::int64_t below, std::uint64_t seed) {
  std::vector<double> out;
  for (std::size_t i = 0; i < n; ++i)
    out.push_back(static_cast<double>(RandomKey(seed).bits(i) % static_cast<std::uint64_t>(below)));
  return out;
}

inline ComputeTask task_of(ComputeOp op, std::string variant = {}) {
  ComputeTask t;
  t.op = op;
  t.variant = std::move(variant);
  return t;
}
inline OperandSlot in(std::vector<std::int64_t> shape, Holds holds = Holds::reals) {
  return {std::move(shape), Access::read, holds};
}
inline OperandSlot out(std::vector<std::int64_t> shape, Holds holds = Holds::reals) {
  return {std::move(shape), Access::write, holds};
}
inline OperandSlot inout(std::vector<std::int64_t> shape, Holds holds = Holds::reals) {
  return {std::move(shape), Access::update, holds};
}
inline OperandSlot given(OperandSlot slot, std::vector<double> values) {
  slot.values = std::move(values);
  return slot;
}

}  // namespace rehearse::test
