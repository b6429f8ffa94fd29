// Attention on a device against the CPU's in fp64: shared key heads, dropout, windows, positions in two pieces, rows of
// queries, keys and values side by side.
#include <cstdlib>

#include "tests/gpu/against_cpu.hpp"
#include "tests/support/skip.hpp"

using namespace rehearse;
using namespace rehearse::test;

#define ON_A_DEVICE() \
  if (const auto none = no_device()) REHEARSE_SKIP(*none)

namespace {

OperatorCase attention_case(std::int64_t sequence, std::int64_t heads, std::int64_t kv_heads, std::int64_t width,
                            double dropped, bool zigzag = false) {
  OperatorCase c{
      task_of(ComputeOp::attention, "flash"),
      {in({2, sequence, heads, width}), in({2, sequence, kv_heads, width}), in({2, sequence, kv_heads, width}),
       out({2, sequence, heads, width}), out({2, sequence, heads}, Holds::sums)}};
  c.task.causal = true;
  c.task.scalars = {1 / std::sqrt(static_cast<double>(width))};
  c.task.probability = dropped;
  c.task.random = "attention";
  c.first_sample = 3;
  if (zigzag)
    for (OperandSlot& s : c.slots) {
      s.all = s.shape;
      s.all[1] = 2 * sequence;
      for (const std::int64_t n : s.shape) s.global.push_back({{0, n}});
      s.global[1] = {{0, sequence / 2}, {3 * sequence / 2, sequence / 2}};
    }
  return c;
}

/// Backward of a case, on the forward's own output and log-sum-exp.
OperatorCase attention_grad_case(const OperatorCase& forward, ElementType type) {
  const Result made = on_reference(forward, type);
  OperatorCase c = forward;
  c.task.op = ComputeOp::attention_grad;
  std::vector<OperandSlot> slots{forward.slots[3], forward.slots[0], forward.slots[1],
                                 forward.slots[2], forward.slots[3], forward.slots[4],
                                 forward.slots[0], forward.slots[1], forward.slots[2]};
  for (std::size_t i = 0; i < slots.size(); ++i) slots[i].access = i < 6 ? Access::read : Access::write;
  const Laid laid = lay_out(forward, type);
  for (std::size_t i = 0; i < 3; ++i) slots[1 + i].values = laid.values[i];
  slots[4].values = made.values[3];
  slots[5].values = made.values[4];
  c.slots = std::move(slots);
  return c;
}

/// Queries, keys and values side by side, or keys and values alone; their gradients too.
OperatorCase beside(OperatorCase c, bool queries) {
  const bool backward = c.task.op == ComputeOp::attention_grad;
  for (const std::size_t first : backward ? std::vector<std::size_t>{1, 6} : std::vector<std::size_t>{0})
    c.beside.push_back(queries ? std::vector<std::size_t>{first, first + 1, first + 2}
                               : std::vector<std::size_t>{first + 1, first + 2});
  return c;
}

/// To keys in a window.
OperatorCase windowed(OperatorCase c, std::int64_t window) {
  c.task.variant = "flash_window";
  const auto &q = c.slots[0].shape, &k = c.slots[1].shape;
  c.dims = {q[0], q[2], k[2], q[1], k[1], q[3], window};
  return c;
}

/// By whatever computes it, and by the kernels here where that was cuDNN.
void check_attention(const OperatorCase& c, std::initializer_list<ElementType> types) {
  for (const char* cudnn : {"on", "off"}) {
    ::setenv("REHEARSE_CUDNN", cudnn, 1);
    for (const ElementType type : types) {
      INFO("sequence " << c.slots[0].shape[1] << ", head width " << c.slots[0].shape[3] << ", cuDNN " << cudnn);
      check_against_cpu(c, type);
      check_against_cpu(attention_grad_case(c, type), type);
    }
  }
  ::unsetenv("REHEARSE_CUDNN");
}

}  // namespace

TEST_CASE("attention in one pass: shared key heads, dropout, any head width") {
  ON_A_DEVICE();
  check_attention(attention_case(37, 4, 2, 24, 0), {ElementType::real64, ElementType::real32, ElementType::real16});
  check_attention(attention_case(40, 2, 2, 40, 0.25), {ElementType::real64, ElementType::real32});
  check_attention(attention_case(16, 2, 1, 8, 0, true), {ElementType::real64});
  check_attention(windowed(attention_case(40, 4, 2, 24, 0), 7), {ElementType::real64, ElementType::real32});
  check_attention(windowed(attention_case(16, 2, 1, 8, 0, true), 5), {ElementType::real64});
}

TEST_CASE("attention on tensor cores: several tiles, ragged ends, shared key heads, dropout, positions in two pieces") {
  ON_A_DEVICE();
  check_attention(attention_case(150, 2, 1, 64, 0), {ElementType::real16});
  check_attention(attention_case(70, 2, 2, 64, 0.25), {ElementType::real16});
  check_attention(attention_case(80, 2, 1, 64, 0, true), {ElementType::real16});
  check_attention(attention_case(96, 1, 1, 128, 0), {ElementType::real16});
  check_attention(windowed(attention_case(160, 4, 2, 64, 0), 50), {ElementType::real16});
  OperatorCase everything = attention_case(130, 1, 1, 64, 0);
  everything.task.causal = false;
  check_attention(everything, {ElementType::real16});
}

TEST_CASE("attention of queries, keys and values side by side, by every kernel") {
  ON_A_DEVICE();
  for (const char* cudnn : {"on", "off"}) {
    ::setenv("REHEARSE_CUDNN", cudnn, 1);
    for (const auto& [c, type] : {std::pair{attention_case(20, 4, 2, 24, 0), ElementType::real32},
                                  {attention_case(70, 2, 1, 64, 0), ElementType::real16}}) {
      const OperatorCase grad = attention_grad_case(c, type);
      check_against_cpu(beside(c, true), type);
      check_against_cpu(beside(grad, true), type);
      check_against_cpu(beside(grad, false), type);
    }
  }
  ::unsetenv("REHEARSE_CUDNN");
}
