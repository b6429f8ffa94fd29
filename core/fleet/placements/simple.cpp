// Placements of a line each: the first node, the emptiest, any by chance, or GPUs counted and not placed.

#include <algorithm>

#include "core/fleet/placement.hpp"

namespace rehearse::fleet {

namespace {

class First final : public Placement {
 public:
  double score(const Machines&, int, const Pod&) override { return 0; }
};

class Spread final : public Placement {
 public:
  double score(const Machines& m, int node, const Pod&) override {
    return static_cast<double>(m[node].free_milli) / std::max(1, m[node].gpus);
  }
};

class Count final : public Placement {
 public:
  double score(const Machines&, int, const Pod&) override { return 0; }
  bool scatters() const override { return true; }
};

/// Any node, and any GPU of it for a fraction.
class Random final : public Placement {
 public:
  void begin(const Machines&, const std::vector<PodKind>&, std::uint64_t seed) override { draw_.seed(seed); }
  double score(const Machines&, int, const Pod&) override { return static_cast<double>(draw_()); }
  bool keeps() const override { return false; }
  int share(const Machines& m, int node, const Pod& pod) override {
    int out = -1;
    std::uint64_t able = 0;
    for (int g = 0; g < m[node].gpus; ++g)
      if (m.gpu_free(m[node], g) >= pod.milli && draw_() % ++able == 0) out = g;
    return out;
  }

 private:
  std::mt19937_64 draw_;
};

template <class P>
PlacementFactory of() {
  return [] { return std::make_unique<P>(); };
}

const bool registered_first = placements().add({"first", "the first node with room", {}, of<First>()});
const bool registered_spread = placements().add({"spread", "the node with most free", {}, of<Spread>()});
const bool registered_count = placements().add({"count", "GPUs of any nodes: counted, not placed", {}, of<Count>()});
const bool registered_random = placements().add({"random", "any node with room", {}, of<Random>()});

}  // namespace

}  // namespace rehearse::fleet
