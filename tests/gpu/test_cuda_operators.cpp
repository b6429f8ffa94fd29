// Every CUDA operator gives what the CPU's gives in fp64, in each type it is used in: rows that are no multiple of a
// vector, of a warp or of a block, slices of a vocabulary, shared key heads, dropout.
#include <algorithm>

#include "gpu_backend/cuda/device_probe.hpp"
#include "tests/gpu/against_cpu.hpp"
#include "tests/support/skip.hpp"

using namespace rehearse;
using namespace rehearse::test;

namespace {

void check(const OperatorCase& c) { check_all_types(c); }

#define ON_A_DEVICE() \
  if (const auto none = no_device()) REHEARSE_SKIP(*none)

ComputeTask norm_task(ComputeOp op, const char* variant, bool accumulates = false) {
  ComputeTask t = task_of(op, variant);
  t.epsilon = 1e-5;
  t.accumulates = accumulates;
  return t;
}

}  // namespace

TEST_CASE("both devices have the transformers' operators under the same names") {
  std::vector<std::string> lacking;
  const std::vector<std::string> cuda = cuda_operators().names();
  for (const std::string& name : cuda)
    if (const auto cpu = cpu_operators().names(); std::find(cpu.begin(), cpu.end(), name) == cpu.end())
      lacking.push_back(name);
  CHECK(lacking.empty());
  if (cuda_missing().empty()) CHECK(cuda.size() >= 50);
}

TEST_CASE("linear layers with several outputs") {
  ON_A_DEVICE();
  check({task_of(ComputeOp::matmul, "linear"),
         {in({2, 3, 8}), in({24, 8}), out({2, 3, 16}), out({2, 3, 8}), in({24})},
         {},
         {1}});
  check({task_of(ComputeOp::matmul, "linear"), {in({2, 3, 8}), in({16, 8}), out({2, 3, 16}), in({16})}, {}, {0}});
  // The second output's bias begins at no multiple of 16 bytes; all else is as the first's.
  check({task_of(ComputeOp::matmul, "linear"),
         {in({2, 3, 8}), in({10, 8}), out({2, 3, 5}), out({2, 3, 5}), in({10})},
         {},
         {1}});
  check(
      {task_of(ComputeOp::matmul, "linear_input_grad"), {in({24, 8}), out({2, 3, 8}), in({2, 3, 16}), in({2, 3, 8})}});
  ComputeTask weight = task_of(ComputeOp::matmul, "linear_weight_grad");
  weight.accumulates = true;
  check({weight, {in({2, 8, 8}), inout({24, 8}, Holds::sums), in({2, 8, 16}), in({2, 8, 8})}});
  check({task_of(ComputeOp::add, "column_sum"), {in({2, 75, 5}), in({2, 75, 40}), inout({45}, Holds::sums)}});
  check({task_of(ComputeOp::add, "column_sum"), {in({1, 1100, 264}), inout({264}, Holds::sums)}});
}

TEST_CASE("linear layers: outputs whose rows lie side by side are one product") {
  ON_A_DEVICE();
  OperatorCase forward{task_of(ComputeOp::matmul, "linear"),
                       {in({2, 3, 8}), in({40, 8}), out({2, 3, 16}), out({2, 3, 2, 8}), out({2, 3, 8}), in({40})},
                       {},
                       {1}};
  forward.beside = {{2, 3, 4}};
  check(forward);
  forward.beside = {{3, 4}};
  check(forward);
  forward.beside = {{4, 3, 2}};  // In another order: a product each.
  check(forward);
  OperatorCase input{task_of(ComputeOp::matmul, "linear_input_grad"),
                     {in({40, 8}), out({2, 3, 8}), in({2, 3, 16}), in({2, 3, 16}), in({2, 3, 8})}};
  input.beside = {{2, 3, 4}};
  check(input);
  OperatorCase weight{task_of(ComputeOp::matmul, "linear_weight_grad"),
                      {in({2, 8, 8}), inout({40, 8}, Holds::sums), in({2, 8, 16}), in({2, 8, 16}), in({2, 8, 8})}};
  weight.task.accumulates = true;
  weight.beside = {{2, 3, 4}};
  check(weight);
  OperatorCase bias{task_of(ComputeOp::add, "column_sum"), {in({2, 75, 8}), in({2, 75, 40}), inout({48}, Holds::sums)}};
  bias.beside = {{0, 1}};
  check(bias);
}

