#pragma once
// How to train: keys of a scenario after parsing and validation.

#include <cstdint>
#include <string>
#include <vector>

#include "core/config/setting_key.hpp"
#include "core/config/settings/choices.hpp"

namespace rehearse {

/// How many tokens an expert takes, and how many choose it.
struct ExpertSettings {
  /// Rows that an expert takes of one rank's tokens, over the mean; 0: all of them (dropless).
  double capacity_factor = 0;
  /// Buffers are filled up to the capacity, so that all sizes are known beforehand.
  bool pad_to_capacity = false;
  Imbalance imbalance = Imbalance::none;
  double zipf_exponent = 0.5;  ///< For Imbalance::zipf, at least 0.

  bool operator==(const ExpertSettings&) const = default;
};

/// Products in fp8 (Precision::fp8_mixed): the linear layers between embedding and head, each product of forward and
/// backward.
struct Fp8Settings {
  Fp8Recipe recipe = Fp8Recipe::delayed;
  bool parameters = false;  ///< Working weights are stored, and gathered, in fp8 instead of bf16.
  Fp8Copies copies = Fp8Copies::automatic;
  bool attention = false;  ///< Products of fused attention too.
  /// In fp4: what weight gradients read is rotated before its cast (random Hadamard transform).
  bool rotation = true;

  bool operator==(const Fp8Settings&) const = default;
};

/// Optimizer::adafactor.
struct AdafactorSettings {
  bool relative_step = true;    ///< Step min(1e-2, 1/sqrt(t)); false: the learning rate.
  bool scale_parameter = true;  ///< The step is multiplied by the root mean square of the parameter, 1e-3 at least.
  double clip_threshold = 1.0;  ///< Largest root mean square of an update before the step size; above 0.

  bool operator==(const AdafactorSettings&) const = default;
};

/// The update of a network's discriminator, where it is another than training.optimizer.
struct DiscriminatorSettings {
  OwnOptimizer optimizer = OwnOptimizer::same;
  double learning_rate = 0;  ///< 0: training.learning_rate.

  bool operator==(const DiscriminatorSettings&) const = default;
};

/// Low-rank adapters (Hu et al. 2021, LoRA): beside a product W x a second one, alpha/rank B A x, of which A [rank, in]
/// and B [out, rank] alone are trained.
struct LoraSettings {
  std::int64_t rank = 0;  ///< 0: no adapters, all weights are trained.
  double alpha = 32;      ///< Of the factor alpha / rank.
  /// Products of a layer that have one: of attention's input and output, of the MLP's.
  std::vector<std::string> targets{"qkv", "proj", "fc1", "fc2"};
  double dropout = 0;  ///< Of what an adapter reads.
  /// Beside row-parallel products: B is split by outputs, which tensor-parallel ranks exchange for tokens; else whole.
  bool all_to_all = false;

  bool operator==(const LoraSettings&) const = default;
};

struct TrainingSettings {
  std::int64_t global_batch = 0;  ///< Sequences per optimizer step.
  /// Tokens per sequence; 0 takes the model's maximum, and stays 0 where samples are no sequences.
  std::int64_t sequence_length = 0;
  std::int64_t image_height = 0;  ///< Pixels; 0 takes the model's own.
  std::int64_t image_width = 0;   ///< Pixels; 0 takes the model's own.
  Precision precision = Precision::bf16_mixed;
  GradientDtype gradient_dtype = GradientDtype::fp32;
  Optimizer optimizer = Optimizer::adam;
  double learning_rate = 3e-4;  ///< Constant over the run.
  /// Of weights with two dimensions or more; adamw subtracts it from them, the others add it to the gradient.
  double weight_decay = 0;
  bool clip_gradients = true;  ///< Global gradient norm: an all-reduce over every rank before the update.
  double tokens = 0;           ///< Tokens of the whole run; 0 leaves the run's length out of the answer.
  std::uint64_t seed = 1;
  StatisticsScope statistics = StatisticsScope::local;
  ExpertSettings experts;
  Fp8Settings fp8;
  AdafactorSettings adafactor;
  DiscriminatorSettings discriminator;
  LoraSettings lora;
  DeclaredSettings declared = {};  ///< Keys that other files declare.

  bool operator==(const TrainingSettings&) const = default;
};

}  // namespace rehearse
