#pragma once
// Which ranks can share memory: those of one machine, where the system lets them.

#include <memory>
#include <string>
#include <vector>

#include "gpu_backend/communicate/memory/pipes.hpp"

namespace rehearse {

class Neighbours {
 public:
  /// All ranks make one, and find out by trying. Waits for them.
  Neighbours(const MeetingBoard& board, int rank, int ranks);

  /// Whether each of these ranks reaches the memory of each other; the same answer on all of them.
  [[nodiscard]] bool share_memory(const std::vector<int>& ranks) const;

 private:
  std::unique_ptr<SharedBlock> tried_;
  std::vector<std::string> reached_;  ///< By rank: a '1' or '0' for every rank.
};

}  // namespace rehearse