TEST_CASE("rotations and gates of rows that lie side by side with others") {
  ON_A_DEVICE();
  OperatorCase turn{task_of(ComputeOp::rope), {in({2, 7, 3, 16}), out({2, 7, 3, 16}), in({2, 7, 8})}};
  turn.task.scalars = {16, 10000};
  turn.beside = {{2, 1}};
  check(turn);
  turn.beside = {{0, 2}};
  check(turn);
  turn.task.op = ComputeOp::rope_grad;
  check(turn);
  OperatorCase gate{task_of(ComputeOp::activation, "silu_mul"), {in({2, 3, 48}), in({2, 3, 48}), out({2, 3, 48})}};
  gate.beside = {{0, 1}};
  check(gate);
  OperatorCase grad{task_of(ComputeOp::activation_grad, "silu_mul"),
                    {in({2, 3, 48}), in({2, 3, 48}), out({2, 3, 48}), in({2, 3, 48}), out({2, 3, 48})}};
  for (const std::vector<std::vector<std::size_t>>& beside :
       std::vector<std::vector<std::vector<std::size_t>>>{{{1, 3}, {2, 4}}, {{1, 3}}, {{2, 4}}}) {
    grad.beside = beside;
    check(grad);
  }
}

TEST_CASE("linear layers where one side has a piece of the sequence") {
  ON_A_DEVICE();
  // Tokens 4 to 7 of eight.
  const auto piece = [](OperandSlot s) {
    s.all = s.shape;
    s.all[1] = 8;
    for (const std::int64_t n : s.shape) s.global.push_back({{0, n}});
    s.global[1] = {{4, 4}};
    return s;
  };
  const ComputeTask forward = task_of(ComputeOp::matmul, "linear_piece");
  check({forward, {in({2, 8, 8}), in({16, 8}), piece(out({2, 4, 16})), in({16})}, {}, {1}});
  check({forward, {piece(in({2, 4, 8})), in({16, 8}), inout({2, 8, 16})}});
  check(
      {task_of(ComputeOp::matmul, "linear_input_grad_piece"), {in({16, 8}), inout({2, 8, 8}), piece(in({2, 4, 16}))}});
}

TEST_CASE("attention in pieces, with key heads that are shared") {
  ON_A_DEVICE();
  check({task_of(ComputeOp::matmul, "scores"), {in({2, 8, 4, 8}), in({2, 8, 2, 8}), out({2, 4, 8, 8})}});
  check({task_of(ComputeOp::matmul, "context"), {in({2, 4, 8, 8}), in({2, 8, 2, 8}), out({2, 8, 4, 8})}});
  check({task_of(ComputeOp::matmul, "probabilities_grad"), {in({2, 8, 4, 8}), in({2, 8, 2, 8}), out({2, 4, 8, 8})}});
  check({task_of(ComputeOp::matmul, "q_grad"), {in({2, 4, 8, 8}), in({2, 8, 2, 8}), out({2, 8, 4, 8})}});
  for (const char* of_keys : {"v_grad", "k_grad"})
    check({task_of(ComputeOp::matmul, of_keys), {in({2, 4, 8, 8}), in({2, 8, 4, 8}), out({2, 8, 2, 8})}});
  ComputeTask softmax = task_of(ComputeOp::softmax);
  softmax.causal = true;
  softmax.scalars = {0.3};
  check({softmax, {in({2, 3, 37, 37}), out({2, 3, 37, 37})}});
  ComputeTask grad = task_of(ComputeOp::softmax_grad);
  grad.scalars = {0.3};
  check({grad, {in({2, 3, 7, 300}), in({2, 3, 7, 300}), out({2, 3, 7, 300})}});
  ComputeTask mask = task_of(ComputeOp::scale, "mask");
  mask.causal = true;
  check({mask, {inout({2, 3, 9, 9})}});
  check({task_of(ComputeOp::copy, "repeat_heads"), {in({2, 7, 2, 5}), out({2, 7, 6, 5})}});
  check({task_of(ComputeOp::copy, "sum_heads"), {in({2, 7, 6, 5}), out({2, 7, 2, 5})}});
}

