#pragma once
// What lower() is given besides the strategy and the cluster.

#include "core/config/settings/input.hpp"
#include "core/config/settings/kernels.hpp"
#include "core/config/settings/training.hpp"
#include "core/model/network.hpp"

namespace rehearse {

/// What is trained, apart from how it is spread.
struct Workload {
  Network network;            ///< Blocks of operators, with sizes.
  TrainingSettings training;  ///< Batch, sequence length, precision, optimizer.
  KernelSettings kernels;     ///< Which kernels run.
  InputSettings input{};      ///< Where samples come from; the default costs nothing.
};

}  // namespace rehearse
