#pragma once
// Tensor-core instructions of Ampere and later, each as one function of a whole warp; fragments are laid out as the PTX
// manual says (mma.m16n8k16).

#include <cuda_bf16.h>

#include <cstdint>

namespace rehearse::cuda {

/// Lane l holds, with g = l / 4 and t = l % 4, of A [16, 16]: rows g, g + 8 at columns 2t, 2t + 1 (registers 0, 1), and
/// the same 8 columns on (2, 3); of B [16, 8]: rows 2t, 2t + 1 at column g (register 0), and 8 rows on (1); of C [16,
/// 8]: row g at columns 2t, 2t + 1 (0, 1), and row g + 8 (2, 3).
struct FragmentA {
  std::uint32_t x[4];
};
struct FragmentB {
  std::uint32_t x[2];
};
struct FragmentC {
  float x[4] = {};
};

/// C += A B.
__device__ __forceinline__ void multiply(FragmentC& c, const FragmentA& a, const FragmentB& b) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};\n"
      : "+f"(c.x[0]), "+f"(c.x[1]), "+f"(c.x[2]), "+f"(c.x[3])
      : "r"(a.x[0]), "r"(a.x[1]), "r"(a.x[2]), "r"(a.x[3]), "r"(b.x[0]), "r"(b.x[1]));
}

/// Two numbers side by side, rounded to bfloat16.
__device__ __forceinline__ std::uint32_t pack(float low, float high) {
  const __nv_bfloat162 both = __floats2bfloat162_rn(low, high);
  return *reinterpret_cast<const std::uint32_t*>(&both);
}

/// Four 8 x 8 matrices of 16-bit numbers from shared memory: lane l gives the address of row l % 8 of matrix l / 8 (16
/// bytes, aligned), and gets of each matrix the elements (l / 4, 2 (l % 4)) and the one after it.
__device__ __forceinline__ void load_matrices(std::uint32_t (&x)[4], const void* row) {
  const auto at = static_cast<std::uint32_t>(__cvta_generic_to_shared(row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];\n"
               : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
               : "r"(at)
               : "memory");
}
/// The same, each matrix transposed.
__device__ __forceinline__ void load_transposed(std::uint32_t (&x)[4], const void* row) {
  const auto at = static_cast<std::uint32_t>(__cvta_generic_to_shared(row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];\n"
               : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
               : "r"(at)
               : "memory");
}

/// 16 bytes to shared memory without passing through registers; zeros where `present` is false.
__device__ __forceinline__ void copy_ahead(void* to, const void* from, bool present) {
  const auto at = static_cast<std::uint32_t>(__cvta_generic_to_shared(to));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(at), "l"(from), "r"(present ? 16 : 0)
               : "memory");
}
/// Ends a batch of copies.
__device__ __forceinline__ void end_copies() { asm volatile("cp.async.commit_group;\n" ::: "memory"); }
/// Waits until at most `kPending` batches are under way.
template <int kPending>
__device__ __forceinline__ void wait_for_copies() {
  asm volatile("cp.async.wait_group %0;\n" ::"n"(kPending) : "memory");
}

/// Shared memory whose size the launch gives.
__device__ __forceinline__ unsigned char* launch_memory() {
  extern __shared__ __align__(16) unsigned char memory_of_launch[];
  return memory_of_launch;
}

}  // namespace rehearse::cuda