TEST_CASE("norms of rows of any width") {
  ON_A_DEVICE();
  for (const std::int64_t width : {24, 33, 1040, 4104}) {
    check(
        {norm_task(ComputeOp::norm, "layer_norm"), {in({2, 3, width}), in({width}), in({width}), out({2, 3, width})}});
    check({norm_task(ComputeOp::norm, "rms_norm"), {in({2, 3, width}), in({width}), out({2, 3, width})}});
    check({norm_task(ComputeOp::norm_grad, "layer_norm"),
           {in({2, 3, width}), in({2, 3, width}), in({width}), out({2, 3, width})}});
    check({norm_task(ComputeOp::norm_grad, "rms_norm"),
           {in({2, 3, width}), in({2, 3, width}), in({width}), out({2, 3, width})}});
  }
  check({norm_task(ComputeOp::norm_grad, "layer_norm", true),
         {in({2, 75, 24}), in({2, 75, 24}), inout({24}, Holds::sums), inout({24}, Holds::sums)}});
  check({norm_task(ComputeOp::norm_grad, "rms_norm", true),
         {in({2, 75, 33}), in({2, 75, 33}), inout({33}, Holds::sums)}});
  check({norm_task(ComputeOp::norm_grad, "rms_norm", true),
         {in({2, 75, 1040}), in({2, 75, 1040}), inout({1040}, Holds::sums)}});
}

TEST_CASE("activations") {
  ON_A_DEVICE();
  for (const char* variant : {"gelu", "gelu_tanh", "squared_relu"}) {
    check({task_of(ComputeOp::activation, variant), {in({2, 5, 33}), out({2, 5, 33})}});
    check({task_of(ComputeOp::activation_grad, variant), {in({2, 5, 32}), in({2, 5, 32}), out({2, 5, 32})}});
  }
  check({task_of(ComputeOp::activation, "silu_mul"), {in({2, 5, 33}), in({2, 5, 33}), out({2, 5, 33})}});
  check({task_of(ComputeOp::activation_grad, "silu_mul"),
         {in({2, 5, 32}), in({2, 5, 32}), out({2, 5, 32}), in({2, 5, 32}), out({2, 5, 32})}});
  check({task_of(ComputeOp::add), {in({3, 7, 11}), in({3, 7, 11}), out({3, 7, 11})}});
  ComputeTask accumulate = task_of(ComputeOp::add);
  accumulate.accumulates = true;
  check({accumulate, {inout({3, 7}, Holds::sums), in({3, 7}), in({40}), inout({40})}});
  check({task_of(ComputeOp::fill, "zeros"), {out({3, 7}), out({5}, Holds::sums)}});
  check({task_of(ComputeOp::cast), {in({3, 7, 11}), out({3, 7, 11}, Holds::sums)}});
  check({task_of(ComputeOp::cast, "from_master"), {out({64}), in({64}, Holds::sums)}});
}

