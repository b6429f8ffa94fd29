// Operators of experts: gradients are derivatives, and rows go where the choice says.

#include "tests/unit/executor/gradient_check.hpp"

using namespace rehearse;
using namespace rehearse::test;

namespace {

constexpr std::int64_t kTokens = 3, kExperts = 4, kChosen = 2;

/// Two replicas of as many tokens, and two microbatches.
const std::vector<std::int64_t> kRouting{kTokens, kExperts, kChosen, 2, 2, kTokens, 2, 1};

ComputeTask routing(ComputeOp op, bool sigmoid, bool normalised, double aux, double z) {
  ComputeTask t = task_of(op, sigmoid ? "sigmoid" : "softmax");
  t.scalars = {1.5, aux, z, normalised ? 1.0 : 0.0};
  return t;
}

Case route(bool sigmoid, bool normalised) {
  const auto forward = [=](Arrays& a) {
    Array weights = reals({1, kTokens, kChosen}),
          choice = integers_of({1, kTokens, kChosen}, std::vector<std::int64_t>(6));
    call(routing(ComputeOp::route, sigmoid, normalised, 0, 0), {in(a[0]), out(weights), out(choice)}, kRouting);
    return weights;
  };
  const auto backward = [=](Arrays& a, const Array& g) {
    Array dy = g, weights = g, choice = integers_of(g.shape, std::vector<std::int64_t>(6)), ds = reals(a[0].shape);
    call(routing(ComputeOp::route, sigmoid, normalised, 0, 0), {in(a[0]), out(weights), out(choice)}, kRouting);
    call(routing(ComputeOp::route_grad, sigmoid, normalised, 0, 0), {in(dy), in(a[0]), in(choice), out(ds)}, kRouting);
    return Arrays{ds};
  };
  return {"route", {random_reals({1, kTokens, kExperts}, 1)}, forward, backward};
}

/// The losses that keep experts even, as they are defined; which experts are chosen is no function of the scores here.
Case losses(bool sigmoid) {
  constexpr double kAux = 0.3, kZ = 0.2;
  const auto routed = [=](Arrays& a, Array& choice, Array& load) {
    Array weights = reals({1, kTokens, kChosen});
    call(routing(ComputeOp::route, sigmoid, true, kAux, kZ), {in(a[0]), out(weights), out(choice), out(load)},
         kRouting);
  };
  const auto forward = [=](Arrays& a) {
    Array choice = integers_of({1, kTokens, kChosen}, std::vector<std::int64_t>(6)), load = reals({kExperts}),
          loss = reals({1});
    routed(a, choice, load);
    for (std::size_t t = 0; t < kTokens; ++t) {
      const double* s = a[0].real.data() + t * kExperts;
      double sum = 0, all = 0;
      for (std::size_t e = 0; e < kExperts; ++e) {
        sum += std::exp(s[e]);
        all += sigmoid ? 1 / (1 + std::exp(-s[e])) : std::exp(s[e]);
      }
      for (std::size_t e = 0; e < kExperts; ++e)
        loss.real[0] +=
            kAux * kExperts * load.real[e] * (sigmoid ? 1 / (1 + std::exp(-s[e])) : std::exp(s[e])) / all / kTokens / 2;
      loss.real[0] += kZ * std::log(sum) * std::log(sum) / kTokens / 2;
    }
    return loss;
  };
  const auto backward = [=](Arrays& a, const Array& g) {
    Array choice = integers_of({1, kTokens, kChosen}, std::vector<std::int64_t>(6)), load = reals({kExperts}),
          none = reals({1, kTokens, kChosen}), ds = reals(a[0].shape);
    routed(a, choice, load);
    call(routing(ComputeOp::route_grad, sigmoid, true, kAux, kZ), {in(none), in(a[0]), in(choice), out(ds), in(load)},
         kRouting);
    for (double& x : ds.real) x *= g.real[0];
    return Arrays{ds};
  };
  return {"losses that keep experts even", {random_reals({1, kTokens, kExperts}, 5)}, forward, backward};
}

Array some_choice() { return integers_of({1, 3, 2}, {2, 0, 2, 3, 0, 2}); }

ComputeTask rows_task(ComputeOp op, const char* variant, double capacity, bool padded) {
  ComputeTask t = task_of(op, variant);
  t.scalars = {4, capacity, padded ? 1.0 : 0.0};
  return t;
}

/// Dropless, or at most two rows an expert, in buffers of just that.
Case permute(double capacity) {
  const bool padded = capacity > 0;
  const std::int64_t n = padded ? 8 : 6;
  const auto forward = [=](Arrays& a) {
    Array choice = some_choice(), rows = reals({n, 2}), weights = reals({n});
    call(rows_task(ComputeOp::permute, "permute", capacity, padded),
         {in(a[0]), in(a[1]), out(rows), out(weights), in(choice)});
    rows.shape = {3 * n};
    rows.real.insert(rows.real.end(), weights.real.begin(), weights.real.end());
    return rows;
  };
  const auto backward = [=](Arrays& a, const Array& g) {
    Array choice = some_choice(), rows = reals({n, 2}), weights = reals({n}), dx = reals(a[0].shape),
          dw = reals(a[1].shape);
    std::copy_n(g.real.begin(), 2 * n, rows.real.begin());
    std::copy_n(g.real.begin() + 2 * n, n, weights.real.begin());
    call(rows_task(ComputeOp::permute_grad, "permute_grad", capacity, padded),
         {in(rows), in(weights), out(dx), out(dw), in(choice)});
    return Arrays{dx, dw};
  };
  return {"tokens to rows", {random_reals({1, 3, 2}, 1), random_reals({1, 3, 2}, 2)}, forward, backward};
}

Case unpermute(double capacity) {
  const bool padded = capacity > 0;
  const std::int64_t n = padded ? 8 : 6;
  const auto forward = [=](Arrays& a) {
    Array choice = some_choice(), y = reals({1, 3, 2});
    call(rows_task(ComputeOp::unpermute, "unpermute", capacity, padded), {in(a[0]), out(y), in(choice)});
    return y;
  };
  const auto backward = [=](Arrays&, const Array& g) {
    Array choice = some_choice(), dy = g, rows = reals({n, 2});
    call(rows_task(ComputeOp::permute_grad, "unpermute_grad", capacity, padded), {in(dy), out(rows), in(choice)});
    return Arrays{rows};
  };
  return {"rows to tokens", {random_reals({n, 2}, 1)}, forward, backward};
}

/// Two experts, two peers: 1 and 2 rows from the first, 0 and 3 from the second.
Array counts() { return integers_of({4}, {1, 2, 0, 3}); }

Case grouped() {
  const auto task = [](const char* variant) {
    ComputeTask t = task_of(ComputeOp::grouped_matmul, variant);
    t.scalars = {1};
    t.group_sizes = 0;
    return t;
  };
  const auto forward = [task](Arrays& a) {
    Array y = reals({6, 2}), z = reals({6, 1}), n = counts();
    call(task("linear"), {in(a[0]), in(a[1]), out(y), out(z), in(n)});
    y.shape = {18};
    y.real.insert(y.real.end(), z.real.begin(), z.real.end());
    return y;
  };
  const auto backward = [task](Arrays& a, const Array& g) {
    Array dy = reals({6, 2}), dz = reals({6, 1}), n = counts(), dx = reals(a[0].shape), dw = reals(a[1].shape);
    std::copy_n(g.real.begin(), 12, dy.real.begin());
    std::copy_n(g.real.begin() + 12, 6, dz.real.begin());
    call(task("linear_input_grad"), {in(a[1]), out(dx), in(dy), in(dz), in(n)});
    call(task("linear_weight_grad"), {in(a[0]), inout(dw), in(dy), in(dz), in(n)});
    return Arrays{dx, dw};
  };
  return {"grouped product", {random_reals({6, 4}, 1), random_reals({2, 3, 4}, 2)}, forward, backward};
}

/// The bias of each row's expert, once plain over two results, once times row weights.
Case biased(bool with_weights) {
  const auto task = [=](const char* what) {
    ComputeTask t = task_of(ComputeOp::add, std::string(with_weights ? "weighted_expert_bias" : "expert_bias") + what);
    t.scalars = {1};
    t.group_sizes = 0;
    return t;
  };
  const auto forward = [=](Arrays& a) {
    Array y = a[2], z = reals({6, 1}), n = counts();
    if (with_weights)
      call(task(""), {in(a[0]), in(a[1]), inout(y), in(n)});
    else
      call(task(""), {in(a[0]), inout(y), inout(z), in(n)});
    y.shape = {static_cast<std::int64_t>(y.real.size() + (with_weights ? 0 : z.real.size()))};
    if (!with_weights) y.real.insert(y.real.end(), z.real.begin(), z.real.end());
    return y;
  };
  const auto backward = [=](Arrays& a, const Array& g) {
    Array dy = reals(a[2].shape), dz = reals({6, 1}), n = counts(), db = reals(a[0].shape), dw = reals(a[1].shape);
    std::copy_n(g.real.begin(), dy.real.size(), dy.real.begin());
    if (with_weights)
      call(task("_grad"), {inout(db), in(a[0]), in(a[1]), out(dw), in(dy), in(n)});
    else {
      std::copy_n(g.real.begin() + static_cast<std::ptrdiff_t>(dy.real.size()), 6, dz.real.begin());
      call(task("_grad"), {inout(db), in(dy), in(dz), in(n)});
    }
    return Arrays{db, dw, dy};
  };
  const std::int64_t out = with_weights ? 3 : 2;
  return {"biases of experts",
          {random_reals({2, 3}, 1), random_reals({6}, 2), random_reals({6, out}, 3)},
          forward,
          backward};
}

/// Some gates and ups are beyond the bound, either way.
Case clamped() {
  const auto task = [](ComputeOp op) {
    ComputeTask t = task_of(op, "weighted_clamped_silu_mul");
    t.scalars = {0.4};
    return t;
  };
  const auto forward = [task](Arrays& a) {
    Array y = reals({3, 4});
    call(task(ComputeOp::activation), {in(a[0]), in(a[1]), in(a[2]), out(y)});
    return y;
  };
  const auto backward = [task](Arrays& a, const Array& g) {
    Array dy = g, dgate = reals({3, 4}), dup = dgate, dw = reals({3});
    call(task(ComputeOp::activation_grad), {in(dy), in(a[0]), in(a[1]), in(a[2]), out(dgate), out(dup), out(dw)});
    return Arrays{dgate, dup, dw};
  };
  return {"GPT-OSS's gated activation",
          {random_reals({3, 4}, 1), random_reals({3, 4}, 2), random_reals({3}, 3)},
          forward,
          backward};
}

Case weighted() {
  const auto forward = [](Arrays& a) {
    Array y = reals({3, 4});
    call(task_of(ComputeOp::activation, "weighted_silu_mul"), {in(a[0]), in(a[1]), in(a[2]), out(y)});
    return y;
  };
  const auto backward = [](Arrays& a, const Array& g) {
    Array dy = g, dgate = reals({3, 4}), dup = dgate, dw = reals({3});
    call(task_of(ComputeOp::activation_grad, "weighted_silu_mul"),
         {in(dy), in(a[0]), in(a[1]), in(a[2]), out(dgate), out(dup), out(dw)});
    return Arrays{dgate, dup, dw};
  };
  return {"weighted activation",
          {random_reals({3, 4}, 1), random_reals({3, 4}, 2), random_reals({3}, 3)},
          forward,
          backward};
}

Case append() {
  const auto forward = [](Arrays& a) {
    Array y = reals({1, 2, 3, 5});
    call(task_of(ComputeOp::copy, "append"), {in(a[0]), in(a[1]), out(y)});
    return y;
  };
  const auto backward = [](Arrays& a, const Array& g) {
    Array dy = g, dx = reals(a[0].shape), dv = reals(a[1].shape);
    call(task_of(ComputeOp::add, "append_grad"), {in(dy), out(dx), out(dv)});
    return Arrays{dx, dv};
  };
  return {"append", {random_reals({1, 2, 3, 3}, 1), random_reals({1, 2, 2}, 2)}, forward, backward};
}

}  // namespace

