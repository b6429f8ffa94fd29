// Least left over: cores and GPUs of a node that would stay free, each as a part of the largest node's, weighing the
// same. Scores are whole numbers from 0 to 100, as Kubernetes has them. As in Weng et al. (ATC 2023),
// hkust-adsl/kubernetes-scheduler-simulator @8f3d641, pkg/simulator/plugin/best_fit_score.go.

#include <algorithm>
#include <cmath>

#include "core/fleet/placement.hpp"

namespace rehearse::fleet {

namespace {

class BestFit final : public Placement {
 public:
  void begin(const Machines& m, const std::vector<PodKind>&, std::uint64_t) override {
    for (int n = 0; n < m.count(); ++n) {
      cores_ = std::max(cores_, static_cast<double>(m[n].cpu_capacity));
      gpus_ = std::max(gpus_, static_cast<double>(m[n].gpus) * kWholeGpu);
    }
  }
  double score(const Machines& m, int node, const Pod& pod) override {
    const double cores = cores_ > 0 ? static_cast<double>(m[node].cpu_milli - pod.cpu_milli) / cores_ : 0;
    const double gpus = static_cast<double>(m[node].free_milli - pod.gpu_milli()) / gpus_;
    return std::trunc((1 - (0.5 * cores + 0.5 * gpus)) * 100);
  }

 private:
  double cores_ = 0, gpus_ = kWholeGpu;
};

const bool registered_best_fit = placements().add(
    {"best_fit", "the node of which least is left over", {}, [] { return std::make_unique<BestFit>(); }});

}  // namespace

}  // namespace rehearse::fleet
