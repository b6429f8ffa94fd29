#pragma once
// Predicts the job of a row: one training step and its peak memory. A predictor keeps clusters and price models between
// rows.

#include <filesystem>
#include <memory>
#include <string>

#include "core/scoreboard/rows/row_scenario.hpp"
#include "core/trace/trace.hpp"

namespace rehearse {

/// Where the catalogue, the models and the calibration are.
struct PredictorPaths {
  std::filesystem::path topologies;
  std::filesystem::path models;
};

struct Prediction {
  Seconds step_time;
  Breakdown breakdown;  ///< Of the slowest stage.
  TimeCategory bound_by = TimeCategory::matmul;
  /// Of the fullest GPU, as MemoryRule says; only where the row has a measured one.
  Bytes peak_allocated, peak_reserved;
};

class RowPredictor {
 public:
  /// `backend` is "estimate" for the closed form, or a registered back end. `without`: CalibrationOptions::without.
  RowPredictor(const PredictorPaths& paths, std::string backend, std::string without = {});
  ~RowPredictor();
  RowPredictor(RowPredictor&&) noexcept;

  [[nodiscard]] const Catalogue& catalogue() const;
  [[nodiscard]] const KnownModels& known_models() const;
  /// Throws Error as lower() and the cost model do: for settings that make no sense together, and those that nothing
  /// lowers yet.
  [[nodiscard]] Prediction predict(const RowJob& job);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace rehearse
