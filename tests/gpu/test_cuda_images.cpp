// Operators over images give what the CPU's give in fp64, in each type: strides, dilation, groups, sides that are no
// multiple of anything, tiles with halos.
#include <cstdlib>

#include "tests/gpu/against_cpu.hpp"
#include "tests/support/skip.hpp"

using namespace rehearse;
using namespace rehearse::test;

namespace {

#define ON_A_DEVICE() \
  if (const auto none = no_device()) REHEARSE_SKIP(*none)

ComputeTask with_cuda_images(ComputeOp op, const char* variant, std::vector<double> scalars) {
  ComputeTask t = task_of(op, variant);
  t.scalars = std::move(scalars);
  return t;
}

/// Rows 3 to 7 of 12, with a row of each neighbour around them.
OperandSlot tile(OperandSlot s) {
  s.shape = {2, 3, 7, 5};
  s.all = {2, 3, 12, 5};
  s.global = {{{0, 2}}, {{0, 3}}, {{2, 7}}, {{0, 5}}};
  s.inner = {{0, 2}, {0, 3}, {1, 5}, {0, 5}};
  return s;
}
/// The same rows without what lies around them.
OperandSlot own_rows(OperandSlot s) {
  s.shape = {2, 3, 5, 5};
  s.all = {2, 3, 12, 5};
  s.global = {{{0, 2}}, {{0, 3}}, {{3, 5}}, {{0, 5}}};
  return s;
}

/// While it lives, devices are opened without cuDNN.
struct WithoutLibrary {
  WithoutLibrary() { ::setenv("REHEARSE_CUDNN", "off", 1); }
  ~WithoutLibrary() { ::unsetenv("REHEARSE_CUDNN"); }
  WithoutLibrary(const WithoutLibrary&) = delete;
  WithoutLibrary& operator=(const WithoutLibrary&) = delete;
};

void check_convolutions() {
  const std::vector<double> strided{3, 2, 1, 1, 3, 2, 1, 1, 2, 0, 3, 2}, dilated{3, 1, 2, 2, 2, 1, 0, 1, 1, 0, 6, 4};
  check_all_types(
      {with_cuda_images(ComputeOp::convolution, "", strided), {in({2, 4, 7, 6}), in({6, 2, 3, 3}), out({2, 6, 4, 3})}});
  check_all_types(
      {with_cuda_images(ComputeOp::convolution, "", dilated), {in({2, 4, 7, 6}), in({6, 4, 3, 2}), out({2, 6, 7, 5})}});
  check_all_types({with_cuda_images(ComputeOp::convolution_grad, "input", strided),
                   {in({2, 6, 4, 3}), in({6, 2, 3, 3}), out({2, 4, 7, 6})}});
  ComputeTask weight = with_cuda_images(ComputeOp::convolution_grad, "weight", strided);
  weight.accumulates = true;
  check_all_types({weight, {in({2, 4, 7, 6}), in({2, 6, 4, 3}), inout({6, 2, 3, 3}, Holds::sums)}});
  const std::vector<double> plain{3, 1, 1, 1, 3, 1, 1, 1, 1, 0, 3, 3}, turned{3, 2, 1, 1, 3, 2, 1, 1, 2, 1, 3, 2};
  // A transposed one, which makes sides longer.
  check_all_types(
      {with_cuda_images(ComputeOp::convolution, "", turned), {in({2, 6, 4, 3}), in({6, 2, 3, 3}), out({2, 4, 7, 6})}});
  // Of the pixel itself.
  check_all_types({with_cuda_images(ComputeOp::convolution, "", {1, 1, 0, 1, 1, 1, 0, 1, 2, 0, 3, 2}),
                   {in({2, 4, 7, 6}), in({6, 2, 1, 1}), out({2, 6, 7, 6})}});
  // Of three sides.
  check_all_types({with_cuda_images(ComputeOp::convolution, "", {3, 1, 1, 1, 2, 1, 0, 1, 3, 2, 1, 1, 1, 0, 3, 2}),
                   {in({1, 2, 4, 5, 6}), in({3, 2, 3, 2, 3}), out({1, 3, 4, 4, 3})}});
  // Tiles: what lies around a rank's own is read or not made; there is no padding where a neighbour is.
  const OperandSlot weights = in({3, 3, 3, 3});
  check_all_types({with_cuda_images(ComputeOp::convolution, "", plain), {tile(in({})), weights, own_rows(out({}))}});
  check_all_types({with_cuda_images(ComputeOp::convolution, "", plain), {tile(in({})), weights, tile(out({}))}});
  check_all_types(
      {with_cuda_images(ComputeOp::convolution_grad, "input", plain), {tile(in({})), weights, tile(out({}))}});
  ComputeTask of_tile = with_cuda_images(ComputeOp::convolution_grad, "weight", plain);
  of_tile.accumulates = true;
  check_all_types({of_tile, {tile(in({})), own_rows(in({})), inout({3, 3, 3, 3}, Holds::sums)}});
}

}  // namespace

