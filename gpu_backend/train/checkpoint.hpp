#pragma once
// Checkpoints: every persistent tensor of every rank, bit for bit. A checkpoint is a folder per step; it counts once
// all ranks' files are complete, so that a run that dies while writing leaves the one before.
//
//   DIRECTORY/step-000120/rank-0003.bin    one rank's tensors (checkpoint_file.hpp)
//   DIRECTORY/step-000120/complete         written by rank 0 after all ranks' files are on disk
//
// The plan that wrote it goes on bit for bit. Another plan of the same run, with other axes, stages, schedules,
// sharding or number of ranks, takes what it needs of each rank's state from the files of all (state.hpp).

#include <cstdint>
#include <optional>
#include <string>

#include "gpu_backend/execute/executor.hpp"
#include "gpu_backend/train/checkpoint_file.hpp"

namespace rehearse {

/// How a run goes on.
struct Resumed {
  std::int64_t step = 0;
  int ranks = 0;              ///< That wrote the checkpoint.
  bool divided_anew = false;  ///< By another plan than this one.
};

class Checkpoints {
 public:
  /// Of a run of `program`, which outlives this, in `directory`.
  Checkpoints(std::string directory, const Program& program, Numerics numerics);

  /// Writes the state before step `executor.next_step()`; all ranks call it. Throws Error (check_failed) with file and
  /// cause where the disk refuses.
  void save(Executor& executor, ComputeDevice& device, Transport& transport) const;
  /// Number of the newest complete checkpoint's next step, of those below `before` where that is given; nothing where
  /// there is none.
  [[nodiscard]] std::optional<std::int64_t> newest(std::optional<std::int64_t> before = {}) const;
  /// The same for who is to go on from one. Throws Error (usage) where there is none.
  [[nodiscard]] std::int64_t newest_to_resume() const;
  /// Throws what load() would for what its files say of the run that wrote them, without reading it.
  void check(std::int64_t step) const;
  /// Reads what this rank holds. Throws Error (usage) where it is of a run with another model, optimizer, precision or
  /// data, or a file is damaged.
  Resumed load(std::int64_t step, Executor& executor, ComputeDevice& device, const Transport& transport) const;

 private:
  [[nodiscard]] std::string folder(std::int64_t step) const;
  [[nodiscard]] CheckpointReader reader(std::int64_t step, int rank) const;
  [[nodiscard]] std::vector<CheckpointReader> readers_of_all(std::int64_t step) const;
  [[nodiscard]] bool wrote(const CheckpointHeader& header, int rank, int ranks) const;
  void load_own(CheckpointReader& in, Executor& executor, ComputeDevice& device) const;

  std::string directory_;
  const Program& program_;
  Numerics numerics_;
};

}  // namespace rehearse
