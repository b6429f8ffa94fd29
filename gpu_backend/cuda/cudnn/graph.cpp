#include "gpu_backend/cuda/cudnn/graph.hpp"

#include <utility>

namespace rehearse::cuda {

namespace {

constexpr std::int64_t kTensorAlignment = 16;  // Bytes, of every address.

}  // namespace

CudnnShape packed(std::int64_t batch, std::int64_t heads, std::int64_t rows, std::int64_t columns) {
  return {{batch, heads, rows, columns}, {heads * rows * columns, rows * columns, columns, 1}};
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
  descriptor_.set_integer(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, kTensorAlignment);
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
