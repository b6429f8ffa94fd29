#pragma once
// What of a convolution's input is never read: a window smaller than its stride steps over the rest.

#include "core/price/kernels/kernel_convolution.hpp"

namespace rehearse {

/// Of `traffic`, which counts every operand once, forward and for weights. Tensor cores' kernels take images pixel by
/// pixel and skip pixels; others' rows lie in order, and are read whole where any of them is. `element`: its bytes.
[[nodiscard]] Bytes unread_input(const ConvolutionShape& shape, Bytes traffic, bool tensor_cores, double element);

}  // namespace rehearse
