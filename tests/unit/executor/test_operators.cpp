#include <cmath>

#include "core/config/settings/choices.hpp"
#include "gpu_backend/cpu/blas.hpp"
#include "tests/support/catch.hpp"
#include "tests/unit/executor/operator_bench.hpp"

using namespace rehearse;
using namespace rehearse::test;

TEST_CASE("the BLAS computes what the plain loop says") {
  for (const bool ta : {false, true})
    for (const bool tb : {false, true})
      for (const double beta : {0.0, 1.0}) {
        const std::int64_t m = 5, n = 7, k = 3;
        const Array a = random_reals({m, k}, 1), b = random_reals({k, n}, 2);
        Array fast = random_reals({m, n}, 3), plain = fast;
        const MatrixView<double> left{a.real.data(), ta ? m : k, ta}, right{b.real.data(), tb ? k : n, tb};
        gemm<double>(m, n, k, 0.5, left, right, beta, fast.real.data(), n);
        reference_gemm<double>(m, n, k, 0.5, left, right, beta, plain.real.data(), n);
        for (std::size_t i = 0; i < fast.real.size(); ++i) CHECK(fast.real[i] == Approx(plain.real[i]));
      }
}

TEST_CASE("a product without terms is zero, whatever was there") {
  std::vector<double> c(6, NAN);
  gemm<double>(2, 3, 0, 1, {nullptr, 1}, {nullptr, 3}, 0, c.data(), 3);
  for (const double x : c) CHECK(x == 0);
}

TEST_CASE("only the rank that is told to adds the bias") {
  Array x = reals({1, 1, 2}), w = reals({3, 2}), bias = random_reals({3}, 1), y = reals({1, 1, 3});
  call(task_of(ComputeOp::matmul, "linear"), {in(x), in(w), out(y), in(bias)}, {}, {0});
  CHECK(y.real == std::vector<double>{0, 0, 0});
  call(task_of(ComputeOp::matmul, "linear"), {in(x), in(w), out(y), in(bias)}, {}, {1});
  CHECK(y.real == bias.real);
}

TEST_CASE("probabilities do not see later keys") {
  ComputeTask t = task_of(ComputeOp::softmax);
  t.causal = true;
  t.scalars = {1};
  Array s = random_reals({1, 1, 3, 3}, 1), p = s;
  call(t, {in(s), out(p)});
  CHECK(p.real[1] == 0);
  CHECK(p.real[0] == Approx(1));
  CHECK(p.real[3] + p.real[4] == Approx(1));
}

TEST_CASE("dropout keeps its share and scales it") {
  ComputeTask t = task_of(ComputeOp::dropout);
  t.probability = 0.25;
  t.random = "somewhere";
  Array x = reals({100, 10, 10}), mask = mask_of({100, 10, 10}), y = x;
  for (double& v : x.real) v = 3;
  call(t, {in(x), out(mask), out(y)});
  const double mean = std::accumulate(y.real.begin(), y.real.end(), 0.0) / 10000;
  CHECK(mean == Approx(3).margin(0.1));
  for (std::size_t i = 0; i < y.real.size(); ++i) CHECK(y.real[i] == (mask.bytes[i] != 0 ? Approx(4) : Approx(0)));
}

TEST_CASE("the loss of equal logits is the logarithm of the vocabulary") {
  Array logits = reals({1, 2, 8}), labels = integers_of({1, 2}, {3, 7}), max = reals({1, 2}), sums = reals({1, 2, 2}),
        loss = reals({1});
  call(task_of(ComputeOp::cross_entropy, "max"), {in(logits), out(max)});
  call(task_of(ComputeOp::cross_entropy, "sums"), {in(logits), in(labels), in(max), out(sums)});
  const Observations seen = call(task_of(ComputeOp::cross_entropy, "loss_of_sums"), {in(sums), out(loss)});
  CHECK(loss.real[0] == Approx(std::log(8)));
  CHECK(seen.tokens == 2);
  CHECK(seen.loss_sum == Approx(2 * std::log(8)));
}

