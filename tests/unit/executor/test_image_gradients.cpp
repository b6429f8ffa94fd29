// Operators over images: gradients are derivatives, and what each computes by definition.

#include "core/base/index.hpp"
#include "tests/unit/executor/gradient_check.hpp"

using namespace rehearse;
using namespace rehearse::test;

namespace {

/// kernel, stride, padding, dilation of a side
struct Side {
  double kernel, stride, padding, dilation;
};

ComputeTask windowed(ComputeOp op, const char* variant, const std::vector<Side>& sides, double groups = 1,
                     bool transposed = false) {
  ComputeTask t = task_of(op, variant);
  for (const Side& s : sides) t.scalars.insert(t.scalars.end(), {s.kernel, s.stride, s.padding, s.dilation});
  if (op == ComputeOp::convolution) t.scalars.insert(t.scalars.end(), {groups, transposed ? 1.0 : 0.0});
  return t;
}

Case convolution(const char* name, const ComputeTask& task, std::vector<std::int64_t> x, std::vector<std::int64_t> w,
                 const std::vector<std::int64_t>& y) {
  const auto forward = [task, y](Arrays& a) {
    Array out_ = reals(y);
    call(task, {in(a[0]), in(a[1]), out(out_)});
    return out_;
  };
  const auto backward = [task](Arrays& a, const Array& g) {
    Array dy = g, dx = reals(a[0].shape), dw = reals(a[1].shape);
    ComputeTask grad = task;
    grad.op = ComputeOp::convolution_grad;
    grad.variant = "input";
    call(grad, {in(dy), in(a[1]), out(dx)});
    grad.variant = "weight";
    call(grad, {in(a[0]), in(dy), inout(dw)});
    return Arrays{dx, dw};
  };
  return {name, {random_reals(std::move(x), 1), random_reals(std::move(w), 2)}, forward, backward};
}

Case bias() {
  const auto forward = [](Arrays& a) {
    Array y = a[0];
    call(task_of(ComputeOp::add, "bias"), {in(a[1]), inout(y)});
    return y;
  };
  const auto backward = [](Arrays&, const Array& g) {
    Array dy = g, db = reals({3});
    call(task_of(ComputeOp::add, "channel_sum"), {in(dy), inout(db)});
    return Arrays{dy, db};
  };
  return {"bias of channels", {random_reals({2, 3, 2, 2}, 1), random_reals({3}, 2)}, forward, backward};
}

Case pool(bool average, const std::vector<Side>& sides, std::vector<std::int64_t> x,
          const std::vector<std::int64_t>& y) {
  const ComputeTask task = windowed(ComputeOp::pool, average ? "average" : "max", sides);
  const auto forward = [=](Arrays& a) {
    Array out_ = reals(y), where = integers_of(y, std::vector<std::int64_t>(out_.size()));
    average ? call(task, {in(a[0]), out(out_)}) : call(task, {in(a[0]), out(where), out(out_)});
    return out_;
  };
  const auto backward = [=](Arrays& a, const Array& g) {
    Array dy = g, made = reals(y), dx = reals(a[0].shape),
          where = integers_of(y, std::vector<std::int64_t>(made.size()));
    ComputeTask grad = task;
    grad.op = ComputeOp::pool_grad;
    if (average) return call(grad, {in(dy), out(dx)}), Arrays{dx};
    call(task, {in(a[0]), out(where), out(made)});
    call(grad, {in(dy), in(where), out(dx)});
    return Arrays{dx};
  };
  return {average ? "average pool" : "maximum pool", {random_reals(std::move(x), 1)}, forward, backward};
}

Case global_pool() {
  const auto forward = [](Arrays& a) {
    Array y = reals({2, 1, 3});
    call(task_of(ComputeOp::pool, "global"), {in(a[0]), out(y)});
    return y;
  };
  const auto backward = [](Arrays& a, const Array& g) {
    Array dy = g, dx = reals(a[0].shape);
    call(task_of(ComputeOp::pool_grad, "global"), {in(dy), out(dx)});
    return Arrays{dx};
  };
  return {"global pool", {random_reals({2, 3, 2, 4}, 1)}, forward, backward};
}

Case batch_norm() {
  const auto task = [](ComputeOp op, const char* variant) {
    ComputeTask t = task_of(op, variant);
    t.epsilon = 1e-3;
    return t;
  };
  const auto forward = [task](Arrays& a) {
    Array sums = reals({4}), y = reals(a[0].shape);
    call(task(ComputeOp::statistics, "forward"), {in(a[0]), out(sums)});
    call(task(ComputeOp::norm, "batch_norm"), {in(a[0]), in(sums), in(a[1]), in(a[2]), out(y)});
    return y;
  };
  const auto backward = [task](Arrays& a, const Array& g) {
    Array dy = g, sums = reals({4}), totals = sums, dx = reals(a[0].shape), dw = reals({2}), db = dw;
    call(task(ComputeOp::statistics, "forward"), {in(a[0]), out(sums)});
    call(task(ComputeOp::statistics, "backward"), {in(a[0]), in(dy), in(sums), out(totals), inout(dw), inout(db)});
    call(task(ComputeOp::norm_grad, "batch_norm"), {in(a[0]), in(dy), in(sums), in(totals), in(a[1]), out(dx)});
    return Arrays{dx, dw, db};
  };
  return {"batch norm", {random_reals({2, 2, 2, 3}, 1), random_reals({2}, 2), random_reals({2}, 3)}, forward, backward};
}

Case relu(bool masked, double slope = 0) {
  const auto task = [slope](ComputeOp op) {
    ComputeTask t = task_of(op, slope > 0 ? "leaky_relu" : "relu");
    if (slope > 0) t.scalars = {slope};
    return t;
  };
  const auto forward = [task](Arrays& a) {
    Array y = reals(a[0].shape);
    call(task(ComputeOp::activation), {in(a[0]), out(y)});
    return y;
  };
  const auto backward = [task, masked](Arrays& a, const Array& g) {
    Array dy = g, y = reals(a[0].shape), dx = y, mask = mask_of(a[0].shape);
    call(task(ComputeOp::activation), {in(a[0]), out(mask), out(y)});
    call(task(ComputeOp::activation_grad), {in(dy), in(masked ? mask : y), out(dx)});
    return Arrays{dx};
  };
  return {"relu", {random_reals({2, 1, 3, 4}, 1)}, forward, backward};
}

Case tanh_of_images() {
  const auto forward = [](Arrays& a) {
    Array y = reals(a[0].shape);
    call(task_of(ComputeOp::activation, "tanh"), {in(a[0]), out(y)});
    return y;
  };
  const auto backward = [](Arrays& a, const Array& g) {
    Array dy = g, dx = reals(a[0].shape);
    call(task_of(ComputeOp::activation_grad, "tanh"), {in(dy), in(a[0]), out(dx)});
    return Arrays{dx};
  };
  return {"tanh", {random_reals({2, 1, 3, 4}, 1)}, forward, backward};
}

/// `form` 0 logistic, 1 hinge, 2 the generator's half of it.
Case adversarial_loss(double sign, double form) {
  const auto task = [sign, form](ComputeOp op) {
    ComputeTask t = task_of(op, "adversarial");
    t.scalars = {sign, form};
    return t;
  };
  const auto forward = [task](Arrays& a) {
    Array loss = reals({1});
    call(task(ComputeOp::cross_entropy), {in(a[0]), out(loss)});
    return loss;
  };
  const auto backward = [task](Arrays& a, const Array& g) {
    Array dx = reals(a[0].shape);
    call(task(ComputeOp::cross_entropy_grad), {in(a[0]), out(dx)}, {8});
    for (double& x : dx.real) x *= g.real[0];
    return Arrays{dx};
  };
  return {"adversarial loss", {random_reals({2, 1, 2, 2}, 1)}, forward, backward};
}

Case gate() {
  const auto forward = [](Arrays& a) {
    Array y = reals(a[0].shape);
    call(task_of(ComputeOp::activation, "gate"), {in(a[0]), in(a[1]), out(y)});
    return y;
  };
  const auto backward = [](Arrays& a, const Array& g) {
    Array dy = g, df = reals(a[0].shape), dg = df;
    call(task_of(ComputeOp::activation_grad, "gate"), {in(dy), in(a[0]), in(a[1]), out(df), out(dg)});
    return Arrays{df, dg};
  };
  return {"gate", {random_reals({2, 2, 3, 2}, 1), random_reals({2, 2, 3, 2}, 2)}, forward, backward};
}

Case concat() {
  const auto forward = [](Arrays& a) {
    Array y = reals({2, 3, 2, 2});
    call(task_of(ComputeOp::copy, "concat"), {in(a[0]), in(a[1]), out(y)});
    return y;
  };
  const auto backward = [](Arrays& a, const Array& g) {
    Array dy = g, first = reals(a[0].shape), second = reals(a[1].shape);
    ComputeTask split = task_of(ComputeOp::copy, "split");
    split.scalars = {0, 1};
    call(split, {in(dy), out(first), out(second)});
    return Arrays{first, second};
  };
  return {"concat", {random_reals({2, 1, 2, 2}, 1), random_reals({2, 2, 2, 2}, 2)}, forward, backward};
}

Case upsample(const char* variant) {
  const auto forward = [variant](Arrays& a) {
    Array y = reals({1, 2, 6, 4});
    call(task_of(ComputeOp::copy, variant), {in(a[0]), out(y)});
    return y;
  };
  const auto backward = [variant](Arrays& a, const Array& g) {
    Array dy = g, dx = reals(a[0].shape);
    call(task_of(ComputeOp::copy, variant), {in(dy), out(dx)});
    return Arrays{dx};
  };
  return {variant, {random_reals({1, 2, 3, 2}, 1)}, forward, backward};
}

Case pixel_loss(std::int64_t classes) {
  const auto labels = [classes] { return integers_of({2, 1, 2}, {0, classes > 2 ? 2 : 1, 1, 0}); };
  const auto forward = [labels](Arrays& a) {
    Array l = labels(), loss = reals({1});
    call(task_of(ComputeOp::cross_entropy, "pixels"), {in(a[0]), in(l), out(loss)});
    return loss;
  };
  const auto backward = [labels](Arrays& a, const Array& g) {
    Array l = labels(), dx = reals(a[0].shape);
    call(task_of(ComputeOp::cross_entropy_grad, "pixels"), {in(a[0]), in(l), out(dx)}, {4});
    for (double& x : dx.real) x *= g.real[0];
    return Arrays{dx};
  };
  return {"loss of pixels", {random_reals({2, classes, 1, 2}, 1)}, forward, backward};
}

}  // namespace