TEST_CASE("gradients of experts' operators are derivatives") {
  for (const bool sigmoid : {false, true}) {
    check(route(sigmoid, false));
    check(route(sigmoid, true));
    check(losses(sigmoid));
  }
  for (const double capacity : {0.0, 2.0}) {
    check(permute(capacity));
    check(unpermute(capacity));
  }
  check(grouped());
  check(weighted());
  check(clamped());
  check(biased(false));
  check(biased(true));
  check(append());
}

TEST_CASE("rows stand by expert, then by token; what is beyond the capacity is left out") {
  Array x = reals({1, 3, 1}), weights = reals({1, 3, 2}), choice = some_choice(), rows = reals({6, 1}), w = reals({6});
  x.real = {10, 20, 30};
  call(rows_task(ComputeOp::permute, "permute", 0, false), {in(x), in(weights), out(rows), out(w), in(choice)});
  CHECK(rows.real == std::vector<double>{10, 30, 10, 20, 30, 20});
  Array few = reals({4, 1}), few_weights = reals({4});
  call(rows_task(ComputeOp::permute, "permute", 1, false),
       {in(x), in(weights), out(few), out(few_weights), in(choice)});
  CHECK(std::vector<double>(few.real.begin(), few.real.begin() + 3) == std::vector<double>{10, 10, 20});
  Array n = integers_of({4}, {0, 0, 0, 0});
  ComputeTask histogram = task_of(ComputeOp::histogram, "per_expert");
  histogram.scalars = {0};
  call(histogram, {in(choice), out(n)});
  CHECK(n.integers == std::vector<std::int64_t>{2, 0, 3, 1});
  histogram.scalars = {1};
  call(histogram, {in(choice), out(n)});
  CHECK(n.integers == std::vector<std::int64_t>{1, 0, 1, 1});
}

