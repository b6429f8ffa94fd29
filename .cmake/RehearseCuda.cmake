# The CUDA language, where a working nvcc is found. Included by the root: a language must be enabled in a directory above
# every target that compiles or links it, and the program in core/cli links the kernels of gpu_backend.
# Sets REHEARSE_CUDA_LANGUAGE. Without nvcc everything else builds as it does with it.
include(CheckLanguage)
check_language(CUDA)
if(CMAKE_CUDA_COMPILER)
  if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
    set(CMAKE_CUDA_ARCHITECTURES 80 90)  # Ampere and Hopper; newer GPUs compile the last one's PTX when they load it.
  endif()
  enable_language(CUDA)
  set(REHEARSE_CUDA_LANGUAGE ON)
else()
  set(REHEARSE_CUDA_LANGUAGE OFF)
endif()
