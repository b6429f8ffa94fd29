#include "gpu_backend/execute/operator.hpp"

#include "core/price/kernels/sized_operation.hpp"

namespace rehearse {

std::int64_t TensorView::from(std::size_t d) const {
  std::int64_t n = 1;
  for (; d < held->extents.size(); ++d) n *= held->extents[d];
  return n;
}

std::string operator_name(const ComputeTask& task) { return operation_name(task); }

}  // namespace rehearse
