// The node whose free cores and GPUs are least aligned with the request: 1 - (free . asked) / 2, each as a part of the
// largest node's. Tetris (Grandl et al., SIGCOMM 2014) as in hkust-adsl/kubernetes-scheduler-simulator @8f3d641,
// pkg/simulator/plugin/dot_product_score.go with its GPUs merged: whole numbers from 0 to 100.

#include <algorithm>
#include <cmath>

#include "core/fleet/placement.hpp"

namespace rehearse::fleet {

namespace {

class DotProduct final : public Placement {
 public:
  void begin(const Machines& m, const std::vector<PodKind>&, std::uint64_t) override {
    for (int n = 0; n < m.count(); ++n) {
      cores_ = std::max(cores_, static_cast<double>(m[n].cpu_capacity));
      gpus_ = std::max(gpus_, static_cast<double>(m[n].gpus) * kWholeGpu);
    }
  }
  double score(const Machines& m, int node, const Pod& pod) override {
    const auto part = [](std::int64_t amount, double of) { return of > 0 ? static_cast<double>(amount) / of : 0; };
    const double product = part(m[node].cpu_milli, cores_) * part(pod.cpu_milli, cores_) +
                           part(m[node].free_milli, gpus_) * part(pod.gpu_milli(), gpus_);
    return std::trunc(100 * (1 - product / 2));
  }

 private:
  double cores_ = 0, gpus_ = kWholeGpu;
};

const bool registered_dot_product =
    placements().add({"dot_product", "the node whose free amounts are least like the request", {}, [] {
                        return std::make_unique<DotProduct>();
                      }});

}  // namespace

}  // namespace rehearse::fleet
