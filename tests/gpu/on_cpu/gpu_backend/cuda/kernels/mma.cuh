#pragma once
// The instructions of gpu_backend/cuda/kernels/mma.cuh, by what the PTX manual says of their fragments.

#include <cstdint>
#include <cstring>
#include <deque>
#include <stdexcept>
#include <utility>
#include <vector>

#include <cuda_bf16.h>
#include <cuda_runtime.h>

namespace rehearse::cuda {

struct FragmentA {
  std::uint32_t x[4];
};
struct FragmentB {
  std::uint32_t x[2];
};
struct FragmentC {
  float x[4] = {};
};

inline float low(std::uint32_t both) { return from_bfloat16(static_cast<std::uint16_t>(both & 0xffffu)); }
inline float high(std::uint32_t both) { return from_bfloat16(static_cast<std::uint16_t>(both >> 16)); }
inline std::uint32_t pack(float a, float b) {
  return static_cast<std::uint32_t>(to_bfloat16(a)) | static_cast<std::uint32_t>(to_bfloat16(b)) << 16;
}

inline void multiply(FragmentC& c, const FragmentA& a, const FragmentB& b) {
  const auto both = [](std::uint32_t lower, std::uint32_t upper) {
    return lower | static_cast<std::uint64_t>(upper) << 32;
  };
  const on_cpu::Given* all = on_cpu::meet_warp({both(a.x[0], a.x[1]), both(a.x[2], a.x[3]), both(b.x[0], b.x[1])});
  const auto half = [](std::uint64_t x, int which) { return static_cast<std::uint32_t>(which == 0 ? x : x >> 32); };
  const auto of_pair = [](std::uint32_t x, int odd) { return odd == 0 ? low(x) : high(x); };
  const auto left = [&](int row, int k) {
    return of_pair(half(all[row % 8 * 4 + k % 8 / 2][k < 8 ? 0 : 1], row / 8), k % 2);
  };
  const auto right = [&](int k, int column) { return of_pair(half(all[column * 4 + k % 8 / 2][2], k / 8), k % 2); };
  const int g = on_cpu::lane() / 4, t = on_cpu::lane() % 4;
  for (int i = 0; i < 4; ++i) {
    float sum = c.x[i];
    for (int k = 0; k < 16; ++k) sum += left(g + i / 2 * 8, k) * right(k, 2 * t + i % 2);
    c.x[i] = sum;
  }
}

inline void load(std::uint32_t (&x)[4], const void* row, bool transposed) {
  if (reinterpret_cast<std::uintptr_t>(row) % 16 != 0)
    throw std::logic_error("a row of a matrix that is not aligned to 16 bytes");
  const on_cpu::Given* rows = on_cpu::meet_warp({reinterpret_cast<std::uint64_t>(row)});
  const int g = on_cpu::lane() / 4, t = on_cpu::lane() % 4;
  for (int m = 0; m < 4; ++m) {
    const auto element = [&](int r, int c) {
      return static_cast<std::uint32_t>(reinterpret_cast<const std::uint16_t*>(rows[m * 8 + r][0])[c]);
    };
    x[m] =
        transposed ? element(2 * t, g) | element(2 * t + 1, g) << 16 : element(g, 2 * t) | element(g, 2 * t + 1) << 16;
  }
}
inline void load_matrices(std::uint32_t (&x)[4], const void* row) { load(x, row, false); }
inline void load_transposed(std::uint32_t (&x)[4], const void* row) { load(x, row, true); }

/// Copies of a thread that are on their way, group by group.
struct CopiesAhead {
  struct Copy {
    void* to;
    const void* from;
    bool present;
  };
  std::uint64_t block = 0;
  std::vector<Copy> open;
  std::deque<std::vector<Copy>> groups;

  static void arrive(const Copy& c) {
    if (c.present)
      std::memcpy(c.to, c.from, 16);
    else
      std::memset(c.to, 0, 16);
  }
  static CopiesAhead& mine() {
    static thread_local std::vector<CopiesAhead> all(1024);
    CopiesAhead& out = all[on_cpu::place().thread];
    if (out.block != on_cpu::place().block) {
      out.block = on_cpu::place().block;
      out.open.clear(), out.groups.clear();
    }
    return out;
  }
};
inline void copy_ahead(void* to, const void* from, bool present) {
  if ((reinterpret_cast<std::uintptr_t>(to) | reinterpret_cast<std::uintptr_t>(from)) % 16 != 0)
    throw std::logic_error("a copy ahead between addresses that are not aligned to 16 bytes");
  if (present && !on_cpu_blocks.holds(from, 16)) throw std::logic_error("a copy ahead from beyond its memory");
  if (on_cpu::copies_at_once()) return CopiesAhead::arrive({to, from, present});
  std::memset(to, 0xff, 16);  // NaN, until it is waited for.
  CopiesAhead::mine().open.push_back({to, from, present});
}
inline void end_copies() {
  CopiesAhead& mine = CopiesAhead::mine();
  mine.groups.push_back(std::move(mine.open));
  mine.open.clear();
}
/// But for the last kPending groups.
template <int kPending>
void wait_for_copies() {
  CopiesAhead& mine = CopiesAhead::mine();
  for (; mine.groups.size() > kPending; mine.groups.pop_front())
    for (const CopiesAhead::Copy& c : mine.groups.front()) CopiesAhead::arrive(c);
}

inline unsigned char* launch_memory() { return on_cpu::launch_memory(); }

}  // namespace rehearse::cuda
