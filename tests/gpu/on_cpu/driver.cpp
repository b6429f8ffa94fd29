// What cuDNN asks of CUDA's driver when it makes a plan whose kernels it compiles for the occasion: to load them, and
// what they may take. Here they are never loaded, and take what a Hopper has. It stands in libcuda.so.1's place, so
// that plans are made down to their compiled kernels without a driver. Nothing can be launched.

#include <cuda.h>

namespace {

constexpr int kVersion = 13000, kThreads = 1024, kRegisters = 128, kSharedBytes = 232448, kBlocksOfCluster = 8;
int any;  ///< What handles point at: nobody looks.

template <class Handle>
CUresult hand_out(Handle* to) {
  *to = reinterpret_cast<Handle>(&any);
  return CUDA_SUCCESS;
}
int attribute(CUfunction_attribute which) {
  switch (which) {
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK: return kThreads;
    case CU_FUNC_ATTRIBUTE_NUM_REGS: return kRegisters;
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES: return kSharedBytes;
    default: return 0;
  }
}

}  // namespace

extern "C" {

/// CUDA's runtime goes no further then.
CUresult cuInit(unsigned) { return CUDA_ERROR_STUB_LIBRARY; }
CUresult cuDriverGetVersion(int* version) {
  *version = kVersion;
  return CUDA_SUCCESS;
}
CUresult cuGetErrorString(CUresult, const char** text) {
  *text = "this is no driver";
  return CUDA_SUCCESS;
}
CUresult cuGetErrorName(CUresult error, const char** text) { return cuGetErrorString(error, text); }
CUresult cuDeviceGetCount(int* count) {
  *count = 1;
  return CUDA_SUCCESS;
}
CUresult cuDeviceGet(CUdevice* device, int) {
  *device = 0;
  return CUDA_SUCCESS;
}
CUresult cuCtxGetCurrent(CUcontext* context) { return hand_out(context); }

// ---- kernels

CUresult cuLibraryLoadData(CUlibrary* library, const void*, CUjit_option*, void**, unsigned, CUlibraryOption*, void**,
                           unsigned) {
  return hand_out(library);
}
CUresult cuLibraryUnload(CUlibrary) { return CUDA_SUCCESS; }
CUresult cuLibraryGetKernel(CUkernel* kernel, CUlibrary, const char*) { return hand_out(kernel); }
CUresult cuKernelGetAttribute(int* value, CUfunction_attribute which, CUkernel, CUdevice) {
  *value = attribute(which);
  return CUDA_SUCCESS;
}
CUresult cuKernelSetAttribute(CUfunction_attribute, int, CUkernel, CUdevice) { return CUDA_SUCCESS; }
CUresult cuOccupancyMaxPotentialClusterSize(int* blocks, CUfunction, const CUlaunchConfig*) {
  *blocks = kBlocksOfCluster;
  return CUDA_SUCCESS;
}
}

// ---- what must be there and is not called

#define REFUSES(name)                                  \
  extern "C" CUresult refused_##name() __asm__(#name); \
  extern "C" CUresult refused_##name() { return CUDA_ERROR_NOT_SUPPORTED; }

REFUSES(cuCtxGetDevice)
REFUSES(cuCtxGetLimit)
REFUSES(cuCtxPopCurrent)
REFUSES(cuCtxPopCurrent_v2)
REFUSES(cuCtxPushCurrent)
REFUSES(cuCtxPushCurrent_v2)
REFUSES(cuDeviceGetAttribute)
REFUSES(cuDevicePrimaryCtxRelease)
REFUSES(cuDevicePrimaryCtxReset)
REFUSES(cuDevicePrimaryCtxRetain)
REFUSES(cuFuncGetAttribute)
REFUSES(cuFuncSetAttribute)
REFUSES(cuLaunchCooperativeKernel)
REFUSES(cuLaunchKernel)
REFUSES(cuLaunchKernelEx)
REFUSES(cuLibraryLoadFromFile)
REFUSES(cuLinkAddData)
REFUSES(cuLinkAddData_v2)
REFUSES(cuLinkAddFile_v2)
REFUSES(cuLinkComplete)
REFUSES(cuLinkCreate)
REFUSES(cuLinkCreate_v2)
REFUSES(cuLinkDestroy)
REFUSES(cuMemcpyDtoH_v2)
REFUSES(cuModuleGetFunction)
REFUSES(cuModuleGetGlobal_v2)
REFUSES(cuModuleLoadData)
REFUSES(cuModuleLoadDataEx)
REFUSES(cuModuleLoadFatBinary)
REFUSES(cuModuleUnload)
REFUSES(cuOccupancyMaxActiveBlocksPerMultiprocessor)
REFUSES(cuStreamGetCtx)
REFUSES(cuStreamSynchronize)
REFUSES(cuTensorMapEncodeTiled)
