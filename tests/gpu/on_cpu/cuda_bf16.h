#pragma once
// bfloat16 on the CPU.

#include "gpu_backend/execute/numerics.hpp"

struct __nv_bfloat16 { std::uint16_t bits; };
inline float __bfloat162float(__nv_bfloat16 x) { return rehearse::from_bfloat16(x.bits); }
inline __nv_bfloat16 __float2bfloat16_rn(float x) { return {rehearse::to_bfloat16(x)}; }
