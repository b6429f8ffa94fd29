#pragma once
// A device profile: what `rehearse calibrate` measured on one machine, kernels and collectives only. It prices Programs
// before the kernel model does, and describes its machine as a cluster of ranks, so that `simulate`, `estimate`,
// `memory` and `validate` answer for it.
//
//   { "schema": "rehearse/device_profile/v1",
//     "device": { "kind": "cpu", "name": "...", "cores": 2, "memory": "16GiB", "math_library": "OpenBLAS" },
//     "settings": [
//       { "ranks": 2, "arithmetic": "fp32", "threads": 1, "dispatch": "4us", "copy_rate": "9GB/s",
//       "taken_by_communication": 0.4, "taken_by_others": 0.01, "pace": "30ms",
//         "operators": [ { "name": "matmul.linear", "axes": ["m", "n", "k"], "columns": "m, n, k, time_us, spread",
//         "rows": [[64, 64, 64, 9.1, 0.03]] } ] } ],
//     "collectives": { "schema": "rehearse/collective_table/v1", "tables": [...], "sources": {...} },
//     "sources": { "calibrate": { "text": "...", "evidence": "measured_here" } } }
//
// A setting is so many ranks at work at once on the machine: they share its cores and its memory, so each number of
// ranks is measured.

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/dtype.hpp"
#include "core/cluster/cluster.hpp"
#include "core/collective/collective_op.hpp"
#include "core/hardware/specs.hpp"
#include "core/price/kernels/log_grid.hpp"
#include "core/price/kernels/sized_operation.hpp"

namespace rehearse {

struct DeviceProfile {
  struct Row {
    std::vector<double> size;
    /// Median over repetitions, mean over ranks; of several CPU ranks, at the pace of the slowest. Dispatch is not in
    /// it.
    Seconds time;
    double spread = 0;  ///< Half the distance from the 25th to the 75th percentile, over the median.
    bool operator==(const Row&) const = default;
  };
  struct Operator {
    std::vector<std::string> axes;
    std::vector<Row> rows;
    bool operator==(const Operator&) const = default;
  };
  struct Setting {
    int ranks = 1;  ///< At work at once.
    DType arithmetic = DType::fp32;
    int threads = 1;   ///< Of one rank.
    Seconds dispatch;  ///< From one task of a rank to the next, beyond the kernel.
    /// Read and written by one rank in a long copy, where that was measured.
    std::optional<BytesPerSecond> copy_rate;
    /// Share of the time that a collective takes by itself which a rank's compute loses to it, [0, 0.95].
    double taken_by_communication = 0;
    /// Share of the processors' time that other programs took meanwhile, where the system told it.
    std::optional<double> taken_by_others;
    /// Time of the same work on every machine (gpu_backend/calibrate/machine_load.hpp): whether it is still as fast.
    std::optional<Seconds> pace;
    std::map<std::string, Operator, std::less<>> operators;
    bool operator==(const Setting&) const = default;
  };
  struct Collective {
    CollectiveOp op = CollectiveOp::all_reduce;
    int ranks = 2;
    std::vector<std::pair<Bytes, Seconds>> rows;  ///< Sizes as CollectiveModel takes them, ascending.
    bool operator==(const Collective&) const = default;
  };

  std::string kind;          ///< "cpu" or "cuda": the device of `rehearse run`.
  std::string name;          ///< Of the processor.
  std::string math_library;  ///< Of its matrix products.
  int cores = 1;
  Bytes memory;      ///< Of the machine.
  std::string date;  ///< As the user gave it; may be empty.
  std::vector<Setting> settings;
  std::vector<Collective> collectives;
  std::vector<Source> sources;
  std::string origin;  ///< File, for messages.

  /// The setting of so many ranks and this arithmetic, or null.
  [[nodiscard]] const Setting* find(int ranks, DType arithmetic) const;
  /// Most ranks that were measured at work at once.
  [[nodiscard]] int most_ranks() const;
  /// Fastest product measured.
  [[nodiscard]] FlopsPerSecond best_rate() const;
};

/// Throws Error (usage) with the JSON path: unknown keys, a setting or operator given twice, rows that don't fit their
/// axes, sizes or times that are not finite and above zero.
[[nodiscard]] DeviceProfile parse_device_profile(const std::string& text, const std::string& origin);
[[nodiscard]] DeviceProfile load_device_profile(const std::string& file);
/// Whether a JSON text says that it is a device profile. Throws as parse_json().
[[nodiscard]] bool is_device_profile(const std::string& text, const std::string& origin);
/// Ends in a newline; parse_device_profile() reads it back.
[[nodiscard]] std::string to_json(const DeviceProfile& profile);
/// The collectives as a table that goes before the model (collective_table.hpp); empty where none was measured.
[[nodiscard]] std::string collective_table_text(const DeviceProfile& profile);

/// The machine of a profile with one device per rank, joined by a loopback link that never limits what was measured.
/// Throws Error (usage) where so many ranks were not measured.
[[nodiscard]] Cluster profile_cluster(const DeviceProfile& profile, int ranks, const NetworkSpec& network);

/// `program` as a device stores it that has one type for all real numbers: what it then computes, keeps and sends.
[[nodiscard]] Program with_real_type(Program program, DType type);

/// Prices of one setting's operators.
class MeasuredKernels {
 public:
  /// Throws Error (usage) where so many ranks were not measured, with the command that measures them.
  MeasuredKernels(const DeviceProfile& profile, int ranks);

  /// Kernel time without dispatch, or nothing where an operator was not measured in this arithmetic.
  [[nodiscard]] std::optional<Seconds> time(const std::vector<SizedOperation>& operations, DType arithmetic) const;
  [[nodiscard]] Seconds dispatch() const { return dispatch_; }
  [[nodiscard]] double taken_by_communication() const { return taken_; }

 private:
  std::map<std::pair<DType, std::string>, LogGrid> grids_;
  Seconds dispatch_;
  double taken_ = 0;
};

}  // namespace rehearse
