// Activations in host memory.

#include "core/base/index.hpp"
#include "core/config/settings/choices.hpp"
#include "core/config/settings/strategy.hpp"
#include "core/program/body.hpp"
#include "core/strategy/workload.hpp"
#include "tests/support/catch.hpp"
#include "tests/unit/strategy/saved.hpp"

using namespace rehearse;
using namespace rehearse::test;

namespace {

Job gpt(Recompute recompute = Recompute::none, int layers = 8) {
  Job job(tiny_gpt(layers), 64);
  job.workload.kernels.attention = AttentionKernel::unfused;
  job.strategy.recompute = recompute;
  job.strategy.offload = Offload::activations;
  return job;
}

double copied(const Program& p, const std::string& body) {
  double bytes = 0;
  for_each_task(p, 0, [&](const Entry& e, const Body& b, const Task& task) {
    if (b.name == body) bytes += bytes_of(p, b, task.operands[0], context_of(p, 0, e));
  });
  return bytes;
}

double host_peak(const Program& p) {
  return nth(peak_memory(p, Bytes{0}, Bytes{0}).at(0).peak_by_space, MemorySpace::pinned_host).value();
}

}  // namespace

TEST_CASE("what layers keep goes to the host and comes back, once each") {
  for (const Recompute r : {Recompute::none, Recompute::selective, Recompute::full}) {
    const Program p = gpt(r).lower();
    validate(p);
    const double layer = kept_bytes(p, "layer.forward");
    CHECK(copied(p, "activations.to_host") == Approx(7 * layer * p.microbatches));  // All layers but the last.
    CHECK(copied(p, "activations.to_device") == copied(p, "activations.to_host"));
    CHECK(host_peak(p) >= 7 * layer);
  }
}

TEST_CASE("device memory no longer grows with layers") {
  const auto activations = [](Job job) {
    return nth(peak_memory(job.lower(), Bytes{0}, Bytes{0}).at(0).by_category, MemoryCategory::activations).value();
  };
  const double eight = activations(gpt(Recompute::none, 8)), sixteen = activations(gpt(Recompute::none, 16));
  CHECK(sixteen == Approx(eight));
  Job stay = gpt();
  stay.strategy.offload = Offload::none;
  CHECK(eight < 0.5 * activations(stay));
}

TEST_CASE("some layers only") {
  Job job = gpt();
  job.strategy.offload_layers = 3;
  const Program p = job.lower();
  CHECK(copied(p, "activations.to_host") == Approx(3 * kept_bytes(p, "layer.forward") * p.microbatches));
}

TEST_CASE("with stages, microbatches in flight are on the host") {
  Job job = gpt();
  job.strategy.pp = 2;
  job.microbatches = 6;
  const Program p = job.lower();
  validate(p);
  // Stage 0 has two microbatches in flight, three of its four layers moved.
  CHECK(host_peak(p) >= 2 * 3 * kept_bytes(p, "layer.forward"));
}

TEST_CASE("groups that run again keep one input on the host") {
  Job job = gpt(Recompute::full);
  job.strategy.recompute_layers = 2;
  const Program p = job.lower();
  validate(p);
  const double input = kept_bytes(p, "layer.forward");
  CHECK(copied(p, "activations.to_host") == Approx(3 * input * p.microbatches));  // Of four groups.
}
