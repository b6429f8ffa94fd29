#pragma once
// The calls of cuBLAS that the product makes, on the machine on the CPU (cublas.cpp).

#include "cublasLt.h"

extern "C" {

typedef struct OnCpuCublas* cublasHandle_t;

const char* cublasGetStatusString(cublasStatus_t status);
cublasStatus_t cublasCreate_v2(cublasHandle_t* handle);
cublasStatus_t cublasDestroy_v2(cublasHandle_t handle);
cublasStatus_t cublasSetStream_v2(cublasHandle_t handle, cudaStream_t stream);
cublasStatus_t cublasGemmGroupedBatchedEx(cublasHandle_t handle, const cublasOperation_t transa[], const cublasOperation_t transb[], const int m[], const int n[], const int k[], const void* alpha,
                                          const void* const a[], cudaDataType_t type_a, const int lda[], const void* const b[], cudaDataType_t type_b, const int ldb[], const void* beta, void* const c[],
                                          cudaDataType_t type_c, const int ldc[], int groups, const int group_size[], cublasComputeType_t compute);

}  // extern "C"
