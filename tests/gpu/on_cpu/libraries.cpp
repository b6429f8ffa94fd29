// The product's libraries, which it opens when they are first called, are those of this machine.
#include <map>

#include "core/base/error.hpp"
#include "cublas_v2.h"
#include "gpu_backend/cuda/load_library.hpp"
#include "nccl.h"

namespace rehearse::cuda {

namespace {

template <class F>
void* address_of(F* function) {
  return reinterpret_cast<void*>(function);
}

#define ENTRY(name) \
  { #name, address_of(&name) }

const std::map<std::string, void*>& functions() {
  static const std::map<std::string, void*> kAll{ENTRY(cublasLtGetStatusString),
                                                 ENTRY(cublasLtCreate),
                                                 ENTRY(cublasLtDestroy),
                                                 ENTRY(cublasLtMatmulDescCreate),
                                                 ENTRY(cublasLtMatmulDescDestroy),
                                                 ENTRY(cublasLtMatmulDescSetAttribute),
                                                 ENTRY(cublasLtMatrixLayoutCreate),
                                                 ENTRY(cublasLtMatrixLayoutDestroy),
                                                 ENTRY(cublasLtMatrixLayoutSetAttribute),
                                                 ENTRY(cublasLtMatmulPreferenceCreate),
                                                 ENTRY(cublasLtMatmulPreferenceDestroy),
                                                 ENTRY(cublasLtMatmulPreferenceSetAttribute),
                                                 ENTRY(cublasLtMatmulAlgoGetHeuristic),
                                                 ENTRY(cublasLtMatmul),
                                                 ENTRY(cublasGetStatusString),
                                                 ENTRY(cublasCreate_v2),
                                                 ENTRY(cublasDestroy_v2),
                                                 ENTRY(cublasSetStream_v2),
                                                 ENTRY(cublasGemmGroupedBatchedEx),
                                                 ENTRY(ncclGetVersion),
                                                 ENTRY(ncclGetErrorString),
                                                 ENTRY(ncclGetLastError),
                                                 ENTRY(ncclGetUniqueId),
                                                 ENTRY(ncclCommInitRank),
                                                 ENTRY(ncclCommSplit),
                                                 ENTRY(ncclCommDestroy),
                                                 ENTRY(ncclGroupStart),
                                                 ENTRY(ncclGroupEnd),
                                                 ENTRY(ncclAllReduce),
                                                 ENTRY(ncclReduce),
                                                 ENTRY(ncclBroadcast),
                                                 ENTRY(ncclAllGather),
                                                 ENTRY(ncclReduceScatter),
                                                 ENTRY(ncclSend),
                                                 ENTRY(ncclRecv)};
  return kAll;
}

}  // namespace

Library::Library(const std::string& file, const std::string&) : file_(file), handle_(nullptr) {}

void* Library::address(const char* name) const {
  const auto found = functions().find(name);
  if (found == functions().end()) throw Error(ErrorKind::unavailable, file_ + " has no " + name, "machine on the CPU");
  return found->second;
}

const Library& cublaslt_library() {
  static const Library library("cuBLASLt on the CPU", "");
  return library;
}
const Library& cublas_library() {
  static const Library library("cuBLAS on the CPU", "");
  return library;
}
const Library& nccl_library() {
  static const Library library("nccl on the CPU", "");
  return library;
}

}  // namespace rehearse::cuda
