#pragma once
// Runs a job for real on threads and gathers what parity compares: losses, and gradients put together from the ranks'
// slices.

#include <cmath>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>

#include "core/base/index.hpp"
#include "core/program/liveness.hpp"
#include "gpu_backend/communicate/local_world.hpp"
#include "gpu_backend/cpu/blas.hpp"
#include "gpu_backend/cpu/cpu_device.hpp"
#include "gpu_backend/cpu/host_memory.hpp"
#include "gpu_backend/execute/bounds.hpp"
#include "gpu_backend/execute/executor.hpp"
#include "gpu_backend/train/initial.hpp"
#include "tests/unit/program/lowered.hpp"

namespace rehearse::test {

/// Tokens of every small network, and so of the data. No power of two divides it but 2: four ranks pad it.
inline constexpr std::int64_t kVocabulary = 50;

/// Classes that every small network over images tells apart.
inline constexpr std::int64_t kClasses = 4;

/// Gradients of one step by global name, element by element, as the update reads them.
using Gradients = std::map<std::string, std::vector<double>>;

/// Experts chosen in one step: by layer and global (sample, token, place among the token's choices).
using Routing = std::map<std::pair<int, std::int64_t>, std::int64_t>;

struct Outcome {
  std::vector<double> losses;
  std::vector<std::vector<double>> norms;  ///< Of the gradients, per step and rank.
  std::vector<Gradients> gradients;        ///< Per step.
  std::vector<StepResult> last;            ///< Per rank.
  std::vector<Routing> routing;            ///< Per step; of runs on the CPU.
};

/// Name of the parameter that a gradient belongs to; a tied head's is the word table's.
inline std::string parameter_of(const TensorView& gradient) {
  std::string name = instance_name(
      gradient.tensor->initial_key.empty() ? gradient.tensor->name : gradient.tensor->initial_key, gradient.layer);
  for (const char* end : {".reduced", ".shard", ".grad"})
    if (name.size() > std::strlen(end) && name.compare(name.size() - std::strlen(end), std::string::npos, end) == 0)
      name.resize(name.size() - std::strlen(end));
  return name;
}

/// Elements of an update's operand into the global gradient.
template <class T>
void collect(const TensorView& g, Gradients& into) {
  std::vector<double>& all = into[parameter_of(g)];
  std::int64_t n = 1;
  for (const std::int64_t d : g.held->shape) n *= d;
  all.resize(static_cast<std::size_t>(n), std::nan(""));
  const std::vector<std::int64_t> at = g.held->global_elements();
  for (std::size_t i = 0; i < at.size(); ++i)
    if (at[i] >= 0) nth(all, at[i]) = static_cast<double>(g.as<T>()[i]);
}

/// A choice of experts into the step's.
inline void collect_choice(const OperatorCall& call, Routing& into) {
  const TensorView& choice = call.operand(2);
  std::int64_t per_sample = 1;
  for (std::size_t d = 1; d < choice.held->shape.size(); ++d) per_sample *= choice.held->shape[d];
  const std::vector<std::int64_t> at = choice.held->global_elements();
  for (std::size_t i = 0; i < at.size(); ++i)
    if (at[i] >= 0) into[{choice.layer, call.first_sample * per_sample + at[i]}] = choice.as<std::int64_t>()[i];
}

/// Stands between an executor and its transport.
using Wrap = std::function<std::unique_ptr<Transport>(Transport&)>;

/// What runs a plan where the CPU does not: a device per rank, and what joins ranks on it.
struct Elsewhere {
  std::function<std::unique_ptr<ComputeDevice>(Numerics)> device;
  std::function<std::unique_ptr<Transport>(Transport&, ComputeDevice&)> transport;
};

inline Outcome run(const Program& program, int steps, Numerics numerics, const Wrap& wrap = {},
                   const Elsewhere& elsewhere = {}) {
  set_cpu_threads(1);
  keep_freed_memory();
  Outcome out;
  out.losses.resize(static_cast<std::size_t>(steps));
  out.norms.assign(static_cast<std::size_t>(steps),
                   std::vector<double>(static_cast<std::size_t>(program.mesh.ranks())));
  out.gradients.resize(static_cast<std::size_t>(steps));
  out.last.resize(static_cast<std::size_t>(program.mesh.ranks()));
  out.routing.resize(static_cast<std::size_t>(steps));
  std::mutex mutex;
  const auto data = program.tokens_per_step > 0 ? synthetic_tokens(program.seed, kVocabulary)
                                                : synthetic_images(program.seed, kClasses);
  run_locally(program.mesh.ranks(), [&](Transport& plain) {
    // Ranks are more than processors, and other tests run beside them.
    const auto device = elsewhere.device ? elsewhere.device(numerics) : make_cpu_device(numerics, Seconds{0});
    const std::unique_ptr<Transport> wrapped = wrap                  ? wrap(plain)
                                               : elsewhere.transport ? elsewhere.transport(plain, *device)
                                                                     : nullptr;
    Transport& transport = wrapped ? *wrapped : plain;
    ExecutorOptions options;
    options.on_update = [&](const OperatorCall& call) {
      const std::lock_guard lock(mutex);
      for (const TensorView& x : call.operands)
        if (x.tensor->category == MemoryCategory::gradients) {
          std::vector<std::byte> host(static_cast<std::size_t>(x.elements()) * size_of(x.type));
          device->peek(x.data, host);
          TensorView there = x;
          there.data = host.data();
          if (numerics == Numerics::fp64)
            collect<double>(there, out.gradients.at(static_cast<std::size_t>(call.step)));
          else
            collect<float>(there, out.gradients.at(static_cast<std::size_t>(call.step)));
        }
    };
    if (!elsewhere.device)
      options.on_route = [&](const OperatorCall& call) {
        const std::lock_guard lock(mutex);
        collect_choice(call, out.routing.at(static_cast<std::size_t>(call.step)));
      };
    Executor executor(program, *device, transport, *data, options);
    for (int s = 0; s < steps; ++s) {
      const StepResult result = executor.step();
      const std::lock_guard lock(mutex);
      nth(out.losses, s) = result.loss;
      nth(nth(out.norms, s), transport.rank()) = result.gradient_norm;
      nth(out.last, transport.rank()) = result;
    }
    executor.drain();
  });
  return out;
}

/// Largest difference over largest value.
inline double distance(const std::vector<double>& a, const std::vector<double>& b) {
  double difference = 0, largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double d = std::abs(a[i] - b.at(i));
    difference = std::isnan(d) ? INFINITY : std::max(difference, d);
    largest = std::max(largest, std::abs(a[i]));
  }
  return largest > 0 ? difference / largest : difference;
}

}  // namespace rehearse::test
