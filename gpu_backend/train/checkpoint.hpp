#pragma once
// Checkpoints: every persistent tensor of every rank, bit for bit. A checkpoint is a folder per step; it counts once
// all ranks' files are complete, so that a run that dies while writing leaves the one before.
//
//   DIRECTORY/step-000120/rank-0003.bin    header (magic, version, Program's hash, numerics, step, rank), then per
//   tensor name, bytes, data DIRECTORY/step-000120/complete         written by rank 0 after all ranks' files are on
//   disk

#include <cstdint>
#include <optional>
#include <string>

#include "gpu_backend/execute/executor.hpp"

namespace rehearse {

class Checkpoints {
 public:
  Checkpoints(std::string directory, std::uint64_t program_hash, Numerics numerics);

  /// Writes the state before step `executor.next_step()`; all ranks call it. Throws Error (check_failed) with file and
  /// cause where the disk refuses.
  void save(Executor& executor, ComputeDevice& device, Transport& transport) const;
  /// Number of the newest complete checkpoint's next step, of those below `before` where that is given; nothing where
  /// there is none.
  [[nodiscard]] std::optional<std::int64_t> newest(std::optional<std::int64_t> before = {}) const;
  /// The same for who is to go on from one. Throws Error (usage) where there is none.
  [[nodiscard]] std::int64_t newest_to_resume() const;
  /// Reads it. Throws Error (usage) where it belongs to another Program or numerics, or a file is damaged.
  void load(std::int64_t step, Executor& executor, ComputeDevice& device, int rank) const;

 private:
  [[nodiscard]] std::string folder(std::int64_t step) const;
  std::string directory_;
  std::uint64_t hash_;
  Numerics numerics_;
};

}  // namespace rehearse