TEST_CASE("gradients of operators over images are derivatives") {
  const Side plain{3, 1, 1, 1};
  check(convolution("strides, dilation and groups",
                    windowed(ComputeOp::convolution, "", {{3, 2, 1, 1}, {2, 1, 2, 2}}, 2), {2, 4, 5, 4}, {6, 2, 3, 2},
                    {2, 6, 3, 6}));
  check(convolution("a volume", windowed(ComputeOp::convolution, "", {{2, 1, 0, 1}, plain, plain}), {1, 2, 3, 3, 2},
                    {2, 2, 2, 3, 3}, {1, 2, 2, 3, 2}));
  check(convolution("transposed", windowed(ComputeOp::convolution, "", {{3, 2, 1, 1}, {2, 2, 0, 1}}, 1, true),
                    {2, 3, 3, 2}, {3, 2, 3, 2}, {2, 2, 5, 4}));
  check(bias());
  check(pool(false, {{3, 2, 1, 1}, {2, 1, 0, 1}}, {2, 2, 5, 4}, {2, 2, 3, 3}));
  check(pool(true, {{3, 2, 1, 1}, {2, 2, 0, 1}}, {2, 2, 5, 4}, {2, 2, 3, 2}));
  check(global_pool());
  check(batch_norm());
  check(relu(false));
  check(relu(true));
  check(relu(false, 0.2));
  check(relu(true, 0.2));
  check(tanh_of_images());
  for (const double sign : {1.0, -1.0})
    for (const double form : {0.0, 1.0, 2.0}) check(adversarial_loss(sign, form));
  check(gate());
  check(concat());
  check(upsample("upsample_nearest"));
  check(upsample("upsample_bilinear"));
  check(pixel_loss(4));
  check(pixel_loss(1));
}

