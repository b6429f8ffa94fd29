#pragma once
// The losses of a run in fp32, step by step.

#include <vector>

#include "gpu_backend/communicate/local_world.hpp"
#include "gpu_backend/cpu/blas.hpp"
#include "gpu_backend/cpu/cpu_device.hpp"
#include "gpu_backend/train/training.hpp"

namespace rehearse::test {

/// Ranks are threads, with a core at most each.
inline std::vector<double> curve(const Program& p, const DataSource& data, int steps) {
  set_cpu_threads(1);
  std::vector<double> out;
  run_locally(p.mesh.ranks(), [&](Transport& transport) {
    const auto device = make_cpu_device(Numerics::fp32, Seconds{0});
    TrainingRun run;
    run.steps = steps;
    if (transport.rank() == 0) run.on_step = [&](const StepResult& r) { out.push_back(r.loss); };
    (void)train(p, *device, transport, data, run);
  });
  return out;
}

}  // namespace rehearse::test
