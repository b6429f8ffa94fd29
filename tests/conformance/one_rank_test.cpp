// A step of one rank is the sum of its kernels.

#include <map>

#include "core/base/index.hpp"
#include "core/config/settings/choices.hpp"
#include "core/program/body.hpp"
#include "core/strategy/workload.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/testbed.hpp"
#include "tests/unit/program/lowered.hpp"

using namespace rehearse;
using namespace rehearse::test;
using namespace rehearse::testing;

namespace {

struct Sums {
  std::map<TimeCategory, double> kernels;  ///< Each alone.
  double launch = 0;                       ///< What bodies take beyond their kernels.
  double first_copy = 0;                   ///< Nothing computes before the first tokens are there.
};

Sums sums_of(const Testbed& bed, const Program& p) {
  Sums out;
  std::map<std::int32_t, double> bodies;
  for (const Entry& e : p.roles.at(0).step) {
    const Body& body = nth(p.bodies, e.body);
    double kernels = 0, copies = 0;
    for (const auto v : body.graph.vertices()) {
      const PricedTask task = bed.cost.price(p, body.graph[v], body, 0, context_of(p, 0, e));
      if (std::holds_alternative<ComputeTask>(body.graph[v].kind)) {
        out.kernels[task.category] += task.time.value();
        kernels += task.time.value();
      } else {
        copies += task.time.value();
      }
    }
    if (kernels > 0)
      out.launch += bed.cost.price_body(p, body, 0, context_of(p, 0, e)).duration.value() - kernels;
    else if (out.first_copy == 0)
      out.first_copy = copies;
  }
  return out;
}

void check(const Testbed& bed, const Program& p) {
  const RunResult run = bed.analytic(p);
  const Sums expected = sums_of(bed, p);
  double total = expected.first_copy + expected.launch;
  const Breakdown& breakdown = run.ranks.at(0).breakdown;
  for (const auto& [category, seconds] : expected.kernels) {
    INFO(name_of(category));
    CHECK(breakdown[category].value() == Approx(seconds).epsilon(1e-9));
    total += seconds;
  }
  CHECK(run.step_time.value() == Approx(total).epsilon(1e-9));
  CHECK(breakdown[TimeCategory::launch].value() == Approx(expected.launch).margin(1e-9 * total));
  CHECK(breakdown[TimeCategory::exposed_copy].value() == Approx(expected.first_copy).epsilon(1e-9));
  CHECK(breakdown[TimeCategory::bubble].value() == Approx(0).margin(1e-9 * total));
  CHECK(run.flows == 0);
}

}  // namespace

TEST_CASE("a step of one rank is the sum of its kernels, its launches and its first copy") {
  const Testbed bed(1);
  for (const Recompute recompute : {Recompute::none, Recompute::selective, Recompute::full})
    for (const Optimizer optimizer : {Optimizer::sgd, Optimizer::adam}) {
      for (Job job : {Job(tiny_gpt()), Job(tiny_llama()), Job(shipped("gpt2"), 1024)}) {
        job.strategy.recompute = recompute;
        job.workload.training.optimizer = optimizer;
        job.workload.kernels.attention =
            recompute == Recompute::selective ? AttentionKernel::unfused : AttentionKernel::flash;
        INFO(job.workload.network.name << ", recompute " << name_of(recompute) << ", " << name_of(optimizer));
        check(bed, job.lower());
      }
    }
}