TEST_CASE("dropout takes the numbers of global elements") {
  ON_A_DEVICE();
  ComputeTask drop = task_of(ComputeOp::dropout);
  drop.probability = 0.3;
  drop.random = "block.dropout";
  const Runs samples{{0, 2}}, places{{4, 3}, {13, 3}}, columns{{8, 8}};
  const auto shard = [&](OperandSlot s) {
    s.all = {2, 16, 32};
    s.global = {samples, places, columns};
    return s;
  };
  check({drop, {shard(in({2, 6, 8})), shard(out({2, 6, 8}, Holds::mask)), shard(out({2, 6, 8}))}, {}, {}, 5});
  ComputeTask with_residual = drop;
  with_residual.op = ComputeOp::dropout_add;
  check({with_residual,
         {shard(in({2, 6, 8})), shard(in({2, 6, 8})), shard(out({2, 6, 8}, Holds::mask)), shard(out({2, 6, 8}))},
         {},
         {},
         5});
  ComputeTask grad = drop;
  grad.op = ComputeOp::dropout_grad;
  check({grad, {in({2, 6, 9}), given(in({2, 6, 9}, Holds::mask), whole_numbers(108, 2, 7)), out({2, 6, 9})}});
}

TEST_CASE("tables: a slice of the vocabulary, tokens that occur often, positions in two pieces") {
  ON_A_DEVICE();
  const OperandSlot tokens = given(in({3, 200}, Holds::integers), whole_numbers(600, 50, 3));
  check({task_of(ComputeOp::embedding), {tokens, in({20, 12}), out({3, 200, 12})}, {}, {15}});
  check({task_of(ComputeOp::embedding_grad), {tokens, in({3, 200, 12}), inout({20, 12}, Holds::sums)}, {}, {15}});
  check({task_of(ComputeOp::embedding_grad), {tokens, in({3, 200, 300}), inout({50, 300}, Holds::sums)}, {}, {0}});
  const auto zigzag = [](OperandSlot s) {
    s.all = s.shape;
    s.all[1] = 16;
    for (const std::int64_t n : s.shape) s.global.push_back({{0, n}});
    s.global[1] = {{4, 4}, {12, 4}};
    return s;
  };
  check({task_of(ComputeOp::add, "position"), {zigzag(in({3, 8, 12})), in({16, 12}), zigzag(out({3, 8, 12}))}});
  check({task_of(ComputeOp::embedding_grad, "position"), {zigzag(in({3, 8, 12})), inout({16, 12}, Holds::sums)}});
  ComputeTask rope = task_of(ComputeOp::rope);
  rope.scalars = {6, 10000};
  check({rope, {zigzag(in({2, 8, 3, 10})), zigzag(out({2, 8, 3, 10}))}});
  rope.scalars = {16, 10000};
  check({rope, {zigzag(in({2, 8, 3, 20})), zigzag(out({2, 8, 3, 20}))}});
  rope.scalars = {6, 10000};
  rope.op = ComputeOp::rope_grad;
  check({rope, {zigzag(in({2, 8, 3, 10})), zigzag(out({2, 8, 3, 10}))}});
}

TEST_CASE("gradients of tables, of many tokens, which are sorted: rows over several tiles, slices, odd widths") {
  ON_A_DEVICE();
  constexpr std::int64_t kMany = 4150;
  std::vector<double> words = whole_numbers(kMany, 60, 3);
  for (std::size_t t = 0; t < words.size(); t += 3) words[t] = 17;  // A word that many tiles are full of.
  const OperandSlot tokens = given(in({1, kMany}, Holds::integers), words);
  const auto grad = [&](std::int64_t first, std::int64_t rows, std::int64_t width) {
    return OperatorCase{task_of(ComputeOp::embedding_grad),
                        {tokens, in({1, kMany, width}), inout({rows, width}, Holds::sums)},
                        {},
                        {first}};
  };
  check(grad(0, 60, 12));
  check(grad(15, 20, 7));
  check(grad(100, 5, 8));  // Another rank has all of them.
  // The same bits, however often.
  CHECK(on_device(grad(0, 60, 12), ElementType::real32).values ==
        on_device(grad(0, 60, 12), ElementType::real32).values);
}

