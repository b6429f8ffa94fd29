#pragma once
// The kernels of one rank's step as a roofline sees them (Williams, Waterman and Patterson, "Roofline", CACM 2009):
// what they compute, what they must move, and how long they take.

#include <map>
#include <vector>

#include "core/price/cost_model.hpp"

namespace rehearse {

/// Kernels of one class and type, all together. Its intensity is flops / bytes, its rate flops / time.
struct RooflinePoint {
  KernelClass cls = KernelClass::gemm;
  DType arithmetic = DType::bf16;
  Flops flops;
  Bytes bytes;       ///< Each operand read and written once: the least that crosses device memory.
  Seconds time;      ///< Each kernel with the device to itself, in-kernel overheads included; launches are not.
  double calls = 0;  ///< Tasks of the Program.
};

struct Roofline {
  std::string gpu;                        ///< Its name.
  BytesPerSecond bandwidth;               ///< Of device memory, as the datasheet says.
  std::map<DType, FlopsPerSecond> peaks;  ///< Of the products in `points`, dense, as the datasheet says.
  std::vector<RooflinePoint> points;      ///< Longest time first; none that takes no time.
};

/// Of a step of `rank`. A call's sizes are those of its first microbatch; what runs on the host is left out.
[[nodiscard]] Roofline roofline_of(const Program& program, const CostModel& cost, int rank);

}  // namespace rehearse
