#pragma once
// Placements that weigh cores and GPUs of a node as parts of the largest node's.

#include <algorithm>

#include "core/fleet/placement.hpp"

namespace rehearse::fleet {

class BesideLargestNode : public Placement {
 public:
  void begin(const Machines& m, const std::vector<PodKind>& /*kinds*/, std::uint64_t /*seed*/) override {
    for (int n = 0; n < m.count(); ++n) {
      most_cpu_ = std::max(most_cpu_, m[n].cpu_capacity);
      most_gpu_ = std::max(most_gpu_, static_cast<std::int64_t>(m[n].gpus) * kWholeGpu);
    }
  }

 protected:
  /// 0 where nobody counts cores.
  [[nodiscard]] double cpu_part(std::int64_t milli) const { return part(milli, most_cpu_); }
  [[nodiscard]] double gpu_part(std::int64_t milli) const { return part(milli, most_gpu_); }

 private:
  static double part(std::int64_t amount, std::int64_t of) {
    return of > 0 ? static_cast<double>(amount) / static_cast<double>(of) : 0;
  }
  std::int64_t most_cpu_ = 0, most_gpu_ = 0;
};

}  // namespace rehearse::fleet
