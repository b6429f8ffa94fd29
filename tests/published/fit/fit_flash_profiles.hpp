#pragma once
// The part of the recipe (fit_profiles.hpp) that is for fused attention. Constants that kernels have in common are
// fitted once, over all of them:
//
//   efficiency, by head dimension    one implementation on one GPU; Triton's kernel is FlashAttention-1's design and
//   shares its own backward ratio                   the same, where passes were measured apart; else as stated S0 one
//   design on all GPUs; all of cuDNN's kernels on Blackwell B                                all kernels up to Hopper,
//   all on Blackwell but cuDNN 9.13 g, tau                           Blackwell, whose rows alone hold kernels long
//   enough; Hopper takes them over, except for FlashAttention-1, which leaves units idle
//
// Half of the rows, by a hash of their id, is fitted.

#include <string>
#include <vector>

#include "core/price/kernel_tables.hpp"
#include "tests/published/fit/fit_profiles.hpp"

namespace rehearse {

class FlashRecipe {
 public:
  /// `stated`: profiles of generations with what no fit gives: `fixed_s`, `causal_tail`, `block_queries`,
  /// `backward_ratio`.
  FlashRecipe(std::vector<AttentionRow> rows, const FitGpus& gpu, const std::vector<CalibrationProfile>& stated);

  /// Group of a profile: "attention_flash2", "fp8_attention_cudnn".
  [[nodiscard]] static std::string group_of(const std::string& implementation);
  /// `stated` with what was fitted for `implementation` on `gpu`, efficiencies divided by `clock`. `source`: key of the
  /// rows' citation.
  [[nodiscard]] KernelCalibration constants(KernelCalibration stated, const std::string& implementation,
                                            const std::string& gpu, double clock, const std::string& source) const;
  /// All rows that had a part in it, those held out among them; valid as long as this object.
  [[nodiscard]] std::vector<const AttentionRow*> rows_of(const std::string& implementation,
                                                         const std::string& gpu) const;

 private:
  /// Kernels that share constants.
  struct Family {
    std::vector<MeasuredAttention> fitted;
    FlashFit fit;
  };

  [[nodiscard]] bool is_blackwell(const std::string& gpu) const { return gpu_(gpu).compute_capability >= 100; }
  [[nodiscard]] const Family& family_of(const std::string& gpu) const {
    return is_blackwell(gpu) ? blackwell_ : older_;
  }
  [[nodiscard]] std::string start_of(const std::string& implementation, const std::string& gpu) const;
  [[nodiscard]] MeasuredAttention prepared(const AttentionRow& row) const;

  FitGpus gpu_;
  std::vector<AttentionRow> rows_;
  Family older_, blackwell_;
};

}  // namespace rehearse
