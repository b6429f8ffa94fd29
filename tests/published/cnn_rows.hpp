#pragma once
// Rows of tests/published/data/cnn_throughput.json as jobs: what of each row becomes which setting, and what is assumed
// where it is silent.
//
//   model           AlexNet (one tower), VGG16, ResNet-50 and -152 with the stride in the first 1 x 1 (as TensorFlow's
//   benchmark scripts of 2017
//                   build them), Inception-v3 without its auxiliary loss (likewise); "ResNet-50 v1.5" with the stride
//                   in the 3 x 3
//   gpu_type,       P100: dgx1p; K80: pcie8_k80, of Google's and Amazon's instances alike (8 chips behind PCIe
//   switches); system          V100: dgx1v_16gb or dgx1v; A100: dgx_a100_80gb. The first `gpus` of the machine's GPUs
//   batch_per_gpu   microbatch; "256 (see launch configs)" is 256, and 128 for FP32 on V100, which 16 GB hold
//   precision       fp32, tf32 (TF32), fp16_mixed (mixed precision); SGD with momentum, gradients not clipped
//   variable_update every variant is taken as a ring all-reduce in buckets under backward: variables on a CPU or on
//   another GPU are not data            modelled here, nor is reading images: real and synthetic data are the same job
//
// Skipped, with the reason: models that are no image classifiers, rows without images per second, several nodes (their
// network's rate is a range), GPUs without a machine here.

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tests/unit/estimate/estimate_jobs.hpp"

namespace rehearse::test {

struct CnnRow {
  std::string id, machine, generation, model, precision;
  std::int64_t batch = 0;
  int gpus = 0;
  double images_per_s = 0;
  [[nodiscard]] bool fitted() const;  ///< In the half that K80's level is fitted on.
};

struct CnnRows {
  std::vector<CnnRow> rows;
  std::map<std::string, int> skipped;  ///< By reason.
};

[[nodiscard]] CnnRows read_cnn_rows();

/// One row ready to be priced. Rows that differ in nothing but their data or provider are one job: `key` tells, and
/// they share the Program.
struct CnnJob {
  CnnRow row;
  const Cluster* cluster = nullptr;
  StrategySettings strategy;
  std::string key;
  std::shared_ptr<const Program> program;
};
[[nodiscard]] std::vector<CnnJob> make_jobs(const std::vector<CnnRow>& rows);

/// Images per second of the period between two steps, in closed form, with efficiencies of convolutions on CUDA cores
/// times `level`. Worked out once per key and level.
[[nodiscard]] double predict(const CnnJob& job, double level = 1);

}  // namespace rehearse::test