TEST_CASE("convolutions: strides, padding, dilation, groups, tiles") {
  ON_A_DEVICE();
  check_convolutions();
}
TEST_CASE("convolutions as columns and products, without a library for them") {
  ON_A_DEVICE();
  const WithoutLibrary off;
  check_convolutions();
}

TEST_CASE("pools") {
  ON_A_DEVICE();
  const std::vector<double> window{3, 2, 1, 1, 2, 2, 0, 1};
  const OperatorCase most{with_cuda_images(ComputeOp::pool, "max", window),
                          {in({2, 3, 7, 6}), out({2, 3, 4, 3}, Holds::integers), out({2, 3, 4, 3})}};
  check_all_types(most);
  const std::vector<double> positions = on_reference(most, ElementType::real32).values[1];
  check_all_types({with_cuda_images(ComputeOp::pool_grad, "max", window),
                   {in({2, 3, 4, 3}), given(in({2, 3, 4, 3}, Holds::integers), positions), out({2, 3, 7, 6})}});
  check_all_types({with_cuda_images(ComputeOp::pool, "average", window), {in({2, 3, 7, 6}), out({2, 3, 4, 3})}});
  check_all_types({with_cuda_images(ComputeOp::pool_grad, "average", window), {in({2, 3, 4, 3}), out({2, 3, 7, 6})}});
  check_all_types({with_cuda_images(ComputeOp::pool, "global", {}), {in({2, 3, 7, 6}), out({2, 3})}});
  check_all_types({with_cuda_images(ComputeOp::pool_grad, "global", {}), {in({2, 3}), out({2, 3, 7, 6})}});
}

TEST_CASE("batch norm from the sums of all ranks") {
  ON_A_DEVICE();
  const std::vector<double> sums{3, -5, 2, 60, 80, 70}, gradient_sums{2, -1, 4, 3, 5, -2};
  ComputeTask norm = task_of(ComputeOp::norm, "batch_norm"), grad = task_of(ComputeOp::norm_grad, "batch_norm"),
              backward = task_of(ComputeOp::statistics, "backward");
  norm.epsilon = grad.epsilon = backward.epsilon = 1e-5;
  const OperandSlot image = in({2, 3, 5, 6}), per_channel = in({3}, Holds::sums);
  check_all_types({task_of(ComputeOp::statistics, "forward"), {image, out({6}, Holds::sums)}});
  check_all_types({norm, {image, given(in({6}, Holds::sums), sums), per_channel, per_channel, out({2, 3, 5, 6})}});
  check_all_types({backward,
                   {image, image, given(in({6}, Holds::sums), sums), out({6}, Holds::sums), inout({3}, Holds::sums),
                    inout({3}, Holds::sums)}});
  check_all_types({grad,
                   {image, image, given(in({6}, Holds::sums), sums), given(in({6}, Holds::sums), gradient_sums),
                    per_channel, out({2, 3, 5, 6})}});
}

TEST_CASE(
    "batch norm whose weights do not learn: a gradient that only passes through, over the replicas of a rank or of "
    "all") {
  ON_A_DEVICE();
  OperandSlot image = tile(in({})), gradient = own_rows(in({}));
  image.all[0] = gradient.all[0] = 4;  // Two of four images.
  const OperandSlot sums = given(in({6}, Holds::sums), {30, -50, 20, 600, 800, 700});
  for (const char* scope : {"replica", "global"}) {
    ComputeTask forward = task_of(ComputeOp::statistics, "forward"),
                backward = task_of(ComputeOp::statistics, "backward");
    forward.scope = backward.scope = scope;
    backward.epsilon = 1e-5;
    check_all_types({forward, {image, out({6}, Holds::sums)}});
    check_all_types({backward, {image, gradient, sums, out({6}, Holds::sums)}});
  }
}

