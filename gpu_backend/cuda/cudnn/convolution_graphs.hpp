#pragma once
// Convolutions and their gradients as graphs of one cuDNN operation.

#include <memory>

#include "gpu_backend/cuda/cudnn/graph.hpp"

namespace rehearse::cuda {

/// Ids of what lies in memory.
enum ConvolutionId : std::int64_t { kConvolutionSmall = 1, kConvolutionWeights, kConvolutionLarge };

/// Images of one side get a second of length 1. Throws CudnnFailure.
[[nodiscard]] std::unique_ptr<CudnnGraph> convolution_graph(ConvolutionResult result, const ConvolutionShape& shape);

}  // namespace rehearse::cuda
