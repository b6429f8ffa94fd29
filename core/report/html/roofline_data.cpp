#include "core/report/html/roofline_data.hpp"

#include <nlohmann/json.hpp>

#include "core/price/roofline.hpp"

namespace rehearse {

std::string roofline_json(const Program& program, const CostModel& cost, int rank) {
  const Roofline roof = roofline_of(program, cost, rank);
  nlohmann::ordered_json out{{"rank", rank},
                             {"gpu", roof.gpu},
                             {"bandwidth_bytes_per_s", roof.bandwidth.value()},
                             {"peaks", nlohmann::ordered_json::array()},
                             {"points", nlohmann::ordered_json::array()}};
  for (const auto& [type, peak] : roof.peaks)
    out["peaks"].push_back({{"type", name_of(type)}, {"flops_per_s", peak.value()}});
  for (const RooflinePoint& p : roof.points)
    out["points"].push_back({{"kernels", name_of(p.cls)},
                             {"type", name_of(p.arithmetic)},
                             {"flops", p.flops.value()},
                             {"bytes", p.bytes.value()},
                             {"seconds", p.time.value()},
                             {"calls", p.calls}});
  return out.dump();
}

}  // namespace rehearse
