#pragma once
// From a row of a measurement file to a job that can be predicted. Explicit code per field, in four parts:
// row_model.cpp, row_cluster.cpp, row_strategy.cpp, row_pipeline.cpp. Fields come from the row, else from
// file_meta.defaults, else topologies/row_defaults.json.

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/config/scenario.hpp"
#include "core/framework/framework.hpp"
#include "core/hardware/catalogue.hpp"
#include "core/scoreboard/rows/known_models.hpp"
#include "core/scoreboard/rows/row_fields.hpp"

namespace rehearse {

/// What was measured, as seconds of something.
struct Measured {
  std::string name;  ///< "iteration_time_s", "tokens_per_s_per_gpu", ...: the field it was read from.
  double value = 0;  ///< In its own unit.
  Seconds time;      ///< The same as a time.
  std::optional<Bytes> peak_allocated, peak_reserved;  ///< Of the worst GPU, where the row has them.
};

/// A row ready to be predicted: a training step.
struct RowJob {
  Scenario scenario;  ///< Axes resolved; cluster by machine, nodes and network.
  int gpus = 0;
  int gpus_per_domain = 0;  ///< GPUs used of each machine; fewer than it has where a rack keeps some back.
  Measured measured;
  std::string gpu;          ///< Catalogue id.
  std::string generation;   ///< Of the GPU.
  std::string strategy;     ///< "tp + pp + dp", for groups.
  std::string model_kind;   ///< "dense", "experts", "images".
  std::string framework;    ///< What trains, as framework_name() has it (core/scoreboard/ranges); empty: not stated.
  std::int64_t layers = 0;  ///< Of the model; 0: unknown.
  std::string release;      ///< Of the software, where known.
  /// What stays the same from release to release: model, GPU, number of them, precision, task.
  std::string configuration;
};

/// A row, read: either a job or the reason why there is none.
struct MappedRow {
  std::string id, source, file;
  std::optional<RowJob> job;
  std::string skipped;            ///< Reason that rows are counted by; empty with a job.
  std::string detail;             ///< More about it, for the reader.
  std::vector<Assumption> trail;  ///< Every field, and where it is from.
  /// Fields that matter and that nobody states: the row is listed but counts in no error figure.
  std::vector<std::string> guessed;
  std::set<std::string> asked;  ///< Fields that the mapping looked for.
};

/// What rows are read with.
struct RowSources {
  const RowDefaults& defaults;  ///< For rows of any file.
  const Frameworks& frameworks;
  const Catalogue& catalogue;
  const KnownModels& models;
};

/// Never throws for what a row says: it becomes a reason.
[[nodiscard]] MappedRow map_row(const Measurement& row, const RowSources& from);

/// The row as a scenario file: what it, or its file, states, its model, its cluster and its framework. Absent where the
/// row is no job, and where its last node has fewer GPUs than the others, which no scenario says.
[[nodiscard]] std::optional<std::string> scenario_text(const MappedRow& row);

// The parts. They throw RowSkipped.

/// Sets scenario.model, training.sequence_length, the model's kind and its layers.
void map_model(RowFields& fields, const KnownModels& models, RowJob& job);
/// Sets scenario.cluster, gpus and gpu.
void map_cluster(RowFields& fields, const Catalogue& catalogue, RowJob& job);
/// Sets the other settings: axes, batch, schedule, precision, recomputation, overlap, kernels.
void map_strategy(RowFields& fields, RowJob& job);
/// Sets what the row leaves to its software, as the profile has it that `profile` names. After the other parts.
void map_framework(RowFields& fields, const Frameworks& frameworks, RowJob& job);
/// The parts of map_strategy that row_pipeline.cpp has: schedule, chunks and their layers; over which ranks state is
/// divided.
void map_schedule(RowFields& fields, RowJob& job);
void map_sharding(RowFields& fields, RowJob& job);
/// Size of gradient buckets, where software states one. After sharding and precision.
void map_buckets(RowFields& fields, RowJob& job);

}  // namespace rehearse
