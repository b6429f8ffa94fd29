#pragma once
// A graph of cuDNN operations, put together one operation after the other. It holds descriptors alone: no device is
// asked until a plan is made of it (plan.hpp).

#include <list>
#include <vector>

#include "gpu_backend/cuda/cudnn/descriptor.hpp"
#include "gpu_backend/cuda/library_convolution.hpp"

namespace rehearse::cuda {

/// Extents, and how many elements apart neighbours along each lie: of matrices [batch, heads, rows, columns].
struct CudnnShape {
  std::vector<std::int64_t> extents, strides;
};
/// Row-major.
[[nodiscard]] CudnnShape packed(std::vector<std::int64_t> extents);
[[nodiscard]] CudnnShape packed(std::int64_t batch, std::int64_t heads, std::int64_t rows, std::int64_t columns);
/// Rows and columns the other way round.
[[nodiscard]] CudnnShape transposed(CudnnShape x);

/// Element o of the small image reads element o * stride - before + k * dilation of the large one, along each side.
/// What lies outside the large one is zero, up to `after` elements behind it.
struct CudnnWindow {
  std::vector<std::int64_t> stride, before, after, dilation;
};
/// What addresses of tensors are multiples of, in bytes.
inline constexpr std::int64_t kCudnnAlignment = 16;

/// A tensor of a graph, which owns it.
class CudnnTensor {
 public:
  CudnnTensor(std::int64_t id, cudnnDataType_t type, CudnnShape shape, bool in_memory, bool by_value);
  [[nodiscard]] const CudnnDescriptor& descriptor() const { return descriptor_; }
  [[nodiscard]] const CudnnShape& shape() const { return shape_; }
  /// By which a call names the tensor's place in memory.
  [[nodiscard]] std::int64_t id() const { return id_; }

 private:
  std::int64_t id_;
  CudnnShape shape_;
  CudnnDescriptor descriptor_;
};
using CudnnTensorPtr = const CudnnTensor*;

/// All functions throw CudnnFailure, at once for what cuDNN's types or shapes forbid.
class CudnnGraph {
 public:
  /// In memory, under an id of the caller's choice.
  CudnnTensorPtr stored(std::int64_t id, cudnnDataType_t type, CudnnShape shape);
  /// A number that the host gives to each call.
  CudnnTensorPtr number(std::int64_t id);
  /// Between two operations, never in memory.
  CudnnTensorPtr between(cudnnDataType_t type, CudnnShape shape);

  // ---- operations; `to` is what they write, where it is not their result

  void matmul(CudnnTensorPtr a, CudnnTensorPtr b, CudnnTensorPtr to);
  void pointwise(cudnnPointwiseMode_t mode, const std::vector<CudnnTensorPtr>& from, CudnnTensorPtr to,
                 cudnnDataType_t arithmetic = CUDNN_DATA_FLOAT);
  /// An fp32 result of the shape of the first operand.
  CudnnTensorPtr pointwise(cudnnPointwiseMode_t mode, const std::vector<CudnnTensorPtr>& from);
  /// The index of each element along an axis, in int32.
  CudnnTensorPtr index(CudnnTensorPtr like, std::int64_t axis);
  void reduce(cudnnReduceTensorOp_t how, CudnnTensorPtr from, CudnnTensorPtr to);
  /// Images [batch, channels, sides...], weights [channels of the small one, channels of the large one in a group,
  /// window...]; sums in fp32.
  void convolve(ConvolutionResult result, CudnnTensorPtr small, CudnnTensorPtr weights, CudnnTensorPtr large,
                const CudnnWindow& window);
  /// The same elements as another shape.
  CudnnTensorPtr view(CudnnTensorPtr from, cudnnDataType_t type, CudnnShape shape);

  /// A further one, whose attributes the caller sets.
  CudnnDescriptor& operation(cudnnBackendDescriptorType_t kind);

  /// The graph of all operations so far. It must outlive what is made of it. Versions of cuDNN before 9.8 want a
  /// handle; null: none is given.
  [[nodiscard]] const CudnnDescriptor& finalise(cudnnHandle_t handle);

 private:
  std::int64_t next_id_ = 1000;  ///< Above all that callers choose.
  std::list<CudnnTensor> tensors_;
  std::list<CudnnDescriptor> kinds_, operations_;
  CudnnDescriptor graph_;
};

}  // namespace rehearse::cuda
