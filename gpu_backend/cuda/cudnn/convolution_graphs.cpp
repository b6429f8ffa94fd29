#include "gpu_backend/cuda/cudnn/convolution_graphs.hpp"

#include <vector>

namespace rehearse::cuda {

namespace {

using Sides = std::array<std::int64_t, ConvolutionShape::kSides>;

/// Kernels of two sides are many more than those of three.
int first_side(const ConvolutionShape& z) {
  return z.small[0] == 1 && z.large[0] == 1 && z.window[0] == 1 && z.before[0] == 0 && z.after[0] == 0 ? 1 : 0;
}
std::vector<std::int64_t> of_sides(const ConvolutionShape& z, const Sides& x, std::vector<std::int64_t> before = {}) {
  before.insert(before.end(), x.begin() + first_side(z), x.end());
  return before;
}

}  // namespace

std::unique_ptr<CudnnGraph> convolution_graph(ConvolutionResult result, const ConvolutionShape& z) {
  auto graph = std::make_unique<CudnnGraph>();
  const cudnnDataType_t type = z.type == ElementType::real16 ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_FLOAT;
  CudnnTensorPtr small =
                     graph->stored(kConvolutionSmall, type, packed(of_sides(z, z.small, {z.batch, z.small_channels}))),
                 weights =
                     graph->stored(kConvolutionWeights, type,
                                   packed(of_sides(z, z.window, {z.small_channels, z.large_channels / z.groups}))),
                 large =
                     graph->stored(kConvolutionLarge, type, packed(of_sides(z, z.large, {z.batch, z.large_channels})));
  graph->convolve(result, small, weights, large,
                  {of_sides(z, z.stride), of_sides(z, z.before), of_sides(z, z.after), of_sides(z, z.dilation)});
  return graph;
}

}  // namespace rehearse::cuda
