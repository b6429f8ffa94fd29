#include "core/collective/ring_steps.hpp"

namespace rehearse {

std::vector<RingStep> ring_all_reduce(int ranks) {
  std::vector<RingStep> out;
  for (int step = 0; step < 2 * (ranks - 1); ++step)
    for (int rank = 0; rank < ranks; ++rank)
      out.push_back({step, rank, (rank - 1 - step + 2 * ranks) % ranks, step < ranks - 1});
  return out;
}

}  // namespace rehearse