TEST_CASE("cross-entropy over a padded slice of the vocabulary") {
  ON_A_DEVICE();
  const auto slice = [](OperandSlot s) {
    s.all = {2, 5, 500};
    s.global = {{{0, 2}}, {{0, 5}}, {{300, 300}}};  // 200 tokens and 100 columns of padding.
    return s;
  };
  const OperandSlot labels = given(in({2, 5}, Holds::integers), whole_numbers(10, 500, 11));
  const OperandSlot sums = given(in({2, 5, 2}, Holds::sums), std::vector<double>(20, 60.0)),
                    per_token = given(in({2, 5}, Holds::sums), std::vector<double>(10, 3.5));
  check({task_of(ComputeOp::cross_entropy, "max"), {slice(in({2, 5, 300})), out({2, 5}, Holds::sums)}});
  check({task_of(ComputeOp::cross_entropy, "sums"),
         {slice(in({2, 5, 300})), labels, per_token, out({2, 5, 2}, Holds::sums)}});
  check({task_of(ComputeOp::cross_entropy, "exponential"),
         {slice(inout({2, 5, 300})), labels, per_token, out({2, 5}, Holds::sums)}});
  check({task_of(ComputeOp::cross_entropy, "sum_exp"), {slice(in({2, 5, 300})), out({2, 5}, Holds::sums)}});
  check({task_of(ComputeOp::cross_entropy, "normalise"), {slice(inout({2, 5, 300})), per_token}});
  check({task_of(ComputeOp::cross_entropy, "loss"), {per_token, in({2, 5}, Holds::sums), out({1}, Holds::sums)}});
  check({task_of(ComputeOp::cross_entropy, "loss_of_sums"), {sums, out({1}, Holds::sums)}});
  check({task_of(ComputeOp::cross_entropy_grad), {slice(in({2, 5, 300})), labels, slice(out({2, 5, 300}))}, {40}});
  check({task_of(ComputeOp::cross_entropy_grad, "in_place"), {labels, slice(inout({2, 5, 300}))}, {40}});
  check({task_of(ComputeOp::cross_entropy_grad, "fused"),
         {slice(in({2, 5, 300})), labels, slice(out({2, 5, 300})), per_token, sums},
         {40}});
}

TEST_CASE("updates of many tensors") {
  ON_A_DEVICE();
  OperatorCase adam{task_of(ComputeOp::optimizer, "adamw"), {}};
  adam.task.scalars = {1e-2, 0.1, 0.9, 0.999, 1e-8};
  OperatorCase sgd{task_of(ComputeOp::optimizer, "sgd"), {}};
  sgd.task.scalars = {1e-2, 0.1, 0.9};
  OperatorCase squares{task_of(ComputeOp::square_sum, "l2"), {}}, clip{task_of(ComputeOp::scale, "clip"), {}};
  clip.task.scalars = {0.5};
  for (std::int64_t i = 0; i < 45; ++i) {  // More than one launch takes.
    const std::vector<std::int64_t> shape =
        i % 2 == 0 ? std::vector<std::int64_t>{5, 12} : std::vector<std::int64_t>{60 + i % 4};  // Not all by vectors.
    const std::vector<double> positive = whole_numbers(count(shape), 9, 5);
    for (const OperandSlot& s :
         {in(shape), inout(shape, Holds::sums), inout(shape, Holds::sums), given(inout(shape, Holds::sums), positive)})
      adam.slots.push_back(s);
    for (const OperandSlot& s : {in(shape), inout(shape, Holds::sums), inout(shape, Holds::sums)})
      sgd.slots.push_back(s);
    squares.slots.push_back(in(shape, Holds::sums));
    squares.offsets.push_back(i % 3 == 0 ? 0 : 1);
    clip.slots.push_back(inout(shape, Holds::sums));
  }
  squares.slots.push_back(out({1}, Holds::sums));
  clip.slots.push_back(given(in({1}, Holds::sums), {9.0}));
  check(adam);
  adam.task.variant = "adam";
  check(adam);
  check(sgd);
  check(squares);
  check(clip);
  clip.slots.back().values = {0.01};  // Below the bound: nothing changes.
  check(clip);
}

