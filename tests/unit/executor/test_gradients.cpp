// Backward operators compute derivatives: of the sum of outputs times fixed weights, against central differences.

#include <set>

#include "tests/unit/executor/gradient_check.hpp"

using namespace rehearse;
using namespace rehearse::test;

namespace {

Case linear() {
  const auto forward = [](Arrays& a) {
    Array y = reals({2, 3, 4}), z = reals({2, 3, 2});
    call(task_of(ComputeOp::matmul, "linear"), {in(a[0]), in(a[1]), out(y), out(z), in(a[2])}, {}, {1});
    y.shape = {36};
    y.real.insert(y.real.end(), z.real.begin(), z.real.end());
    return y;
  };
  const auto backward = [](Arrays& a, const Array& dy) {
    Array first = reals({2, 3, 4}), second = reals({2, 3, 2}), dx = reals({2, 3, 5}), dw = reals({6, 5}),
          db = reals({6});
    std::copy_n(dy.real.begin(), 24, first.real.begin());
    std::copy_n(dy.real.begin() + 24, 12, second.real.begin());
    ComputeTask weight = task_of(ComputeOp::matmul, "linear_weight_grad"), sum = task_of(ComputeOp::add, "column_sum");
    weight.accumulates = sum.accumulates = true;
    call(task_of(ComputeOp::matmul, "linear_input_grad"), {in(a[1]), out(dx), in(first), in(second)});
    call(weight, {in(a[0]), inout(dw), in(first), in(second)});
    call(sum, {in(first), in(second), inout(db)});
    return Arrays{dx, dw, db};
  };
  return {"linear with two outputs and bias",
          {random_reals({2, 3, 5}, 1), random_reals({6, 5}, 2), random_reals({6}, 3)},
          forward,
          backward};
}

Case norm(const char* variant, bool biased) {
  ComputeTask t = task_of(ComputeOp::norm, variant);
  t.epsilon = 1e-5;
  const auto forward = [t, biased](Arrays& a) {
    Array y = reals({2, 2, 6});
    biased ? call(t, {in(a[0]), in(a[1]), in(a[2]), out(y)}) : call(t, {in(a[0]), in(a[1]), out(y)});
    return y;
  };
  const auto backward = [t, biased](Arrays& a, const Array& g) {
    Array dy = g, dx = reals({2, 2, 6}), dw = reals({6}), db = reals({6});
    ComputeTask grad = t;
    grad.op = ComputeOp::norm_grad;
    call(grad, {in(a[0]), in(dy), in(a[1]), out(dx)});
    grad.accumulates = true;
    if (!biased) return call(grad, {in(a[0]), in(dy), inout(dw)}), Arrays{dx, dw};
    call(grad, {in(a[0]), in(dy), inout(dw), inout(db)});
    return Arrays{dx, dw, db};
  };
  Arrays inputs{random_reals({2, 2, 6}, 1), random_reals({6}, 2)};
  if (biased) inputs.push_back(random_reals({6}, 3));
  return {variant, inputs, forward, backward};
}

Case curve(const std::string& variant) {
  const auto forward = [variant](Arrays& a) {
    Array y = reals({2, 2, 5});
    call(task_of(ComputeOp::activation, variant), {in(a[0]), out(y)});
    return y;
  };
  const auto backward = [variant](Arrays& a, const Array& g) {
    Array dy = g, dx = reals({2, 2, 5});
    call(task_of(ComputeOp::activation_grad, variant), {in(dy), in(a[0]), out(dx)});
    return Arrays{dx};
  };
  return {variant, {random_reals({2, 2, 5}, 1)}, forward, backward};
}

/// Functions of one number, by what their entries say.
std::vector<std::string> curves() {
  const std::string grad = "activation_grad.";
  std::vector<std::string> out;
  for (const auto& entry : cpu_operators().entries()) {
    const auto& says = entry.parameters;
    const bool curve = says.size() == 3 && says[0].name == "dy" && says[1].name == "x" && says[2].name == "dx";
    if (curve && entry.name.starts_with(grad)) out.push_back(entry.name.substr(grad.size()));
  }
  return out;
}

Case silu_mul() {
  const auto forward = [](Arrays& a) {
    Array y = reals({2, 2, 5});
    call(task_of(ComputeOp::activation, "silu_mul"), {in(a[0]), in(a[1]), out(y)});
    return y;
  };
  const auto backward = [](Arrays& a, const Array& g) {
    Array dy = g, dgate = reals({2, 2, 5}), dup = reals({2, 2, 5});
    call(task_of(ComputeOp::activation_grad, "silu_mul"), {in(dy), in(a[0]), out(dgate), in(a[1]), out(dup)});
    return Arrays{dgate, dup};
  };
  return {"silu_mul", {random_reals({2, 2, 5}, 1), random_reals({2, 2, 5}, 2)}, forward, backward};
}

Case rope() {
  ComputeTask t = task_of(ComputeOp::rope);
  t.scalars = {4, 10000};
  const auto forward = [t](Arrays& a) {
    Array y = reals({1, 3, 2, 6});
    call(t, {in(a[0]), out(y)});
    return y;
  };
  const auto backward = [t](Arrays&, const Array& g) {
    Array dy = g, dx = reals({1, 3, 2, 6});
    ComputeTask grad = t;
    grad.op = ComputeOp::rope_grad;
    call(grad, {in(dy), out(dx)});
    return Arrays{dx};
  };
  return {"rope on part of a head", {random_reals({1, 3, 2, 6}, 1)}, forward, backward};
}

ComputeTask attention_task(ComputeOp op, double p) {
  ComputeTask t = task_of(op, "flash");
  t.causal = true;
  t.probability = p;
  t.scalars = {0.5};
  t.random = "attention";
  return t;
}

/// Two query heads share a key head.
Case flash(double p) {
  const auto forward = [p](Arrays& a) {
    Array y = reals({2, 3, 4, 2}), lse = reals({2, 3, 4});
    call(attention_task(ComputeOp::attention, p), {in(a[0]), in(a[1]), in(a[2]), out(y), out(lse)});
    return y;
  };
  const auto backward = [p](Arrays& a, const Array& g) {
    Array dy = g, y = reals({2, 3, 4, 2}), lse = reals({2, 3, 4}), dq = y, dk = reals({2, 3, 2, 2}), dv = dk;
    call(attention_task(ComputeOp::attention, p), {in(a[0]), in(a[1]), in(a[2]), out(y), out(lse)});
    call(attention_task(ComputeOp::attention_grad, p),
         {in(dy), in(a[0]), in(a[1]), in(a[2]), in(y), in(lse), out(dq), out(dk), out(dv)});
    return Arrays{dq, dk, dv};
  };
  return {"flash attention",
          {random_reals({2, 3, 4, 2}, 1), random_reals({2, 3, 2, 2}, 2), random_reals({2, 3, 2, 2}, 3)},
          forward,
          backward};
}

/// Of three keys a query sees two at most, or a score per head stands beside them, or both.
Case flash_beyond(bool window, bool sinks) {
  const auto run = [=](ComputeOp op, std::vector<Argument> arguments, Array& scores, Array* gradient) {
    ComputeTask t = attention_task(op, 0.0);
    t.variant = std::string("flash") + (window ? "_window" : "") + (sinks ? "_sinks" : "");
    if (sinks) arguments.push_back(in(scores));
    if (sinks && gradient != nullptr) arguments.push_back(inout(*gradient));
    std::vector<std::int64_t> dims{2, 4, 2, 3, 3, 2};
    if (window) dims.push_back(2);
    call(t, arguments, dims);
  };
  const auto forward = [run](Arrays& a) {
    Array y = reals({2, 3, 4, 2}), lse = reals({2, 3, 4});
    run(ComputeOp::attention, {in(a[0]), in(a[1]), in(a[2]), out(y), out(lse)}, a[3], nullptr);
    return y;
  };
  const auto backward = [run](Arrays& a, const Array& g) {
    Array dy = g, y = reals({2, 3, 4, 2}), lse = reals({2, 3, 4}), dq = y, dk = reals({2, 3, 2, 2}), dv = dk,
          ds = reals({4});
    run(ComputeOp::attention, {in(a[0]), in(a[1]), in(a[2]), out(y), out(lse)}, a[3], nullptr);
    run(ComputeOp::attention_grad, {in(dy), in(a[0]), in(a[1]), in(a[2]), in(y), in(lse), out(dq), out(dk), out(dv)},
        a[3], &ds);
    return Arrays{dq, dk, dv, ds};
  };
  return {"attention to a window, or with sinks",
          {random_reals({2, 3, 4, 2}, 1), random_reals({2, 3, 2, 2}, 2), random_reals({2, 3, 2, 2}, 3),
           random_reals({4}, 4)},
          forward,
          backward};
}

Array attended(const Arrays& a, const std::string& variant, std::vector<std::int64_t> window, Array sinks) {
  Array q = a[0], k = a[1], v = a[2], y = reals({2, 3, 4, 2}), lse = reals({2, 3, 4});
  ComputeTask t = attention_task(ComputeOp::attention, 0.0);
  t.variant = variant;
  std::vector<Argument> arguments{in(q), in(k), in(v), out(y), out(lse)};
  if (!sinks.real.empty()) arguments.push_back(in(sinks));
  std::vector<std::int64_t> dims{2, 4, 2, 3, 3, 2};
  dims.insert(dims.end(), window.begin(), window.end());
  call(t, arguments, dims);
  return y;
}

/// The later two of three queries against the first two keys: nothing else has an output, or a gradient.
Case flash_block() {
  const auto block = [](ComputeOp op, const std::vector<Argument>& arguments) {
    ComputeTask t = attention_task(op, 0.0);
    t.variant = "flash_block";
    t.causal = false;
    call(t, arguments, {2, 4, 2, 2, 2, 2}, {1});
  };
  const auto forward = [block](Arrays& a) {
    Array y = reals({2, 3, 4, 2}), lse = reals({2, 3, 4});
    block(ComputeOp::attention, {in(a[0]), in(a[1]), in(a[2]), out(y), out(lse)});
    return y;
  };
  const auto backward = [block](Arrays& a, const Array& g) {
    Array dy = g, y = reals({2, 3, 4, 2}), lse = reals({2, 3, 4}), dq = y, dk = reals({2, 3, 2, 2}), dv = dk;
    block(ComputeOp::attention, {in(a[0]), in(a[1]), in(a[2]), out(y), out(lse)});
    block(ComputeOp::attention_grad, {in(dy), in(a[0]), in(a[1]), in(a[2]), in(y), in(lse), out(dq), out(dk), out(dv)});
    return Arrays{dq, dk, dv};
  };
  return {"a block of attention",
          {random_reals({2, 3, 4, 2}, 1), random_reals({2, 3, 2, 2}, 2), random_reals({2, 3, 2, 2}, 3)},
          forward,
          backward};
}

/// The first two of three tokens of each sample.
Case linear_piece() {
  const auto forward = [](Arrays& a) {
    Array y = reals({2, 2, 4});
    call(task_of(ComputeOp::matmul, "linear_piece"), {in(a[0]), in(a[1]), out(y)});
    return y;
  };
  const auto backward = [](Arrays& a, const Array& g) {
    Array dy = g, dx = reals({2, 3, 5});
    call(task_of(ComputeOp::matmul, "linear_input_grad_piece"), {in(a[1]), out(dx), in(dy)});
    Array dw = reals({4, 5});  // Of the tokens of the piece: the weight's gradient is computed whole.
    for (std::size_t b = 0; b < 2; ++b)
      for (std::size_t t = 0; t < 2; ++t)
        for (std::size_t o = 0; o < 4; ++o)
          for (std::size_t i = 0; i < 5; ++i)
            dw.real[o * 5 + i] += g.real[(b * 2 + t) * 4 + o] * a[0].real[(b * 3 + t) * 5 + i];
    return Arrays{dx, dw};
  };
  return {"a piece of a linear layer", {random_reals({2, 3, 5}, 1), random_reals({4, 5}, 2)}, forward, backward};
}

/// Scores, softmax and context as three operators.
Case unfused() {
  ComputeTask softmax = task_of(ComputeOp::softmax);
  softmax.causal = true;
  softmax.scalars = {0.5};
  const auto probabilities = [softmax](Arrays& a) {
    Array s = reals({2, 4, 3, 3}), p = s;
    call(task_of(ComputeOp::matmul, "scores"), {in(a[0]), in(a[1]), out(s)});
    call(softmax, {in(s), out(p)});
    return p;
  };
  const auto forward = [probabilities](Arrays& a) {
    Array p = probabilities(a), y = reals({2, 3, 4, 2});
    call(task_of(ComputeOp::matmul, "context"), {in(p), in(a[2]), out(y)});
    return y;
  };
  const auto backward = [probabilities, softmax](Arrays& a, const Array& g) {
    Array dy = g, p = probabilities(a), dp = p, ds = p, dq = reals({2, 3, 4, 2}), dk = reals({2, 3, 2, 2}), dv = dk;
    ComputeTask grad = softmax;
    grad.op = ComputeOp::softmax_grad;
    call(task_of(ComputeOp::matmul, "v_grad"), {in(p), in(dy), out(dv)});
    call(task_of(ComputeOp::matmul, "probabilities_grad"), {in(dy), in(a[2]), out(dp)});
    call(grad, {in(p), in(dp), out(ds)});
    call(task_of(ComputeOp::matmul, "q_grad"), {in(ds), in(a[1]), out(dq)});
    call(task_of(ComputeOp::matmul, "k_grad"), {in(ds), in(a[0]), out(dk)});
    return Arrays{dq, dk, dv};
  };
  return {"unfused attention",
          {random_reals({2, 3, 4, 2}, 1), random_reals({2, 3, 2, 2}, 2), random_reals({2, 3, 2, 2}, 3)},
          forward,
          backward};
}

Case dropout(bool adds) {
  const auto task = [](ComputeOp op) {
    ComputeTask t = task_of(op);
    t.probability = 0.3;
    t.random = "dropout";
    return t;
  };
  const auto forward = [task, adds](Arrays& a) {
    Array y = reals({2, 2, 5}), mask = mask_of({2, 2, 5});
    adds ? call(task(ComputeOp::dropout_add), {in(a[0]), in(a[1]), out(mask), out(y)})
         : call(task(ComputeOp::dropout), {in(a[0]), out(mask), out(y)});
    return y;
  };
  const auto backward = [task, adds](Arrays& a, const Array& g) {
    Array dy = g, y = g, mask = mask_of({2, 2, 5}), dx = reals({2, 2, 5});
    call(task(ComputeOp::dropout), {in(a[0]), out(mask), out(y)});
    call(task(adds ? ComputeOp::dropout_add_grad : ComputeOp::dropout_grad), {in(dy), in(mask), out(dx)});
    return adds ? Arrays{dx, dy} : Arrays{dx};
  };
  Arrays inputs{random_reals({2, 2, 5}, 1)};
  if (adds) inputs.push_back(random_reals({2, 2, 5}, 2));
  return {"dropout", inputs, forward, backward};
}

Case embedding() {
  const auto forward = [](Arrays& a) {
    Array tokens = integers_of({2, 3}, {1, 2, 1, 4, 0, 7}), x = reals({2, 3, 4}), y = x;
    call(task_of(ComputeOp::embedding), {in(tokens), in(a[0]), out(x)}, {}, {0});
    call(task_of(ComputeOp::add, "position"), {in(x), in(a[1]), out(y)});
    return y;
  };
  const auto backward = [](Arrays&, const Array& g) {
    Array tokens = integers_of({2, 3}, {1, 2, 1, 4, 0, 7}), dy = g, words = reals({5, 4}), positions = reals({3, 4});
    call(task_of(ComputeOp::embedding_grad), {in(tokens), in(dy), inout(words)}, {}, {0});
    call(task_of(ComputeOp::embedding_grad, "position"), {in(dy), inout(positions)});
    return Arrays{words, positions};
  };
  return {"embedding of a vocabulary slice, with positions",
          {random_reals({5, 4}, 1), random_reals({3, 4}, 2)},
          forward,
          backward};
}

/// The loss itself is the output: one number.
Case cross_entropy(bool fused) {
  const auto labels = [] { return integers_of({2, 2}, {0, 3, 4, 1}); };
  struct Pieces {
    Array work, max = reals({2, 2}), target = max, sum = max, sums = reals({2, 2, 2}), loss = reals({1});
  };
  const auto run = [labels, fused](Arrays& a) {
    Pieces z{a[0]};
    Array l = labels();
    call(task_of(ComputeOp::cross_entropy, "max"), {in(z.work), out(z.max)});
    if (fused) {
      call(task_of(ComputeOp::cross_entropy, "sums"), {in(z.work), in(l), in(z.max), out(z.sums)});
      call(task_of(ComputeOp::cross_entropy, "loss_of_sums"), {in(z.sums), out(z.loss)});
      return z;
    }
    call(task_of(ComputeOp::cross_entropy, "exponential"), {inout(z.work), in(l), in(z.max), out(z.target)});
    call(task_of(ComputeOp::cross_entropy, "sum_exp"), {in(z.work), out(z.sum)});
    call(task_of(ComputeOp::cross_entropy, "normalise"), {inout(z.work), in(z.sum)});
    call(task_of(ComputeOp::cross_entropy, "loss"), {in(z.sum), in(z.target), out(z.loss)});
    return z;
  };
  const auto backward = [labels, run, fused](Arrays& a, const Array& g) {
    Pieces z = run(a);
    Array l = labels(), d = reals({2, 2, 5}), same = z.work;
    if (fused) {
      call(task_of(ComputeOp::cross_entropy_grad, "fused"), {in(z.work), in(l), out(d), in(z.max), in(z.sums)}, {4});
    } else {
      call(task_of(ComputeOp::cross_entropy_grad), {in(z.work), in(l), out(d)}, {4});
      call(task_of(ComputeOp::cross_entropy_grad, "in_place"), {in(l), inout(same)}, {4});
      CHECK(same.real == d.real);
    }
    for (double& x : d.real) x *= g.real[0];
    return Arrays{d};
  };
  return {fused ? "fused cross-entropy" : "cross-entropy",
          {random_reals({2, 2, 5}, 1)},
          [run](Arrays& a) { return run(a).loss; },
          backward};
}

}  // namespace

