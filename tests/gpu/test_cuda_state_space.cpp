// Operators of layers with state-space mixers give what the CPU's give in fp64, in each type, and the same bits every
// time.
#include "tests/gpu/against_cpu.hpp"
#include "tests/support/skip.hpp"

using namespace rehearse;
using namespace rehearse::test;

namespace {

#define ON_A_DEVICE() \
  if (const auto none = no_device()) REHEARSE_SKIP(*none)

struct Mixer {
  std::int64_t batch, tokens, heads, head_dim, groups, state, window, chunk;
  [[nodiscard]] std::vector<std::int64_t> dims() const {
    return {batch, tokens, heads, head_dim, groups, state, window, chunk};
  }
  /// z, x, b, c, dt, convolution's weight and bias, a_log, d, dt_bias
  [[nodiscard]] std::vector<std::vector<std::int64_t>> shapes() const {
    const std::int64_t channels = heads * head_dim + 2 * groups * state;
    const std::vector<std::int64_t> inner{batch, tokens, heads, head_dim}, shared{batch, tokens, groups, state};
    return {inner,      inner,   shared,  shared, {batch, tokens, heads}, {channels, window},
            {channels}, {heads}, {heads}, {heads}};
  }
};

OperatorCase forward(const Mixer& m) {
  OperatorCase c{task_of(ComputeOp::state_space), {}, m.dims()};
  for (const auto& shape : m.shapes()) c.slots.push_back(in(shape));
  c.slots.push_back(out(m.shapes()[0]));
  return c;
}
OperatorCase backward(const Mixer& m, bool frozen = false) {
  OperatorCase c{task_of(ComputeOp::state_space_grad), {in(m.shapes()[0])}, m.dims()};
  c.task.accumulates = !frozen;
  const auto shapes = m.shapes();
  for (const auto& shape : shapes) c.slots.push_back(in(shape));
  for (std::size_t i = 0; i < (frozen ? 5 : shapes.size()); ++i)
    c.slots.push_back(i < 5 ? out(shapes[i]) : inout(shapes[i], Holds::sums));
  return c;
}

/// Several chunks and a rest, rows of the state longer than a warp, more tokens than one part of a weight's gradient
/// sums.
constexpr Mixer kLong{2, 45, 4, 10, 2, 40, 4, 16};
/// More samples and groups than backward works on at a time.
constexpr Mixer kWide{7, 3, 40, 2, 20, 3, 4, 2};
/// Groups of two heads and of one, which lanes do not divide.
constexpr Mixer kUneven{1, 9, 5, 3, 3, 33, 2, 4};

}  // namespace

TEST_CASE("the state-space mixer and its gradients") {
  ON_A_DEVICE();
  for (const Mixer& m : {kLong, kWide, kUneven}) {
    check_all_types(forward(m));
    check_all_types(backward(m));
  }
  check_all_types(backward(kUneven, true));
}

TEST_CASE("gradients of the state-space mixer are the same bits every time") {
  ON_A_DEVICE();
  const OperatorCase c = backward(kLong);
  const Result first = on_device(c, ElementType::real32), second = on_device(c, ElementType::real32);
  CHECK(first.values == second.values);
}

TEST_CASE("norms of runs of features") {
  ON_A_DEVICE();
  for (const std::int64_t head_dim : {8, 11}) {  // Runs of two heads; whole vectors or not.
    const auto norm = [&](ComputeOp op, bool accumulates = false) {
      ComputeTask t = task_of(op, "grouped_rms_norm");
      t.epsilon = 1e-5;
      t.scalars = {2.0 * static_cast<double>(head_dim)};
      t.accumulates = accumulates;
      return t;
    };
    const std::vector<std::int64_t> shape{2, 75, 6, head_dim}, weight{6 * head_dim};
    check_all_types({norm(ComputeOp::norm), {in(shape), in(weight), out(shape)}});
    check_all_types({norm(ComputeOp::norm_grad), {in(shape), in(shape), in(weight), out(shape)}});
    check_all_types({norm(ComputeOp::norm_grad, true), {in(shape), in(shape), inout(weight, Holds::sums)}});
  }
}

TEST_CASE("squared ReLU of rows by their weights") {
  ON_A_DEVICE();
  check_all_types({task_of(ComputeOp::activation, "weighted_squared_relu"), {in({9, 33}), in({9}), out({9, 33})}});
  check_all_types({task_of(ComputeOp::activation_grad, "weighted_squared_relu"),
                   {in({9, 33}), in({9, 33}), in({9}), out({9, 33}), out({9})}});
}
