// Near each other: a job of several pods goes into one rack where it fits, the one with the least room; else into the
// racks with the most, so that it spans few. Within a rack, the node with the least free.

#include <algorithm>

#include "core/fleet/placement.hpp"

namespace rehearse::fleet {

namespace {

class Topology final : public Placement {
 public:
  void job(const Machines& m, int pool, const std::vector<Pod>& pods) override {
    preference_.assign(static_cast<std::size_t>(m.rack_count()), 0);
    std::vector<int> room(preference_.size(), 0);
    const Pod& pod = pods.front();
    for (const int node : m.in_pool(pool))
      if (m.fits(node, pod)) nth(room, m[node].rack) += pods_in(m, node, pod);
    const auto wanted = static_cast<int>(pods.size());
    for (std::size_t r = 0; r < room.size(); ++r)  // One that holds all, tightest first; else the roomiest.
      preference_[r] = room[r] >= wanted ? kWhole - room[r] : room[r];
  }
  double score(const Machines& m, int node, const Pod&) override {
    return nth(preference_, m[node].rack) - static_cast<double>(m[node].free_milli) / kNode;
  }
  bool keeps() const override { return false; }

 private:
  static constexpr double kWhole = 1e9, kNode = 1e7;  // A rack outweighs any node.

  static int pods_in(const Machines& m, int node, const Pod& pod) {
    if (pod.gpus == 0) return 1;
    return pod.milli < kWholeGpu ? static_cast<int>(m[node].free_milli / pod.milli) : m[node].free_whole / pod.gpus;
  }

  std::vector<double> preference_;
};

const bool registered_topology = placements().add(
    {"topology", "in one rack where the job fits, else in few", {}, [] { return std::make_unique<Topology>(); }});

}  // namespace

}  // namespace rehearse::fleet
