#include <stdexcept>

#include "core/strategy/operators/ops.hpp"

namespace rehearse {

const OpLowering& lowering_of(OpKind kind) {
  switch (kind) {
    case OpKind::embedding: return ops::kEmbedding;
    case OpKind::position_embedding: return ops::kPositionEmbedding;
    case OpKind::dropout: return ops::kDropout;
    case OpKind::layer_norm:
    case OpKind::rms_norm:
    case OpKind::grouped_rms_norm: return ops::kNorm;
    case OpKind::linear: return ops::kLinear;
    case OpKind::rope: return ops::kRope;
    case OpKind::attention: return ops::kAttention;
    case OpKind::gelu: return ops::kGelu;
    case OpKind::squared_relu: return ops::kSquaredRelu;
    case OpKind::silu_mul: return ops::kSiluMul;
    case OpKind::add: return ops::kAdd;
    case OpKind::cross_entropy: return ops::kCrossEntropy;
    case OpKind::append: return ops::kAppend;
    case OpKind::router: return ops::kRouter;
    case OpKind::dispatch: return ops::kDispatch;
    case OpKind::grouped_linear: return ops::kGroupedLinear;
    case OpKind::weighted_silu_mul: return ops::kWeightedSiluMul;
    case OpKind::weighted_squared_relu: return ops::kWeightedSquaredRelu;
    case OpKind::combine: return ops::kCombine;
    case OpKind::state_space: return ops::kStateSpace;
    case OpKind::convolution: return ops::kConvolution;
    case OpKind::pool: return ops::kPool;
    case OpKind::global_pool: return ops::kGlobalPool;
    case OpKind::batch_norm: return ops::kBatchNorm;
    case OpKind::relu:
    case OpKind::leaky_relu: return ops::kRelu;
    case OpKind::tanh: return ops::kTanh;
    case OpKind::adversarial_loss: return ops::kAdversarialLoss;
    case OpKind::gate: return ops::kGate;
    case OpKind::concat: return ops::kConcat;
    case OpKind::upsample: return ops::kUpsample;
    case OpKind::pixel_loss: return ops::kPixelLoss;
  }
  throw std::logic_error("op kind without lowering");
}

}  // namespace rehearse
