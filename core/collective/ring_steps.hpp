#pragma once
// The steps of a ring all-reduce: which rank sends which piece when. The data are cut into as many pieces as there are
// ranks. In the first n - 1 steps a rank adds its own part to what comes and passes it on; then each rank has one piece
// of the sum, and n - 1 more steps hand these around. Each rank sends 2(n - 1) pieces of a n-th, as each receives.
//
//   for (const RingStep& s : ring_all_reduce(4)) ...  // 24 of them: 6 steps of 4 ranks.
//
// The order of pieces is that of NCCL 2.28.9 (src/device/all_reduce.h, runRing). Baidu's all-reduce and Horovod do the
// same but for where the pieces begin (Patarasuk and Yuan 2009, "Bandwidth optimal all-reduce algorithms").

#include <vector>

namespace rehearse {

struct RingStep {
  int step = 0;  ///< From 0; all ranks send at the same time.
  int from = 0;  ///< Sends to `from` + 1, the last one to 0.
  int piece = 0;
  bool adds = false;  ///< The receiver adds its own part; else it keeps what comes, which is the sum.
};

/// In order of steps, then of ranks. `ranks` is at least 1; one rank sends nothing.
[[nodiscard]] std::vector<RingStep> ring_all_reduce(int ranks);

}  // namespace rehearse
