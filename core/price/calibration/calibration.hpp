#pragma once
// Measured constants of the kernel model: per GPU generation and kernel class, each with its source, the number of rows
// it was fitted on, its sensitivity and the held-out error of its group. Files under topologies/calibration:
//   <generation>.json  what was measured on GPUs of that generation, with overrides for GPUs that were measured
//   themselves; fallback.json      what to assume of a GPU that nobody measured, and of classes that a generation has
//   no rows for.
// A constant belongs to a GPU generation and a kernel class, never to a benchmark row, a paper or a model.

#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/config/settings/forward.hpp"
#include "core/hardware/specs.hpp"

namespace rehearse {

/// Absolute relative errors |predicted / measured - 1| over `rows` rows, and the bias: median of predicted / measured
/// - 1.
struct ErrorSummary {
  int rows = 0;
  double median = 0;
  double p90 = 0;
  double bias = 0;
};

/// One constant. `rows` is 0 for one that was not fitted here; its source then says where the figure is from.
struct CalibrationConstant {
  double value = 0;
  std::string source;  ///< Key into the profile's `sources`.
  int rows = 0;
  double sensitivity = 0;  ///< Mean d ln(time) / d ln(constant) over the rows it was fitted on; 0 when not fitted.
};

/// The constants of one kernel class, and how far the class was off on rows that the fit did not see.
struct KernelCalibration {
  std::string formula;                   ///< "soft_roofline" or "tile_wave" for products, else empty.
  std::vector<std::string> measured_on;  ///< GPU ids; empty when nothing was measured.
  ErrorSummary held_out;
  std::map<std::string, CalibrationConstant> constants;
};

/// What was read to get the numbers: one entry per file, with a hash of the ids of the rows used.
struct FittedOn {
  std::string file;
  std::string file_hash;  ///< FNV-1a of the content, 16 hex digits.
  int rows = 0;
  std::string rows_hash;  ///< FNV-1a over the ids in order.
  bool operator==(const FittedOn&) const = default;
};

/// One class of shapes in the report of a fit.
struct ErrorRow {
  std::string what;  ///< "gemm a100_sxm4_80 tile_wave 1-4 waves".
  ErrorSummary held_out;
};

using KernelGroups = std::map<std::string, KernelCalibration, std::less<>>;

struct CalibrationProfile {
  std::string generation;  ///< "ampere"; "fallback" for the rules.
  std::string attention;   ///< Group of the flash implementation in use: "attention_flash2".
  std::vector<Source> sources;
  KernelGroups groups;  ///< "gemm", "gemm_fp8", "attention_flash2", "norm", "launch", "power", ...
  /// Overrides by GPU id; a group may hold only some constants.
  std::map<std::string, KernelGroups, std::less<>> gpus;
  std::vector<ErrorRow> errors;  ///< Held-out errors of every formula tried, also of the one not chosen.
  std::vector<FittedOn> fitted_on;

  /// Throws Error (usage) naming the profile, the group and the constant when absent.
  [[nodiscard]] double value(std::string_view group, std::string_view constant) const;
  [[nodiscard]] double value_or(std::string_view group, std::string_view constant, double otherwise) const;
  [[nodiscard]] const KernelCalibration* find(std::string_view group) const;
  [[nodiscard]] const Source& source(std::string_view key) const;
};

/// One line of what a prediction rests on.
struct EvidenceItem {
  std::string what;  ///< "gemm constants of a100_sxm4_80".
  Evidence evidence = Evidence::estimate;
  std::string source;     ///< Citation.
  ErrorSummary held_out;  ///< rows is 0 when no measurement tests it.
};

/// Reads one file. Throws Error (usage) with the file and the JSON path on anything missing, unknown, mistyped or not
/// finite.
[[nodiscard]] CalibrationProfile parse_calibration(std::string_view json_text, const std::string& file);
/// Writes it; keys sorted, so that the same profile gives the same bytes.
[[nodiscard]] std::string to_json(const CalibrationProfile& profile);

struct CalibrationOptions {
  /// Flash implementation: "flash2", "flash3", "cudnn"; empty takes the generation's default.
  std::string attention{};
  /// That default, too, where nobody measured `attention` on the generation; else it is an error.
  bool attention_or_default = false;
  /// Kernels one at a time, as benchmarks run them: constants fitted on training steps do not apply.
  bool bursts = false;
  /// StepConstant::rows_of: those fitted on these rows are left at what they were before; empty: all apply.
  std::string without{};
  std::string host{};      ///< Constants of group "launch_HOST" take the place of those in "launch"; empty: none do.
  std::string products{};  ///< What group "power_PRODUCTS" has goes before "power"; empty: "power" itself.