TEST_CASE("gradients are derivatives") {
  check(linear());
  check(norm("layer_norm", true));
  check(norm("rms_norm", false));
  for (const std::string& variant : curves()) check(curve(variant));
  check(silu_mul());
  check(rope());
  check(flash(0.0));
  check(flash(0.3));
  check(flash_block());
  for (const bool window : {false, true}) check(flash_beyond(window, true));
  check(flash_beyond(true, false));
  check(linear_piece());
  check(unfused());
  check(dropout(false));
  check(dropout(true));
  check(embedding());
  check(cross_entropy(false));
  check(cross_entropy(true));
}

TEST_CASE(
    "a window as long as the sequence hides nothing, one of a token shows its own value, and a sink takes from all") {
  const Arrays a{random_reals({2, 3, 4, 2}, 1), random_reals({2, 3, 2, 2}, 2), random_reals({2, 3, 2, 2}, 3)};
  const Array all = attended(a, "flash", {}, {}), wide = attended(a, "flash_window", {3}, {}),
              own = attended(a, "flash_window", {1}, {});
  CHECK(wide.real == all.real);
  for (std::size_t row = 0; row < 6; ++row)
    for (std::size_t head = 0; head < 4; ++head)
      for (std::size_t i = 0; i < 2; ++i)
        CHECK(own.real[(row * 4 + head) * 2 + i] == Approx(a[2].real[(row * 2 + head / 2) * 2 + i]));
  Array far = reals({4}), even = reals({4});
  far.real.assign(4, -1e9);
  CHECK(attended(a, "flash_sinks", {}, far).real == all.real);
  // To its own token alone a query pays e^x of e^x + 1.
  const Array halved = attended(a, "flash_window_sinks", {1}, even);
  for (std::size_t i = 0; i < halved.real.size(); ++i) CHECK(std::abs(halved.real[i]) < std::abs(own.real[i]));
}

