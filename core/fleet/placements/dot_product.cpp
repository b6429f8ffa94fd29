// The node whose free cores and GPUs are least aligned with the request: 1 - (free . asked) / 2, each as a part of the
// largest node's. Tetris (Grandl et al., SIGCOMM 2014) as in hkust-adsl/kubernetes-scheduler-simulator @8f3d641,
// pkg/simulator/plugin/dot_product_score.go with its GPUs merged: whole numbers from 0 to 100.

#include <cmath>

#include "core/fleet/placements/largest_node.hpp"

namespace rehearse::fleet {

namespace {

class DotProduct final : public BesideLargestNode {
 public:
  double score(const Machines& m, int node, const Pod& pod) override {
    const double product = cpu_part(m[node].cpu_milli) * cpu_part(pod.cpu_milli) +
                           gpu_part(m[node].free_milli) * gpu_part(pod.gpu_milli());
    return std::trunc(100 * (1 - product / 2));
  }
};

const bool registered_dot_product =
    placements().add({"dot_product", "the node whose free amounts are least like the request", {}, [] {
                        return std::make_unique<DotProduct>();
                      }});

}  // namespace

}  // namespace rehearse::fleet