TEST_CASE("the norm counts only what it is told to") {
  Array a = reals({2}), b = reals({1}), norm = reals({});
  a.real = {3, 4};
  b.real = {12};
  call(task_of(ComputeOp::square_sum, "l2"), {in(a), in(b), out(norm)}, {}, {1, 1});
  CHECK(norm.real[0] == Approx(169));
  call(task_of(ComputeOp::square_sum, "l2"), {in(a), in(b), out(norm)}, {}, {1, 0});
  CHECK(norm.real[0] == Approx(25));
}

TEST_CASE("clipping shortens long gradients and leaves short ones") {
  ComputeTask t = task_of(ComputeOp::scale, "clip");
  t.scalars = {1};
  Array g = reals({2}), norm = reals({});
  g.real = {3, 4};
  norm.real = {25};
  CHECK(call(t, {inout(g), in(norm)}).norm_squared == 25);
  CHECK(std::hypot(g.real[0], g.real[1]) == Approx(1).epsilon(1e-5));
  norm.real = {0.25};
  Array small = reals({1});
  small.real = {0.5};
  call(t, {inout(small), in(norm)});
  CHECK(small.real[0] == 0.5);
}

TEST_CASE("the first step of Adam moves every weight by the learning rate") {
  for (const Optimizer kind : {Optimizer::adam, Optimizer::adamw}) {
    ComputeTask t = task_of(ComputeOp::optimizer, kind == Optimizer::adam ? "adam" : "adamw");
    t.scalars = {0.01, 0.0, 0.9, 0.999, 1e-8};
    Array g = random_reals({4, 4}, 1), w = random_reals({4, 4}, 2), m = reals({4, 4}), v = reals({4, 4});
    const Array before = w;
    call(t, {in(g), inout(w), inout(m), inout(v)});
    for (std::size_t i = 0; i < 16; ++i)
      CHECK(before.real[i] - w.real[i] == Approx(g.real[i] > 0 ? 0.01 : -0.01).epsilon(1e-4));
  }
}

TEST_CASE("decay pulls matrices, not vectors; AdamW apart from the gradient") {
  ComputeTask t = task_of(ComputeOp::optimizer, "adamw");
  t.scalars = {0.1, 0.5, 0.9, 0.999, 1e-8};
  for (const bool matrix : {true, false}) {
    const std::vector<std::int64_t> shape = matrix ? std::vector<std::int64_t>{2, 2} : std::vector<std::int64_t>{4};
    Array g = reals(shape), w = reals(shape), m = reals(shape), v = reals(shape);
    w.real.assign(4, 1.0);
    call(t, {in(g), inout(w), inout(m), inout(v)});
    CHECK(w.real[0] == Approx(matrix ? 1 - 0.1 * 0.5 : 1.0));
  }
}

TEST_CASE("momentum adds up constant gradients") {
  ComputeTask t = task_of(ComputeOp::optimizer, "sgd");
  t.scalars = {1, 0, 0.5};
  Array g = reals({1}), w = reals({1}), m = reals({1});
  g.real = {1};
  call(t, {in(g), inout(w), inout(m)});
  call(t, {in(g), inout(w), inout(m)});
  CHECK(w.real[0] == Approx(-1 - 1.5));
}

TEST_CASE("random numbers are normal, and functions of what they are for") {
  const RandomKey key = RandomKey(7).with("a");
  double sum = 0, squares = 0;
  for (std::uint64_t i = 0; i < 20000; ++i) {
    sum += key.normal(i);
    squares += key.normal(i) * key.normal(i);
  }
  CHECK(sum / 20000 == Approx(0).margin(0.03));
  CHECK(squares / 20000 == Approx(1).margin(0.03));
  CHECK(key.bits(5) == RandomKey(7).with("a").bits(5));
  CHECK(key.bits(5) != RandomKey(7).with("b").bits(5));
  CHECK(key.bits(5) != RandomKey(8).with("a").bits(5));
}