TEST_CASE("rows of all peers are brought together by expert, and back") {
  for (const ComputeOp op : {ComputeOp::permute, ComputeOp::permute_grad}) {
    Array from = reals({6, 1}), to = from, back = from, n = counts();
    from.real = {0, 1, 2, 3, 4, 5};  // Peer 0: expert 0 one, expert 1 two; peer 1: expert 1 three.
    ComputeTask sort = task_of(op, "sort");
    sort.scalars = {2, 2, 0};
    sort.group_sizes = 0;
    call(sort, {in(from), out(to), in(n)});
    CHECK(to.real == std::vector<double>{0, 1, 2, 3, 4, 5});
    n.integers = {1, 2, 2, 1};
    call(sort, {in(from), out(to), in(n)});
    CHECK(to.real == std::vector<double>{0, 3, 4, 1, 2, 5});
    sort.variant = "unsort";
    call(sort, {in(to), out(back), in(n)});
    CHECK(back.real == from.real);
  }
}

TEST_CASE("a token's experts lie in the groups it may visit") {
  // The best two single experts are 0 and 3, but the better group is the second.
  Array scores = reals({1, 1, 4}), weights = reals({1, 1, 2}), choice = integers_of({1, 1, 2}, {9, 9});
  scores.real = {3, -5, 2.5, 2.9};
  ComputeTask t = routing(ComputeOp::route, true, true, 0, 0);
  call(t, {in(scores), out(weights), out(choice)}, {1, 4, 2, 2, 2, 1, 1, 1});
  CHECK(choice.integers == std::vector<std::int64_t>{0, 3});
  call(t, {in(scores), out(weights), out(choice)}, {1, 4, 2, 2, 1, 1, 1, 1});
  CHECK(choice.integers == std::vector<std::int64_t>{3, 2});
  CHECK(weights.real[0] + weights.real[1] == Approx(1.5));
}
