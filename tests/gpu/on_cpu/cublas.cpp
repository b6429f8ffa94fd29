// cuBLAS's grouped products, in place of the library. Sizes are the host's and are kept before the call returns;
// addresses are the device's and are read in the order of the stream. It refuses types that are not documented, and
// operands that do not begin and go on at multiples of 16 bytes.
#include "cublas_v2.h"

#include <cmath>
#include <vector>

#include "gpu_backend/execute/numerics.hpp"

struct OnCpuCublas {
  cudaStream_t stream = nullptr;
};

namespace {

struct GroupOf {
  bool first_turned, second_turned;
  int m, n, k, lda, ldb, ldc, size;
  double alpha, beta;
};

std::size_t bytes_each(cudaDataType_t type) { return type == CUDA_R_64F ? 8 : type == CUDA_R_32F ? 4 : 2; }
double number(const void* data, cudaDataType_t type, std::int64_t at) {
  if (type == CUDA_R_64F) return static_cast<const double*>(data)[at];
  if (type == CUDA_R_32F) return static_cast<double>(static_cast<const float*>(data)[at]);
  return static_cast<double>(rehearse::from_bfloat16(static_cast<const std::uint16_t*>(data)[at]));
}
void store(void* data, cudaDataType_t type, std::int64_t at, double x) {
  if (type == CUDA_R_64F)
    static_cast<double*>(data)[at] = x;
  else if (type == CUDA_R_32F)
    static_cast<float*>(data)[at] = static_cast<float>(x);
  else
    static_cast<std::uint16_t*>(data)[at] = rehearse::to_bfloat16(static_cast<float>(x));
}

bool documented(cudaDataType_t type, cublasComputeType_t compute) {
  if (type == CUDA_R_64F) return compute == CUBLAS_COMPUTE_64F;
  if (type == CUDA_R_16BF) return compute == CUBLAS_COMPUTE_32F;
  return type == CUDA_R_32F && (compute == CUBLAS_COMPUTE_32F || compute == CUBLAS_COMPUTE_32F_FAST_TF32);
}
bool at_16_bytes(const void* p) { return reinterpret_cast<std::uintptr_t>(p) % 16 == 0; }

void multiply_group(const GroupOf& g, const void* a, const void* b, void* c, cudaDataType_t type) {
  if (!at_16_bytes(a) || !at_16_bytes(b) || !at_16_bytes(c)) {
    // A kernel would fail, or read what lies elsewhere.
    for (std::int64_t j = 0; j < g.n; ++j)
      for (std::int64_t i = 0; i < g.m; ++i) store(c, type, j * g.ldc + i, std::nan(""));
    return;
  }
  for (std::int64_t j = 0; j < g.n; ++j)
    for (std::int64_t i = 0; i < g.m; ++i) {
      double sum = 0;
      for (std::int64_t x = 0; x < g.k; ++x)
        sum += number(a, type, g.first_turned ? i * g.lda + x : x * g.lda + i) *
               number(b, type, g.second_turned ? x * g.ldb + j : j * g.ldb + x);
      const std::int64_t at = j * g.ldc + i;
      store(c, type, at, g.alpha * sum + (g.beta != 0 ? g.beta * number(c, type, at) : 0));
    }
}

}  // namespace

const char* cublasGetStatusString(cublasStatus_t status) { return cublasLtGetStatusString(status); }
cublasStatus_t cublasCreate_v2(cublasHandle_t* handle) {
  *handle = new OnCpuCublas;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasDestroy_v2(cublasHandle_t handle) {
  delete handle;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasSetStream_v2(cublasHandle_t handle, cudaStream_t stream) {
  handle->stream = stream;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasGemmGroupedBatchedEx(cublasHandle_t handle, const cublasOperation_t transa[],
                                          const cublasOperation_t transb[], const int m[], const int n[], const int k[],
                                          const void* alpha, const void* const a[], cudaDataType_t type_a,
                                          const int lda[], const void* const b[], cudaDataType_t type_b,
                                          const int ldb[], const void* beta, void* const c[], cudaDataType_t type_c,
                                          const int ldc[], int groups, const int group_size[],
                                          cublasComputeType_t compute) {
  if (type_a != type_b || type_a != type_c || !documented(type_a, compute)) return CUBLAS_STATUS_NOT_SUPPORTED;
  const auto factor = [&](const void* of, int group) {
    return type_a == CUDA_R_64F ? static_cast<const double*>(of)[group]
                                : static_cast<double>(static_cast<const float*>(of)[group]);
  };
  std::vector<GroupOf> all;
  const std::size_t each = bytes_each(type_a);
  for (int g = 0; g < groups; ++g) {
    const bool first_turned = transa[g] == CUBLAS_OP_T, second_turned = transb[g] == CUBLAS_OP_T;
    if (m[g] <= 0 || n[g] <= 0 || k[g] <= 0 || group_size[g] <= 0 || lda[g] < (first_turned ? k[g] : m[g]) ||
        ldb[g] < (second_turned ? n[g] : k[g]) || ldc[g] < m[g])
      return CUBLAS_STATUS_INVALID_VALUE;
    for (const int stride : {lda[g], ldb[g], ldc[g]})
      if (static_cast<std::size_t>(stride) * each % 16 != 0) return CUBLAS_STATUS_NOT_SUPPORTED;
    all.push_back({first_turned, second_turned, m[g], n[g], k[g], lda[g], ldb[g], ldc[g], group_size[g],
                   factor(alpha, g), factor(beta, g)});
    const double result = static_cast<double>(m[g]) * n[g], factors = static_cast<double>(k[g]) * (m[g] + n[g]);
    on_cpu::issued.product_bytes +=
        static_cast<double>(each) * group_size[g] * (factors + (factor(beta, g) != 0 ? 2 : 1) * result);
  }
  ++on_cpu::issued.products;
  return on_cpu_do(handle->stream,
                   [all, a, b, c, type_a] {
                     if (!on_cpu::settings().computes) return;
                     std::size_t number_of_matrix = 0;
                     for (const GroupOf& g : all)
                       for (int i = 0; i < g.size; ++i, ++number_of_matrix)
                         multiply_group(g, a[number_of_matrix], b[number_of_matrix], c[number_of_matrix], type_a);
                   }) == cudaSuccess
             ? CUBLAS_STATUS_SUCCESS
             : CUBLAS_STATUS_INVALID_VALUE;
}
