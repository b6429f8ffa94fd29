#pragma once
// Measured kernels and collectives against their prices: products and attention by shape, and tables of nccl-tests.

#include <filesystem>
#include <string>
#include <vector>

#include "core/base/units.hpp"
#include "core/hardware/catalogue.hpp"
#include "core/scoreboard/errors.hpp"
#include "core/scoreboard/rows/measurement.hpp"

namespace rehearse {

struct KernelRow {
  std::string id;
  /// "products on a100_sxm4_80", "attention cudnn d128 on h100_sxm5_80", "all_reduce on dgx_h200 x 4".
  std::string group;
  bool fitted = false;  ///< Of the half that constants were fitted on.
  Seconds predicted, measured;
  std::string skipped;  ///< Why there is no prediction; empty with one.
  /// The same on any GPU by any kernel: "products", "attention d128"; empty where nothing is to be counted together.
  std::string kind;
  bool collective = false;  ///< The time of a collective, not of a kernel.
  [[nodiscard]] double error() const { return predicted / measured - 1; }
};

/// Rows of one group, apart by whether constants were fitted on them.
struct KernelGroup {
  std::string name;
  ErrorStatistics fitted, held_out;
};

struct KernelBoard {
  std::vector<KernelRow> rows;  ///< In the order of the files.
  /// By name; sums of four products, one of each kind of a layer, from 1,024 rows of m on; kinds of which several
  /// groups are.
  std::vector<KernelGroup> groups;
};

/// Whether a file holds kernels by shape: the headers of core/price/kernel_tables.hpp. Throws Error (usage) where it
/// cannot be read.
[[nodiscard]] bool is_kernel_file(const std::string& path);

/// Kernels of `files`, and those of `rows` that are tables of collectives (`config.collective`). Throws Error (usage)
/// for a kernel file with a missing column or a number that is none; what a collective's row gets wrong becomes its
/// reason to be skipped.
[[nodiscard]] KernelBoard score_kernels(const std::vector<std::string>& files, const std::vector<Measurement>& rows,
                                        const std::filesystem::path& topologies);

}  // namespace rehearse