  bool operator==(const CalibrationOptions&) const = default;
};

/// What a scenario's kernels ask of a profile.
[[nodiscard]] CalibrationOptions calibration_options(const KernelSettings& kernels);

/// The profile of one GPU: fallback rules, then its generation, then its own overrides. Where the generation names the
/// energy of an operation (group "power"), the efficiency of 16-bit products that were not measured on this GPU is
///   min(uncapped_efficiency, TDP / (bf16 peak * joules_per_flop)),
/// because a chip with the same units and less power sustains less; those in fp8 and fp4 that were not measured on it
/// scale as these do or would. Where a chip is sold with slower tensor cores around the same SMs (peak per SM below 0.6
/// of reference_flops_per_sm: H20, GeForce), what a kernel loses beside its operations takes as long and is a smaller
/// share: uncapped_efficiency e, and attention's, become 1 / (1 + (1 / e - 1) share), and starts told in k or keys
/// shrink with the share. Constants carried over from another GPU count as estimates. In steady training no efficiency
/// is above reference_joules_per_flop / sustained_joules_per_flop times the clock that the power limit allows, the cube
/// root of TDP / (bf16 peak * reference_joules_per_flop), where the generation states both; that in fp8 is then the one
/// in 16 bits times sustained_joules_per_flop / (2 * sustained_joules_per_fp8_flop), where it states that too. Throws
/// Error (usage) for an attention implementation the generation has no constants for.
[[nodiscard]] CalibrationProfile resolve_calibration(const CalibrationProfile& fallback,
                                                     const CalibrationProfile* generation, const GpuSpec& gpu,
                                                     const CalibrationOptions& options = {});

/// One constant that no kernel benchmark gives and that was fitted on measured training steps:
/// topologies/calibration/steps.json. It goes before the generation's own, which is what a refit without those steps
/// leaves.
struct StepConstant {
  std::string generation;  ///< Empty: all.
  std::string gpu{};       ///< Of the generation's, which is stated then; empty: all.
  std::string group, constant;
  double value = 0;
  std::string source;   ///< Citation of the rows, and which of them.
  std::string rows_of;  ///< Text that the rows' own citation holds.
  std::string model;    ///< Only rows of this kind of model ("dense"); empty: of any.
  /// Every how many of the rows that name the source were fitted, from the first; the others were not looked at.
  int every = 1;
  int rows = 0;  ///< Fitted.
};
/// Empty where `directory` has no such file. Throws Error (usage) as parse_calibration() does.
[[nodiscard]] std::vector<StepConstant> load_step_constants(const std::filesystem::path& directory);
/// Puts them into a generation's profile, or the fallback's.
void apply(CalibrationProfile& profile, const std::vector<StepConstant>& constants, const std::string& generation,
           const std::string& without = {});

/// Reads fallback.json and, if there is one, <gpu.generation>.json from `directory`, and resolves them.
[[nodiscard]] CalibrationProfile load_calibration(const std::filesystem::path& directory, const GpuSpec& gpu,
                                                  const CalibrationOptions& options = {});

/// Clock that the power limit allows, over that of the chip whose constants a generation states
/// (`power.reference_joules_per_flop`): dynamic power goes with V^2 f, and V with f, so that the clock goes with the
/// cube root of the power per unit of peak. 1 where no such chip is stated.
[[nodiscard]] double power_clock(const CalibrationProfile& profile, const GpuSpec& gpu);

/// The evidence of a group: the worst of its constants' sources.
[[nodiscard]] EvidenceItem evidence_of(const CalibrationProfile& profile, std::string_view group);

}  // namespace rehearse
