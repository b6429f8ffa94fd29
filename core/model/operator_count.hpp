#pragma once
// What each operator of a network holds, computes and makes: the table that `explain` prints for a model.

#include <cstdint>
#include <string>
#include <vector>

#include "core/model/network.hpp"

namespace rehearse {

/// One operator of one block. Figures are of one instance; multiply by `repeat` for the network.
struct OperatorCount {
  std::string block;
  std::string op;
  OpKind kind;
  int repeat = 1;
  std::int64_t parameters = 0;       ///< Learned elements; 0 for those tied to another operator's.
  Flops forward_flops{};             ///< Matrix products only, full-square attention.
  std::int64_t output_elements = 0;  ///< Elements of all outputs.
};

/// For `b` sequences of `s` tokens, blocks and operators in order. Sums of `repeat` times `parameters` and
/// `forward_flops` are parameter_count() and a third of model_flops() (an eighth, of a discriminator's).
[[nodiscard]] std::vector<OperatorCount> count_operators(const Network& network, std::int64_t b, std::int64_t s);

/// model_flops() with causal attention at half: to a token itself and those before it, as Megatron-LM counts
/// (megatron/training/training.py @d98e8a6, num_floating_point_operations).
[[nodiscard]] Flops causal_model_flops(const Network& network, std::int64_t b, std::int64_t s);

}  // namespace rehearse
