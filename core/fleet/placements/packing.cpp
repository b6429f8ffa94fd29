// GPUs in use first, then idle GPUs of nodes in use, then idle nodes. Score of MLaaS (Weng et al., NSDI 2022) as in
// hkust-adsl/kubernetes-scheduler-simulator @8f3d641, pkg/simulator/plugin/gpu_packing_score.go: whole numbers, at most
// 100.

#include <algorithm>
#include <vector>

#include "core/fleet/placement.hpp"

namespace rehearse::fleet {

namespace {

constexpr int kMost = 100;

class Packing final : public Placement {
 public:
  double score(const Machines& m, int node, const Pod& pod) override {
    const Machines::State& s = m[node];
    if (pod.gpus == 0) return 0;
    if (s.free_whole == s.gpus) return std::max(kMost / 3 - s.free_whole, s.free_whole);
    free_.clear();
    for (int g = 0; g < s.gpus; ++g)
      if (const int free = m.gpu_free(s, g); free >= pod.milli) free_.push_back(free);
    std::sort(free_.begin(), free_.end());
    free_.resize(static_cast<std::size_t>(pod.gpus));  // Those with the least free that suffice.
    const auto idle = static_cast<int>(std::count(free_.begin(), free_.end(), kWholeGpu));
    if (idle > 0) return std::max(kMost / 2 - idle, kMost / 3);
    int left = 0;
    for (const int free : free_) left += free * 100 / kWholeGpu;
    return std::max(kMost - left / 10, kMost / 2);
  }

 private:
  std::vector<int> free_;
};

const bool registered_packing = placements().add(
    {"packing", "GPUs in use first, then nodes in use", {}, [] { return std::make_unique<Packing>(); }});

}  // namespace

}  // namespace rehearse::fleet
