#pragma once
// What ranges are fitted on: how far predictions were off, by source, kind of model, GPU generation and framework.
//
// Errors are natural logarithms of measured / predicted step time: 0.1 is a step that took 10 % longer than predicted.
// The same of peak memory, where that was measured.

#include <filesystem>
#include <string>
#include <vector>

namespace rehearse {

struct Scoreboard;  // core/scoreboard/scoreboard.hpp

/// What kind of job a prediction is for. An empty text says that it isn't known.
struct PredictionKind {
  std::string model;        ///< "dense", "experts", "encoders" (BERT and its like) or "images".
  std::string generation;   ///< Of the GPUs; empty where a cluster mixes several.
  std::string framework{};  ///< What trains, without its release: "megatron-core". Empty: none is stated.
  bool operator==(const PredictionKind&) const = default;
};

/// Rows that one source measured of one kind.
struct ErrorGroup {
  std::string source;
  PredictionKind kind;
  int rows = 0;
  double mean = 0;       ///< Of the logarithms.
  double deviation = 0;  ///< Their standard deviation, with rows - 1 below; 0 for one row.
  /// Whether the errors are those of predictions made before anyone had seen the source. The others are of sources
  /// whose rows were looked at while mechanisms were mended, which says little about how far sources differ.
  bool first = false;
  /// Whether what was measured is in doubt: ranges are not fitted on it, but judged by it.
  bool doubtful = false;
  /// The rows' own errors; empty where only mean and deviation are known.
  std::vector<double> errors{};
};

/// Mean and deviation of `errors`, which must not be empty.
[[nodiscard]] ErrorGroup group_of(std::string source, PredictionKind kind, std::vector<double> errors);

/// What was predicted and measured.
enum class ErrorQuantity { step_time, peak_memory };

/// Errors of topologies/first_errors.json. Throws Error (usage) with file and JSON path for anything missing or
/// mistyped.
[[nodiscard]] std::vector<ErrorGroup> load_first_errors(const std::filesystem::path& file,
                                                        ErrorQuantity quantity = ErrorQuantity::step_time);

/// Rows that count, and hold the quantity, by the words that their citations begin with.
[[nodiscard]] std::vector<ErrorGroup> groups_of(const Scoreboard& board,
                                                ErrorQuantity quantity = ErrorQuantity::step_time);

/// The name under which a framework's errors are kept, from what rows call it: in lower case, without release, year and
/// remarks, words joined by '-'. "Megatron-LM 2021" is "megatron-lm", "torchtitan@0.2" "torchtitan", "NeMo AutoModel,
/// PyTorch FSDP2" "nemo-automodel".
[[nodiscard]] std::string framework_name(const std::string& text);

}  // namespace rehearse
