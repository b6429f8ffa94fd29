#pragma once
// Small Programs whose tasks are what calibration measures: every operator gets its operands as a plan gives them.
// Widths, lengths and numbers of tokens lie on a grid of their own; no network that anybody trains is among them.

#include <string>
#include <vector>

#include "core/program/program.hpp"

namespace rehearse {

struct Probe {
  Program program;  ///< Of one rank, or seen from the first.
  /// Its lengths and heads lie on the grid: operators sized by these are measured in it, and no others.
  bool heads;
  bool fills_gaps;  ///< Only operators that no probe of a kind before it has are measured in it.
  int kind;         ///< Alike but for their sizes; ascending.
};

/// Sizes at which operators are measured.
struct ProbeGrid {
  struct Width {
    std::int64_t width, vocabulary;
  };
  std::vector<std::int64_t> m, n, k;                    ///< Of products.
  std::vector<std::int64_t> lengths, head_dims, heads;  ///< Of attention.
  std::vector<std::int64_t> tokens;                     ///< Multiples of 64.
  std::vector<Width> widths;
  /// All probes in bf16_mixed, for devices that store what a plan says.
  bool mixed = false;
  double most_bytes = 0;  ///< Operators on more memory are left out; 0: none are.
};
/// For processors, whose caches and cores are few; and for GPUs, which small sizes leave empty.
[[nodiscard]] ProbeGrid small_grid();
[[nodiscard]] ProbeGrid large_grid();

/// In the order in which they are measured.
[[nodiscard]] std::vector<Probe> calibration_probes(const ProbeGrid& grid);

/// One rank, many blocks, next to no arithmetic: what a step takes here is dispatch.
[[nodiscard]] Program dispatch_probe();
inline constexpr std::int64_t kDispatchVocabulary = 64;

}  // namespace rehearse