TEST_CASE("activations of images, of tiles too") {
  ON_A_DEVICE();
  for (const std::vector<double>& slope : {std::vector<double>{}, std::vector<double>{0.2}}) {
    const char* variant = slope.empty() ? "relu" : "leaky_relu";
    check_all_types({with_cuda_images(ComputeOp::activation, variant, slope),
                     {tile(in({})), own_rows(out({}, Holds::mask)), tile(out({}))}});
    check_all_types({with_cuda_images(ComputeOp::activation, variant, slope), {in({2, 7}), out({2, 7})}});
    check_all_types(
        {with_cuda_images(ComputeOp::activation_grad, variant, slope),
         {own_rows(in({})), given(own_rows(in({}, Holds::mask)), whole_numbers(150, 2, 3)), tile(out({}))}});
    check_all_types(
        {with_cuda_images(ComputeOp::activation_grad, variant, slope), {in({2, 7}), in({2, 7}), out({2, 7})}});
  }
  check_all_types({task_of(ComputeOp::activation, "tanh"), {tile(in({})), own_rows(out({}))}});
  check_all_types({task_of(ComputeOp::activation_grad, "tanh"), {own_rows(in({})), tile(in({})), tile(out({}))}});
  check_all_types({task_of(ComputeOp::activation, "gate"), {own_rows(in({})), own_rows(in({})), tile(out({}))}});
  check_all_types({task_of(ComputeOp::activation_grad, "gate"),
                   {tile(in({})), own_rows(in({})), own_rows(in({})), own_rows(out({})), own_rows(out({}))}});
  check_all_types({task_of(ComputeOp::add), {tile(in({})), own_rows(in({})), tile(out({}))}});
  check_all_types({task_of(ComputeOp::add, "bias"), {in({3}), tile(inout({}))}});
  check_all_types({task_of(ComputeOp::add, "channel_sum"), {tile(in({})), inout({3}, Holds::sums)}});
}

TEST_CASE("dropout of a tile draws for its own elements, by their numbers in the whole image") {
  ON_A_DEVICE();
  ComputeTask drop = task_of(ComputeOp::dropout);
  drop.probability = 0.3;
  drop.random = "block.dropout";
  check_all_types({drop, {tile(in({})), own_rows(out({}, Holds::mask)), tile(out({}))}, {}, {}, 5});
  check_all_types({drop, {tile(in({})), tile(out({}, Holds::mask)), own_rows(out({}))}, {}, {}, 5});
  ComputeTask with_residual = drop;
  with_residual.op = ComputeOp::dropout_add;
  check_all_types(
      {with_residual, {own_rows(in({})), tile(in({})), tile(out({}, Holds::mask)), tile(out({}))}, {}, {}, 5});
  ComputeTask grad = drop;
  grad.op = ComputeOp::dropout_grad;
  check_all_types(
      {grad, {tile(in({})), given(own_rows(in({}, Holds::mask)), whole_numbers(150, 2, 7)), tile(out({}))}});
}

TEST_CASE("channels joined and split, pixels repeated and interpolated") {
  ON_A_DEVICE();
  check_all_types({task_of(ComputeOp::copy, "concat"), {in({2, 2, 3, 5}), in({2, 3, 3, 5}), out({2, 5, 3, 5})}});
  check_all_types(
      {with_cuda_images(ComputeOp::copy, "split", {0, 2}), {in({2, 5, 3, 5}), out({2, 2, 3, 5}), out({2, 3, 3, 5})}});
  for (const char* variant : {"upsample_nearest", "upsample_bilinear"}) {
    check_all_types({task_of(ComputeOp::copy, variant), {in({2, 3, 4, 3}), out({2, 3, 8, 6})}});
    check_all_types({task_of(ComputeOp::copy, variant), {in({2, 3, 8, 6}), out({2, 3, 4, 3})}});
  }
}

TEST_CASE("losses of pixels and of scores") {
  ON_A_DEVICE();
  for (const std::int64_t classes : {4, 1}) {
    const OperandSlot labels = given(in({2, 3, 5}, Holds::integers), whole_numbers(30, classes == 1 ? 2 : 4, 5)),
                      logits = in({2, classes, 3, 5});
    check_all_types({task_of(ComputeOp::cross_entropy, "pixels"), {logits, labels, out({1}, Holds::sums)}});
    check_all_types(
        {task_of(ComputeOp::cross_entropy_grad, "pixels"), {logits, labels, out({2, classes, 3, 5})}, {60}});
  }
  for (const double form : {0.0, 1.0, 2.0})
    for (const double sign : {1.0, -1.0}) {
      check_all_types({with_cuda_images(ComputeOp::cross_entropy, "adversarial", {sign, form}),
                       {in({40, 1}), out({1}, Holds::sums)}});
      check_all_types({with_cuda_images(ComputeOp::cross_entropy_grad, "adversarial", {sign, form}),
                       {in({40, 1}), out({40, 1})},
                       {80}});
    }
}
