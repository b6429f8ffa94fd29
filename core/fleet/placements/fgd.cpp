// Fragmentation gradient descent (Weng et al., "Beware of Fragmentation: Scheduling GPU-Sharing Workloads with
// Fragmentation Gradient Descent", ATC 2023). A node's fragments are the free GPU thousandths that a pod drawn from the
// workload could not use, on average; the node is taken where they grow least. Typical pods are the most frequent kinds
// that make 95 % of all, and scores are whole numbers, 100 sigmoid(gradient / 1000), as in
// hkust-adsl/kubernetes-scheduler-simulator @8f3d641, pkg/simulator/plugin/fgd_score.go and pkg/utils/frag.go.

#include <algorithm>
#include <cmath>

#include "core/fleet/placement.hpp"

namespace rehearse::fleet {

namespace {

constexpr double kTypical = 0.95;

class Fgd final : public Placement {
 public:
  void begin(const Machines& m, const std::vector<PodKind>& kinds, std::uint64_t) override {
    std::vector<PodKind> sorted = kinds;
    std::stable_sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) { return a.share > b.share; });
    double sum = 0;
    for (PodKind& k : sorted) {
      if (sum >= kTypical || k.share == 0) break;
      sum += k.share;
      typical_.push_back(std::move(k));
    }
    for (PodKind& k : typical_) k.share /= sum;
    before_.assign(static_cast<std::size_t>(m.count()), {});
  }

  double score(const Machines& m, int node, const Pod& pod) override { return best(m, node, pod).first; }
  int share(const Machines& m, int node, const Pod& pod) override { return best(m, node, pod).second; }

 private:
  struct Known {
    std::uint32_t version = 0;
    double fragments = 0;
  };

  /// Score, and for a fraction the GPU that gives it.
  std::pair<double, int> best(const Machines& m, int node, const Pod& pod) {
    const Machines::State& s = m[node];
    free_.clear();
    for (int g = 0; g < s.gpus; ++g) free_.push_back(m.gpu_free(s, g));
    Known& known = nth(before_, node);
    if (known.version != s.version) known = {s.version, fragments(s, s.cpu_milli)};
    const std::int64_t cores = s.cpu_milli - pod.cpu_milli;
    if (pod.gpus > 0 && pod.milli < kWholeGpu) {
      std::pair<double, int> out{-1, -1};
      for (int g = 0; g < s.gpus; ++g) {
        int& free = nth(free_, g);
        if (free < pod.milli) continue;
        free -= pod.milli;
        if (const double now = gradient(known.fragments - fragments(s, cores)); now > out.first) out = {now, g};
        free += pod.milli;
      }
      return out;
    }
    int left = pod.gpus;
    for (int& free : free_)
      if (left > 0 && free == kWholeGpu) free = 0, --left;
    return {gradient(known.fragments - fragments(s, cores)), -1};
  }

  static double gradient(double less) { return std::trunc(100 / (1 + std::exp(-less / kWholeGpu))); }

  /// Expected thousandths of free_ that a typical pod cannot use, with `cores` free.
  [[nodiscard]] double fragments(const Machines::State& s, std::int64_t cores) const {
    int all = 0;
    for (const int free : free_) all += free;
    double out = 0;
    for (const PodKind& k : typical_) {
      const bool suits = k.models.empty() || std::find(k.models.begin(), k.models.end(), s.model) != k.models.end();
      int able = 0, small = 0;
      for (const int free : free_) free >= k.pod.milli ? ++able : small += free;
      const bool fits = k.pod.gpus > 0 && suits && able >= k.pod.gpus && cores >= k.pod.cpu_milli;
      out += k.share * (fits ? small : all);
    }
    return out;
  }

  std::vector<PodKind> typical_;
  std::vector<Known> before_;
  std::vector<int> free_;
};

const bool registered_fgd =
    placements().add({"fgd", "the node where fragments grow least, for the pods of this workload", {}, [] {
                        return std::make_unique<Fgd>();
                      }});

}  // namespace

}  // namespace rehearse::fleet
