#pragma once
// What 1F1B schedules over several chunks per stage have in common: groups of p microbatches walk a stage's chunks,
// backwards in reverse.

#include <string>

#include "core/schedule/schedule.hpp"

namespace rehearse {

class Interleaving : public Schedule {
 public:
  std::vector<Slot> order(int stage, const PipelineShape& shape) const override;
  double bubble_ratio(const PipelineShape& shape, const PassTimes& times) const override;
  int chunks_in_flight(int stage, const PipelineShape& shape) const override;

 protected:
  /// `more_ahead`: forwards before the first backward beyond those of interleaved 1F1B.
  explicit Interleaving(int more_ahead) : more_ahead_(more_ahead) {}
  /// Throws Error (usage) where pp does not divide the microbatches.
  static void check_groups(std::string_view name, const PipelineShape& shape);

 private:
  [[nodiscard]] int warmup(int stage, const PipelineShape& shape) const;

  int more_ahead_;
};

}  // namespace rehearse