TEST_CASE("every backward operator is one that a gradient is checked for") {
  // Names of `check`ed operators; a new backward operator joins a case above, and then this
  // list, or says that it is a curve.
  std::set<std::string> checked{"activation_grad.gate",
                                "activation_grad.leaky_relu",
                                "activation_grad.relu",
                                "activation_grad.tanh",
                                "activation_grad.weighted_silu_mul",
                                "activation_grad.weighted_squared_relu",
                                "add.append_grad",
                                "activation_grad.silu_mul",
                                "activation_grad.weighted_clamped_silu_mul",
                                "add.expert_bias_grad",
                                "add.weighted_expert_bias_grad",
                                "attention_grad.flash",
                                "attention_grad.flash_block",
                                "attention_grad.flash_sinks",
                                "attention_grad.flash_window",
                                "attention_grad.flash_window_sinks",
                                "convolution_grad.input",
                                "convolution_grad.weight",
                                "cross_entropy_grad",
                                "cross_entropy_grad.adversarial",
                                "cross_entropy_grad.fused",
                                "cross_entropy_grad.in_place",
                                "cross_entropy_grad.pixels",
                                "dropout_add_grad",
                                "dropout_grad",
                                "embedding_grad",
                                "embedding_grad.position",
                                "grouped_matmul.linear_input_grad",
                                "grouped_matmul.linear_weight_grad",
                                "matmul.k_grad",
                                "matmul.linear_input_grad",
                                "matmul.linear_input_grad_piece",
                                "matmul.linear_weight_grad",
                                "matmul.probabilities_grad",
                                "matmul.q_grad",
                                "matmul.v_grad",
                                "norm_grad.batch_norm",
                                "norm_grad.grouped_rms_norm",
                                "norm_grad.layer_norm",
                                "norm_grad.rms_norm",
                                "pool_grad.average",
                                "pool_grad.global",
                                "permute_grad.permute_grad",
                                "permute_grad.sort",
                                "permute_grad.unpermute_grad",
                                "permute_grad.unsort",
                                "pool_grad.max",
                                "rope_grad",
                                "route_grad.sigmoid",
                                "route_grad.softmax",
                                "softmax_grad",
                                "state_space_grad"};
  for (const std::string& curve : curves()) checked.insert("activation_grad." + curve);
  for (const auto& entry : cpu_operators().entries())
    if (entry.name.find("_grad") != std::string::npos) CHECK(checked.contains(entry.name));
}
