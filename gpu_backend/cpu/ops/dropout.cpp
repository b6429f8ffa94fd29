// Dropout. Whether an element stays is a function of (seed, step, op, layer, global element), where sample 0 of a step
// is the same sample whatever the microbatches: neither sharding nor recomputation changes it.

#include "core/base/index.hpp"
#include "gpu_backend/cpu/cpu_device.hpp"
#include "gpu_backend/cpu/ops/image.hpp"

namespace rehearse {

namespace {

/// Numbers of the global elements that a view holds, counted over the step's samples.
std::vector<std::uint64_t> counters(const OperatorCall& c, const TensorView& x) {
  std::int64_t per_sample = 1;
  for (std::size_t d = 1; d < x.held->shape.size(); ++d) per_sample *= x.held->shape[d];
  std::vector<std::uint64_t> out;
  for (const std::int64_t e : x.held->global_elements())
    out.push_back(static_cast<std::uint64_t>(c.first_sample * per_sample + e));
  return out;
}

template <class T>
T kept_scale(const OperatorCall& c) {
  return static_cast<T>(1 / (1 - c.task->probability));
}

/// x, mask, y
template <class T>
struct Dropout {
  static void run(const OperatorCall& c) {
    const std::vector<std::uint64_t> at = counters(c, c.operand(0));
    own_elements<3>({&c.operand(0), &c.operand(1), &c.operand(2)}, [&](const auto& i) {
      const bool keep = c.random.uniform(nth(at, i[0])) >= c.task->probability;
      c.operand(1).as<std::uint8_t>()[i[1]] = keep ? 1 : 0;
      c.operand(2).as<T>()[i[2]] = keep ? c.operand(0).as<T>()[i[0]] * kept_scale<T>(c) : T{0};
    });
  }
};
/// x, residual, mask, y
template <class T>
struct DropoutAdd {
  static void run(const OperatorCall& c) {
    const std::vector<std::uint64_t> at = counters(c, c.operand(0));
    own_elements<4>({&c.operand(0), &c.operand(1), &c.operand(2), &c.operand(3)}, [&](const auto& i) {
      const bool keep = c.random.uniform(nth(at, i[0])) >= c.task->probability;
      c.operand(2).as<std::uint8_t>()[i[2]] = keep ? 1 : 0;
      c.operand(3).as<T>()[i[3]] =
          c.operand(1).as<T>()[i[1]] + (keep ? c.operand(0).as<T>()[i[0]] * kept_scale<T>(c) : T{0});
    });
  }
};
/// dy, mask, dx
template <class T>
struct DropoutGrad {
  static void run(const OperatorCall& c) {
    own_elements<3>({&c.operand(0), &c.operand(1), &c.operand(2)}, [&](const auto& i) {
      c.operand(2).as<T>()[i[2]] =
          c.operand(1).as<std::uint8_t>()[i[1]] != 0 ? c.operand(0).as<T>()[i[0]] * kept_scale<T>(c) : T{0};
    });
  }
};

[[maybe_unused]] const bool registered_dropout =
    cpu_operators().add({"dropout", "zeroes a fraction, scales the rest", {}, both<Dropout>()}) &&
    cpu_operators().add({"dropout_add", "dropout and residual addition", {}, both<DropoutAdd>()}) &&
    cpu_operators().add({"dropout_grad", "gradient by the mask", {}, both<DropoutGrad>()}) &&
    cpu_operators().add({"dropout_add_grad", "gradient by the mask", {}, both<DropoutGrad>()});

}  // namespace

}  // namespace rehearse
