#pragma once
// Weights that come from a file of safetensors in place of initial values, and the file that a run leaves behind. Both
// are of the model, not of the plan: each rank reads the elements that it holds, and rank 0 writes those of all.

#include <string>
#include <vector>

#include "core/weights/safetensors_writer.hpp"
#include "core/weights/weight_files.hpp"
#include "core/weights/weight_names.hpp"
#include "gpu_backend/execute/executor.hpp"

namespace rehearse {

/// The parameters of a Program, whichever ranks hold them.
[[nodiscard]] std::vector<NamedParameter> named_parameters(const Program& program);

/// A file of weights that fits a Program.
class GivenWeights {
 public:
  /// Takes the scheme under which the files have every parameter, in its shape; names of our own are one. Throws Error
  /// (usage) where none fits: what the nearest one misses.
  GivenWeights(const std::string& path, const Program& program, const std::vector<WeightNames>& schemes);

  /// Sets this rank's parameters, and full-precision copies of them. Whatever an optimizer keeps beside them stays.
  void load(Executor& executor, ComputeDevice& device);
  /// Name of the scheme; "rehearse" for names of our own.
  [[nodiscard]] const std::string& scheme() const { return scheme_; }
  /// Tensors of the files that no parameter took, without those that are known to hold none.
  [[nodiscard]] const std::vector<std::string>& unused() const { return unused_; }

 private:
  struct Fit;
  [[nodiscard]] Fit fit(const WeightNames& scheme, WeightPieces pieces);
  /// Elements [first, first + to.size()) of a parameter.
  void read(const std::string& parameter, std::int64_t first, std::span<double> to);
  void read_piece(const WeightPiece& piece, std::int64_t first, std::span<double> to);

  WeightFiles files_;
  WeightPieces pieces_;  ///< By the names that the files have.
  std::string scheme_;
  std::vector<std::string> unused_;
  std::string turned_name_;     ///< Of the transposed tensor that was read last,
  std::vector<double> turned_;  ///< and its elements as the parameter has them.
};

/// Writes the parameters as they are before the next step, in the arithmetic of the run, under the names of `scheme`;
/// empty: those of the first that names them all, else our own. All ranks call it, rank 0 writes. Returns the scheme.
/// Throws Error: usage for a scheme that does not name every parameter, check_failed where the disk refuses.
std::string save_weights(const std::string& path, const std::string& scheme, const std::vector<WeightNames>& schemes,
                         const Program& program, Executor& executor, ComputeDevice& device, Transport& transport);

}  // namespace rehearse