TEST_CASE("LAMB: moments, norms of whole tensors, the step by their ratio") {
  ON_A_DEVICE();
  OperatorCase moments{task_of(ComputeOp::optimizer, "lamb_moments"), {}},
      step{task_of(ComputeOp::optimizer, "lamb"), {}};
  moments.task.scalars = step.task.scalars = {1e-2, 0.1, 0.9, 0.999, 1e-6};
  // More than one block; a vector.
  for (const std::vector<std::int64_t>& shape : std::vector<std::vector<std::int64_t>>{{70, 130}, {60}}) {
    const std::vector<double> positive = whole_numbers(count(shape), 9, 5);
    for (const OperandSlot& s : {in(shape), in(shape, Holds::sums), inout(shape, Holds::sums),
                                 given(inout(shape, Holds::sums), positive), out({2}, Holds::sums)})
      moments.slots.push_back(s);
    for (const OperandSlot& s : {inout(shape, Holds::sums), in(shape, Holds::sums),
                                 given(in(shape, Holds::sums), positive), given(in({2}, Holds::sums), {40.0, 900.0})})
      step.slots.push_back(s);
  }
  check(moments);
  check(step);
  step.slots[3].values = {0.0, 900.0};  // A weight of zeros takes the step as it is.
  check(step);
}

TEST_CASE("casts to fp8: by the scale of the step before, of the tensor, of rows and of blocks") {
  ON_A_DEVICE();
  const auto cast = [](const char* variant, double role) {
    ComputeTask t = task_of(ComputeOp::quantise, variant);
    t.scalars =
        role == 2 ? std::vector<double>{2, -14, 57344, role, 1, 1} : std::vector<double>{3, -6, 448, role, 1, 1};
    return t;
  };
  for (const double role : {0.0, 1.0, 2.0}) {
    check({cast("delayed", role),
           {given(inout({6}, Holds::sums), {100, 50, 2000, 0, 9, 0}), in({5, 130}), out({5, 130}), out({5, 130}),
            in({40}), out({40}), out({40})}});
    // The first step: no scale yet.
    check({cast("delayed", role),
           {given(inout({6}, Holds::sums), {0, 0, 0, 0, 0, 0}), in({5, 130}), out({5, 130}), out({5, 130})}});
    check({cast("tensorwise", role),
           {given(in({2}, Holds::sums), {3.5, 0.75}), in({5, 130}), out({5, 130}), out({5, 130}), in({40}), out({40}),
            out({40})}});
    for (const char* variant : {"rowwise", "blockwise", "mxfp8"})
      check({cast(variant, role), {in({140, 150}), out({140, 150}), out({140, 150})}, {150}});
  }
  check({task_of(ComputeOp::quantise, "amax"), {in({70, 130}), in({40}), out({2}, Holds::sums)}});
  check({task_of(ComputeOp::quantise, "update_scales"), {given(inout({6}, Holds::sums), {1, 2, 3, 4, 0, 5})}});
}