TEST_CASE("a score of nothing costs log 2, or the whole margin") {
  Array scores = reals({2, 1, 1, 1}), loss = reals({1});
  ComputeTask t = task_of(ComputeOp::cross_entropy, "adversarial");
  for (const double sign : {1.0, -1.0}) {
    t.scalars = {sign, 0};
    call(t, {in(scores), out(loss)});
    CHECK(loss.real[0] == Approx(std::log(2.0)));
    t.scalars = {sign, 1};
    call(t, {in(scores), out(loss)});
    CHECK(loss.real[0] == 1.0);
  }
}

TEST_CASE("a convolution is the sum over its window, outside the image zero") {
  Array x = random_reals({1, 1, 3, 3}, 1), w = random_reals({1, 1, 3, 3}, 2), y = reals({1, 1, 3, 3});
  call(windowed(ComputeOp::convolution, "", {{3, 1, 1, 1}, {3, 1, 1, 1}}), {in(x), in(w), out(y)});
  for (int r = 0; r < 3; ++r)
    for (int c = 0; c < 3; ++c) {
      double sum = 0;
      for (int i = 0; i < 3; ++i)
        for (int j = 0; j < 3; ++j)
          if (r + i >= 1 && r + i <= 3 && c + j >= 1 && c + j <= 3)
            sum += nth(w.real, 3 * i + j) * nth(x.real, 3 * (r + i - 1) + c + j - 1);
      CHECK(nth(y.real, 3 * r + c) == Approx(sum));
    }
}

TEST_CASE("a mean over a window at the edge is over what is there") {
  Array x = reals({1, 1, 2, 2}), y = reals({1, 1, 2, 2});
  x.real = {1, 2, 3, 4};
  call(windowed(ComputeOp::pool, "average", {{3, 1, 1, 1}, {3, 1, 1, 1}}), {in(x), out(y)});
  for (const double v : y.real) CHECK(v == Approx(2.5));
}

TEST_CASE("batch norm gives every channel mean 0 and variance 1") {
  Array x = random_reals({4, 2, 3, 3}, 1), sums = reals({4}), one = reals({2}), zero = one, y = x;
  one.real = {1, 1};
  call(task_of(ComputeOp::statistics, "forward"), {in(x), out(sums)});
  call(task_of(ComputeOp::norm, "batch_norm"), {in(x), in(sums), in(one), in(zero), out(y)});
  for (std::size_t ch = 0; ch < 2; ++ch) {
    double mean = 0, square = 0;
    for (std::size_t b = 0; b < 4; ++b)
      for (std::size_t p = 0; p < 9; ++p) {
        const double v = y.real[(b * 2 + ch) * 9 + p];
        mean += v / 36;
        square += v * v / 36;
      }
    CHECK(mean == Approx(0).margin(1e-12));
    CHECK(square == Approx(1));
  }
}
