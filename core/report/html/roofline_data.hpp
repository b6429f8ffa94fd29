#pragma once
// The kernels of a step under the roof of their GPU, as a picture takes them.

#include <string>

#include "core/price/cost_model.hpp"

namespace rehearse {

/// {rank, gpu, bandwidth_bytes_per_s, peaks[{type, flops_per_s}], points[{kernels, type, flops, bytes, seconds,
/// calls}]}, of a step of `rank`, longest first: roofline_of() (core/price/roofline.hpp).
[[nodiscard]] std::string roofline_json(const Program& program, const CostModel& cost, int rank);

}  // namespace rehearse
