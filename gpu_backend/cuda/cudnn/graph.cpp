#include "gpu_backend/cuda/cudnn/graph.hpp"

#include <utility>

namespace rehearse::cuda {

CudnnShape packed(std::vector<std::int64_t> extents) {
  std::vector<std::int64_t> strides(extents.size(), 1);
  for (std::size_t d = extents.size(); d-- > 1;) strides[d - 1] = strides[d] * extents[d];
  return {std::move(extents), std::move(strides)};
}
CudnnShape packed(std::int64_t batch, std::int64_t heads, std::int64_t rows, std::int64_t columns) {
  return packed(std::vector{batch, heads, rows, columns});
}
CudnnShape transposed(CudnnShape x) {
  std::swap(x.extents[2], x.extents[3]);
  std::swap(x.strides[2], x.strides[3]);
  return x;
}

CudnnTensor::CudnnTensor(std::int64_t id, cudnnDataType_t type, CudnnShape shape, bool in_memory, bool by_value)
    : id_(id), shape_(std::move(shape)), descriptor_(CUDNN_BACKEND_TENSOR_DESCRIPTOR) {
  descriptor_.set_integer(CUDNN_ATTR_TENSOR_UNIQUE_ID, id);
  descriptor_.set_type(CUDNN_ATTR_TENSOR_DATA_TYPE, type);
  descriptor_.set(CUDNN_ATTR_TENSOR_DIMENSIONS, shape_.extents);
  descriptor_.set(CUDNN_ATTR_TENSOR_STRIDES, shape_.strides);
  descriptor_.set_integer(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, kCudnnAlignment);
  descriptor_.set_flag(CUDNN_ATTR_TENSOR_IS_VIRTUAL, !in_memory && !by_value);
  descriptor_.set_flag(CUDNN_ATTR_TENSOR_IS_BY_VALUE, by_value);
  descriptor_.finalise();
}

CudnnTensorPtr CudnnGraph::stored(std::int64_t id, cudnnDataType_t type, CudnnShape shape) {
  return &tensors_.emplace_back(id, type, std::move(shape), true, false);
}
CudnnTensorPtr CudnnGraph::number(std::int64_t id) {
  return &tensors_.emplace_back(id, CUDNN_DATA_FLOAT, CudnnShape{{1, 1, 1, 1}, {1, 1, 1, 1}}, false, true);
}
CudnnTensorPtr CudnnGraph::between(cudnnDataType_t type, CudnnShape shape) {
  return &tensors_.emplace_back(next_id_++, type, std::move(shape), false, false);
}

CudnnDescriptor& CudnnGraph::operation(cudnnBackendDescriptorType_t kind) { return operations_.emplace_back(kind); }

void CudnnGraph::matmul(CudnnTensorPtr a, CudnnTensorPtr b, CudnnTensorPtr to) {
  CudnnDescriptor& kind = kinds_.emplace_back(CUDNN_BACKEND_MATMUL_DESCRIPTOR);
  kind.set_type(CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_DATA_FLOAT);
  kind.finalise();
  CudnnDescriptor& op = operation(CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
  op.set(CUDNN_ATTR_OPERATION_MATMUL_ADESC, a->descriptor());
  op.set(CUDNN_ATTR_OPERATION_MATMUL_BDESC, b->descriptor());
  op.set(CUDNN_ATTR_OPERATION_MATMUL_CDESC, to->descriptor());
  op.set(CUDNN_ATTR_OPERATION_MATMUL_DESC, kind);
  op.finalise();
}

void CudnnGraph::pointwise(cudnnPointwiseMode_t mode, const std::vector<CudnnTensorPtr>& from, CudnnTensorPtr to,
                           cudnnDataType_t arithmetic) {
  CudnnDescriptor& kind = kinds_.emplace_back(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
  kind.set(CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &mode);
  kind.set_type(CUDNN_ATTR_POINTWISE_MATH_PREC, arithmetic);
  kind.finalise();
  CudnnDescriptor& op = operation(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  op.set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, kind);
  constexpr cudnnBackendAttributeName_t kPlaces[] = {
      CUDNN_ATTR_OPERATION_POINTWISE_XDESC, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, CUDNN_ATTR_OPERATION_POINTWISE_TDESC};
  for (std::size_t i = 0; i < from.size(); ++i) op.set(kPlaces[i], from[i]->descriptor());
  op.set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, to->descriptor());
  op.finalise();
}

CudnnTensorPtr CudnnGraph::pointwise(cudnnPointwiseMode_t mode, const std::vector<CudnnTensorPtr>& from) {
  CudnnTensorPtr to = between(CUDNN_DATA_FLOAT, from.front()->shape());
  pointwise(mode, from, to);
  return to;
}

CudnnTensorPtr CudnnGraph::index(CudnnTensorPtr like, std::int64_t axis) {
  CudnnTensorPtr to = between(CUDNN_DATA_INT32, like->shape());
  CudnnDescriptor& kind = kinds_.emplace_back(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
  const cudnnPointwiseMode_t mode = CUDNN_POINTWISE_GEN_INDEX;
  kind.set(CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &mode);
  kind.set_type(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_DATA_FLOAT);
  kind.set_integer(CUDNN_ATTR_POINTWISE_AXIS, axis);
  kind.finalise();
  CudnnDescriptor& op = operation(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  op.set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, kind);
  op.set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, like->descriptor());
  op.set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, to->descriptor());
  op.finalise();
  return to;
}

void CudnnGraph::reduce(cudnnReduceTensorOp_t how, CudnnTensorPtr from, CudnnTensorPtr to) {
  CudnnDescriptor& kind = kinds_.emplace_back(CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
  kind.set_type(CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_DATA_FLOAT);
  kind.set(CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, 1, &how);
  kind.finalise();
  CudnnDescriptor& op = operation(CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
  op.set(CUDNN_ATTR_OPERATION_REDUCTION_DESC, kind);
  op.set(CUDNN_ATTR_OPERATION_REDUCTION_XDESC, from->descriptor());
  op.set(CUDNN_ATTR_OPERATION_REDUCTION_YDESC, to->descriptor());
  op.finalise();
}

namespace {

struct ConvolutionNames {
  cudnnBackendDescriptorType_t kind;
  cudnnBackendAttributeName_t window, small, weights, large, alpha, beta;
};
constexpr ConvolutionNames kForward{CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
                                    CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
                                    CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
                                    CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
                                    CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
                                    CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
                                    CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA};
constexpr ConvolutionNames kBackwardData{CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
                                         CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
                                         CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
                                         CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
                                         CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
                                         CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
                                         CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA};
constexpr ConvolutionNames kBackwardFilter{CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
                                           CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
                                           CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
                                           CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
                                           CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
                                           CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
                                           CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA};

const ConvolutionNames& names_of(ConvolutionResult result) {
  switch (result) {
    case ConvolutionResult::small_image: return kForward;
    case ConvolutionResult::large_image: return kBackwardData;
    case ConvolutionResult::weights: break;
  }
  return kBackwardFilter;
}

}  // namespace

void CudnnGraph::convolve(ConvolutionResult result, CudnnTensorPtr small, CudnnTensorPtr weights, CudnnTensorPtr large,
                          const CudnnWindow& window) {
  CudnnDescriptor& how = kinds_.emplace_back(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
  const cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
  how.set_type(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_DATA_FLOAT);
  how.set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1, &mode);
  how.set_integer(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, static_cast<std::int64_t>(window.stride.size()));
  how.set(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, window.stride);
  how.set(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, window.before);
  how.set(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, window.after);
  how.set(CUDNN_ATTR_CONVOLUTION_DILATIONS, window.dilation);
  how.finalise();
  const ConvolutionNames& names = names_of(result);
  const float alpha = 1, beta = 0;
  CudnnDescriptor& op = operation(names.kind);
  op.set(names.window, how);
  op.set(names.small, small->descriptor());
  op.set(names.weights, weights->descriptor());
  op.set(names.large, large->descriptor());
  op.set(names.alpha, CUDNN_TYPE_FLOAT, 1, &alpha);
  op.set(names.beta, CUDNN_TYPE_FLOAT, 1, &beta);
  op.finalise();
}

CudnnTensorPtr CudnnGraph::view(CudnnTensorPtr from, cudnnDataType_t type, CudnnShape shape) {
  CudnnTensorPtr to = between(type, std::move(shape));
  CudnnDescriptor& op = operation(CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR);
  op.set(CUDNN_ATTR_OPERATION_RESHAPE_XDESC, from->descriptor());
  op.set(CUDNN_ATTR_OPERATION_RESHAPE_YDESC, to->descriptor());
  op.finalise();
  return to;
}

const CudnnDescriptor& CudnnGraph::finalise(cudnnHandle_t handle) {
  std::vector<const CudnnDescriptor*> all;
  for (const CudnnDescriptor& op : operations_) all.push_back(&op);
  graph_ = CudnnDescriptor(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  graph_.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, all);
  if (handle != nullptr) graph_.set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle);
  graph_.finalise();
  return graph_;
}

}  // namespace rehearse::cuda
