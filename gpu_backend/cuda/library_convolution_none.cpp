// A build without cuDNN's headers: every shape is declined.

#include "gpu_backend/cuda/library_convolution.hpp"

namespace rehearse::cuda {

struct LibraryConvolution::Impl {};
LibraryConvolution::LibraryConvolution(const LibraryConvolutionOptions&) {}
LibraryConvolution::~LibraryConvolution() = default;
void LibraryConvolution::prepare(ConvolutionResult, const ConvolutionShape&) {}
bool LibraryConvolution::run(cudaStream_t, ConvolutionResult, Reals, Reals, Reals, const ConvolutionShape&,
                             const Scratch&) {
  return false;
}
std::string LibraryConvolution::description() const { return {}; }

}  // namespace rehearse::cuda
