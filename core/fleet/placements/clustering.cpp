// Nodes that hold pods of as many GPUs, of these the fullest. Score of Gandiva (Xiao et al., OSDI 2018) as in
// hkust-adsl/kubernetes-scheduler-simulator @8f3d641, pkg/simulator/plugin/gpu_clustering_score.go: whole numbers, in
// four bands of 25.

#include <algorithm>

#include "core/fleet/placement.hpp"

namespace rehearse::fleet {

namespace {

class Clustering final : public Placement {
 public:
  void begin(const Machines& m, const std::vector<PodKind>&, std::uint64_t) override {
    for (int n = 0; n < m.count(); ++n) most_ = std::max(most_, std::int64_t{m[n].gpus} * kWholeGpu);
  }
  double score(const Machines& m, int node, const Pod& pod) override {
    if (pod.gpus == 0) return 0;
    const std::vector<int>& kinds = m[node].kinds;
    const std::size_t mine = pod.milli < kWholeGpu ? 0 : static_cast<std::size_t>(pod.gpus);
    const auto different = std::count_if(kinds.begin(), kinds.end(), [](int n) { return n > 0; });
    const bool alike = mine < kinds.size() && kinds[mine] > 0;
    const int band = alike ? (different == 1 ? 3 : 2) : (different == 0 ? 1 : 0);
    // In whole numbers, as the program has it.
    const std::int64_t full = 25 * (most_ - m[node].free_milli) / most_;
    return static_cast<double>(full) + 25.0 * band;
  }

 private:
  std::int64_t most_ = kWholeGpu;
};

const bool registered_clustering = placements().add(
    {"clustering", "nodes that hold pods of as many GPUs", {}, [] { return std::make_unique<Clustering>(); }});

}  // namespace

}  // namespace rehearse::fleet