namespace {

/// A part of a weight and of its statistics: whole, rows or columns of it, or a slice of the flattened matrix.
struct Factored {
  OperandSlot weight, rows, columns;
};
void check_adafactor(const Factored& f) {
  const std::vector<double> scalars{1e-2, 0.1, 1e-30, 1e-3, 1.0, 0.8, 1, 1};
  const auto as = [](OperandSlot s, Access access, Holds holds, std::vector<double> values = {}) {
    s.access = access, s.holds = holds, s.values = std::move(values);
    return s;
  };
  const auto positive = [](const OperandSlot& s) {
    std::vector<double> out = whole_numbers(count(s.shape), 9, 5);
    for (double& x : out) x = 0.5 + x / 8;
    return out;
  };
  const auto task = [&](ComputeOp op) {
    ComputeTask t = task_of(op, "adafactor");
    t.scalars = scalars;
    return t;
  };
  const OperandSlot vector = in({60}), size = given(in({1}, Holds::sums), {30.0});
  const auto wide = [&](OperandSlot s, Access access) {
    return as(s, access, Holds::sums, access == Access::write ? std::vector<double>{} : positive(s));
  };
  check({task(ComputeOp::square_sum),
         {as(f.weight, Access::read, Holds::reals), as(f.weight, Access::read, Holds::sums), out({1}, Holds::sums),
          wide(f.rows, Access::write), wide(f.columns, Access::write), vector, in({60}, Holds::sums),
          out({1}, Holds::sums)}});
  check({task(ComputeOp::statistics),
         {as(f.weight, Access::read, Holds::reals), out({1}, Holds::sums), wide(f.rows, Access::read),
          wide(f.rows, Access::update), wide(f.columns, Access::read), wide(f.columns, Access::update), vector,
          out({1}, Holds::sums), wide(vector, Access::update)}});
  check({task(ComputeOp::optimizer),
         {as(f.weight, Access::read, Holds::reals), as(f.weight, Access::update, Holds::sums), size,
          given(size, {7000.0}), wide(f.rows, Access::read), wide(f.columns, Access::read), vector,
          inout({60}, Holds::sums), size, given(size, {3.0}), wide(vector, Access::read)}});
}
/// `s` as a part of a tensor of shape `all`: along each dimension these runs.
OperandSlot part(OperandSlot s, std::vector<std::int64_t> all, std::vector<Runs> global) {
  s.all = std::move(all), s.global = std::move(global);
  return s;
}

}  // namespace

TEST_CASE("Adafactor: statistics of rows and columns of what a rank holds") {
  ON_A_DEVICE();
  check_adafactor({in({70, 130}), in({70}), in({130})});
  // Some rows.
  check_adafactor({part(in({7, 13}), {28, 13}, {{{7, 7}}, {{0, 13}}}), part(in({7}), {28}, {{{7, 7}}}), in({13})});
  // Some columns.
  check_adafactor({part(in({7, 13}), {7, 26}, {{{0, 7}}, {{13, 13}}}), in({7}), part(in({13}), {26}, {{{13, 13}}})});
  // Two rows of padding.
  check_adafactor({part(in({8, 6}), {14, 6}, {{{8, 8}}, {{0, 6}}}), part(in({8}), {14}, {{{8, 8}}}), in({6})});
  // A convolution's.
  check_adafactor({in({6, 4, 3, 3}), in({6}), in({4, 3, 3})});
}

TEST_CASE("an update of many tensors takes scratch for one of them at a time") {
  ON_A_DEVICE();
  const std::vector<std::int64_t> shape{1024, 64};
  // Sums of columns are made of 64 rows each, in fp64.
  const double scratch = 1024.0 / 64 * 64 * 8, rounding = 512, operands = 2 * 4.0 * 1024 * 64 + 4 + 4 * 1024 + 4 * 64;
  const auto peak = [&](int tensors) {
    OperatorCase squares{task_of(ComputeOp::square_sum, "adafactor"), {}};
    squares.task.scalars = {1e-2, 0.1, 1e-30, 1e-3, 1.0, 0.8, 1, 1};
    for (int i = 0; i < tensors; ++i)
      for (const OperandSlot& s : {in(shape, Holds::sums), in(shape, Holds::sums), out({1}, Holds::sums),
                                   out({1024}, Holds::sums), out({64}, Holds::sums)})
        squares.slots.push_back(s);
    return on_device(squares, ElementType::real32).peak.value();
  };
  CHECK(peak(6) - peak(1) < 5 * (operands + 5 * rounding) + scratch);
}
