#pragma once

#include "core/config/settings/input.hpp"
#include "core/config/settings/kernels.hpp"
#include "core/config/settings/training.hpp"
#include "core/model/network.hpp"

namespace rehearse {

/// What is trained, apart from how it is spread.
struct Workload {
  Network network;
  TrainingSettings training;
  KernelSettings kernels;
  InputSettings input{};
};

}  // namespace rehearse
