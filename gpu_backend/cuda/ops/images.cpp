// Images but for their convolutions. Operands as in cpu/ops/image_pointwise.cpp, batch_norm.cpp and pool.cpp.

#include "gpu_backend/cuda/ops/image_operands.hpp"

namespace rehearse::cuda {

namespace {

void* channel_scratch(const OperatorCall& c, const TensorView& image) {
  return c.launch->scratch(channel_scratch_bytes(own_of(image), image.type));
}

/// What is left of x below 0: nothing, or the slope in the scalars.
double slope_of(const OperatorCall& c) { return c.task->scalars.empty() ? 0.0 : c.task->scalars[0]; }
/// x, [mask], y
void run_relu(const OperatorCall& c) {
  relu(stream(c), elements(c.operand(0)), c.operands.size() > 2 ? elements(c.operand(1)) : Elements{},
       elements(c.operands.back()), slope_of(c));
}
void run_relu_grad(const OperatorCall& c) {
  relu_grad(stream(c), elements(c.operand(0)), elements(c.operand(1)), elements(c.operand(2)), slope_of(c));
}
void run_gate(const OperatorCall& c) {
  gate(stream(c), elements(c.operand(0)), elements(c.operand(1)), elements(c.operand(2)));
}
void run_gate_grad(const OperatorCall& c) {
  gate_grad(stream(c), elements(c.operand(0)), elements(c.operand(1)), elements(c.operand(2)), elements(c.operand(3)),
            elements(c.operand(4)));
}
void run_bias(const OperatorCall& c) { add_bias(stream(c), reals(c.operand(0)), elements(c.operand(1))); }
void run_channel_sum(const OperatorCall& c) {
  channel_sum(stream(c), elements(c.operand(0)), reals(c.operand(1)), channel_scratch(c, c.operand(0)));
}

/// parts..., y
void run_concat(const OperatorCall& c) {
  std::int64_t first = 0;
  for (std::size_t i = 0; i + 1 < c.operands.size(); ++i) {
    join_channels(stream(c), elements(c.operand(i)), elements(c.operands.back()), first);
    first += c.operand(i).extent(1);
  }
}
/// dy, gradients of parts...; scalars: first channel of each
void run_split(const OperatorCall& c) {
  for (std::size_t i = 1; i < c.operands.size(); ++i)
    split_channels(stream(c), elements(c.operand(0)), elements(c.operand(i)),
                   static_cast<std::int64_t>(c.task->scalars.at(i - 1)));
}

/// x, y; or dy, dx: which is longer tells.
template <bool kBilinear>
void run_upsample(const OperatorCall& c) {
  const TensorView &from = c.operand(0), &to = c.operand(1);
  const bool forward = to.held->shape.back() >= from.held->shape.back();
  const ImageSides shorter = sides_of(forward ? from : to), longer = sides_of(forward ? to : from);
  (forward ? upsample : upsample_grad)(stream(c), reals(from), reals(to), shorter, longer, planes(to), kBilinear);
}

// ---- pools

void run_max_pool(const OperatorCall& c) {
  max_pool(stream(c), reals(c.operand(0)), elements(c.operand(1)), elements(c.operand(2)),
           joined(c, c.operand(2), c.operand(0)));
}
void run_max_pool_grad(const OperatorCall& c) {
  const TensorView &dy = c.operand(0), &dx = c.operand(2);
  max_pool_grad(stream(c), reals(dy), integers(c.operand(1)), reals(dx), joined(c, dy, dx), planes(dx));
}
void run_average_pool(const OperatorCall& c) {
  average_pool(stream(c), reals(c.operand(0)), elements(c.operand(1)), joined(c, c.operand(1), c.operand(0)));
}
void run_average_pool_grad(const OperatorCall& c) {
  const TensorView &dy = c.operand(0), &dx = c.operand(1);
  average_pool_grad(stream(c), reals(dy), reals(dx), joined(c, dy, dx), planes(dx));
}
void run_global_pool(const OperatorCall& c) {
  global_pool(stream(c), elements(c.operand(0)), reals(c.operand(1)), global_pixels(c.operand(0)),
              channel_scratch(c, c.operand(0)));
}
void run_global_pool_grad(const OperatorCall& c) {
  global_pool_grad(stream(c), reals(c.operand(0)), elements(c.operand(1)), global_pixels(c.operand(1)));
}

// ---- batch norm

/// Whole images, of one replica or of all.
BatchNorm batch_norm_of(const OperatorCall& c, const TensorView& image) {
  const std::int64_t batch = c.task->scope == "global" ? image.held->shape[0] : image.extent(0);
  return {batch * global_pixels(image), c.task->epsilon};
}
void run_sums_images(const OperatorCall& c) {
  batch_norm_sums(stream(c), elements(c.operand(0)), reals(c.operand(1)), channel_scratch(c, c.operand(0)));
}
void run_normalise_images(const OperatorCall& c) {
  const TensorView& x = c.operand(0);
  batch_norm(stream(c), elements(x), reals(c.operand(1)), reals(c.operand(2)), reals(c.operand(3)),
             elements(c.operand(4)), batch_norm_of(c, x), channel_scratch(c, x));
}
void run_gradient_sums(const OperatorCall& c) {
  const TensorView& x = c.operand(0);
  const bool learns = c.operands.size() > 4;  // Not where a gradient only passes through.
  batch_norm_grad_sums(stream(c), elements(x), elements(c.operand(1)), reals(c.operand(2)), reals(c.operand(3)),
                       learns ? reals(c.operand(4)) : Reals{}, learns ? reals(c.operand(5)) : Reals{},
                       batch_norm_of(c, x), channel_scratch(c, x));
}
void run_gradient(const OperatorCall& c) {
  const TensorView& x = c.operand(0);
  batch_norm_grad(stream(c), elements(x), elements(c.operand(1)), reals(c.operand(2)), reals(c.operand(3)),
                  reals(c.operand(4)), elements(c.operand(5)), batch_norm_of(c, x), channel_scratch(c, x));
}

// ---- losses

/// logits, labels, loss
void run_pixels(const OperatorCall& c) {
  const TensorView& labels = c.operand(1);
  const Own own = own_of(labels);
  double* total =
      c.launch->observe([observed = c.observed, counts = c.first_replica, pixels = own.from(0)](double sum) {
        if (!counts) return;
        observed->loss_sum += sum;
        observed->tokens += pixels;
      });
  pixel_loss(stream(c), elements(c.operand(0)), integers(labels), own, reals(c.operand(2)), total,
             c.launch->scratch(pixel_loss_scratch_bytes(own, c.operand(0).type)));
}
/// logits, labels, gradient; dims: pixels that the loss is a mean over
void run_pixels_grad(const OperatorCall& c) {
  pixel_loss_grad(stream(c), elements(c.operand(0)), integers(c.operand(1)), own_of(c.operand(1)),
                  elements(c.operand(2)), static_cast<double>(c.dims.at(0)));
}

struct ImagesNamed {
  const char *name, *summary;
  void (*run)(const OperatorCall&);
};
constexpr ImagesNamed kImagesOperators[] = {
    {"activation.relu", "larger of x and 0", run_relu},
    {"activation_grad.relu", "gradient where x was above 0", run_relu_grad},
    {"activation.leaky_relu", "x, and a fraction of it below 0", run_relu},
    {"activation_grad.leaky_relu", "gradient, and a fraction of it where x was below 0", run_relu_grad},
    {"activation.gate", "leaky ReLU times sigmoid", run_gate},
    {"activation_grad.gate", "gradients of features and gates", run_gate_grad},
    {"add.bias", "a number per channel", run_bias},
    {"add.channel_sum", "gradient of a number per channel", run_channel_sum},
    {"copy.concat", "channels one after the other", run_concat},
    {"copy.split", "channels of each part", run_split},
    {"copy.upsample_nearest", "pixels repeated, or their gradients added up", run_upsample<false>},
    {"copy.upsample_bilinear", "pixels interpolated, or their gradients added up", run_upsample<true>},
    {"pool.max", "maximum over windows", run_max_pool},
    {"pool.average", "mean over windows", run_average_pool},
    {"pool.global", "mean over all pixels", run_global_pool},
    {"pool_grad.max", "to where the maximum was", run_max_pool_grad},
    {"pool_grad.average", "to all of a window", run_average_pool_grad},
    {"pool_grad.global", "to all pixels", run_global_pool_grad},
    {"statistics.forward", "sums of x and its square per channel", run_sums_images},
    {"statistics.backward", "sums of the gradient per channel", run_gradient_sums},
    {"norm.batch_norm", "mean 0 and variance 1 per channel", run_normalise_images},
    {"norm_grad.batch_norm", "gradient of the image", run_gradient},
    {"cross_entropy.pixels", "mean loss of pixels", run_pixels},
    {"cross_entropy_grad.pixels", "gradient of their logits", run_pixels_grad},
};

[[maybe_unused]] const bool registered_images = [] {
  for (const ImagesNamed& o : kImagesOperators) cuda_operators().add({o.name, o.summary, {}, any(o.run)});
  return true;
}();

}  // namespace

}  // namespace rehearse::cuda
