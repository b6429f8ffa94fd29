#pragma once
// Constants of convolutions from measured layers: kernel_convolution.hpp has the formula. Half of the layers, by a hash
// of their sizes, are fitted; all passes of a layer are on one side.

#include <map>
#include <span>
#include <string>
#include <vector>

#include "core/price/kernel_tables.hpp"

namespace rehearse {

struct ConvolutionFit {
  ConvolutionConstants constants;
  int rows = 0;
  double loss = 0;
  std::array<double, kConvolutionParameters> sensitivity{};  ///< As GemmFit's.
};

/// A row and the GPU that it ran on.
struct MeasuredConvolution {
  const ConvolutionRow* row = nullptr;
  ConvolutionRates rates;
};

/// Parameters that a class of arithmetic has.
[[nodiscard]] std::vector<ConvolutionParameter> parameters_of(ConvolutionClass cls);

/// Throws Error (usage) where constants have fewer than ten rows each.
[[nodiscard]] ConvolutionFit fit_convolutions(std::span<const MeasuredConvolution> rows, ConvolutionClass cls);
[[nodiscard]] ErrorSummary convolution_errors(std::span<const MeasuredConvolution> rows, ConvolutionClass cls,
                                              const ConvolutionConstants& constants);

}  // namespace rehearse
