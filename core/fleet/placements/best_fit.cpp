// Least left over: cores and GPUs of a node that would stay free, each as a part of the largest node's, weighing the
// same. Scores are whole numbers from 0 to 100, as Kubernetes has them. As in Weng et al. (ATC 2023),
// hkust-adsl/kubernetes-scheduler-simulator @8f3d641, pkg/simulator/plugin/best_fit_score.go.

#include <cmath>

#include "core/fleet/placements/largest_node.hpp"

namespace rehearse::fleet {

namespace {

class BestFit final : public BesideLargestNode {
 public:
  double score(const Machines& m, int node, const Pod& pod) override {
    const double cores = cpu_part(m[node].cpu_milli - pod.cpu_milli),
                 gpus = gpu_part(m[node].free_milli - pod.gpu_milli());
    return std::trunc((1 - (0.5 * cores + 0.5 * gpus)) * 100);
  }
};

const bool registered_best_fit = placements().add(
    {"best_fit", "the node of which least is left over", {}, [] { return std::make_unique<BestFit>(); }});

}  // namespace

}  // namespace rehearse::fleet
