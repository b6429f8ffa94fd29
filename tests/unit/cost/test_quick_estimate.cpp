// The quick estimator against the analytic back end, which plays every rank, and against the memory of the whole Program.

#include <cmath>
#include <functional>

#include "core/cost/quick_estimate.hpp"
#include "tests/support/catch.hpp"
#include "tests/unit/cost/estimate_draws.hpp"

using namespace rehearse;
using namespace rehearse::test;

namespace {

struct Row {
  Compared time;
  double memory = 0;  ///< Quick over whole, less 1.
  bool closed_form = false;
};

Row ask(const Drawn& d, QuickEstimator& quick, int steps) {
  const Program program = lower(d.workload, d.strategy, d.site->cluster);
  Row out{compare(d.name, program, *d.site, d.strategy, steps), 0, false};
  const QuickEstimate e = quick(d.strategy, d.workload.training);
  out.time.estimated = e.step_time.value();
  out.time.estimated_parts = e.breakdown;
  out.closed_form = e.closed_form;
  double fullest = 0;
  const MemoryRule rule;
  for (const RoleMemory& m : rule.peaks(program)) fullest = std::max(fullest, rule.needed(m).value());
  out.memory = e.needed.value() / fullest - 1;
  INFO(d.name);
  CHECK(std::abs(e.breakdown.total().value() / e.step_time.value() - 1) < 1e-9);
  for (const Seconds part : e.breakdown.seconds) CHECK(part.value() >= -1e-9 * e.step_time.value());
  Bytes sum{0};
  for (const Bytes b : e.memory.by_category) sum += b;
  CHECK(std::abs(sum / e.memory.peak - 1) < 1e-9);
  return out;
}

/// Largest differences of time and memory, and how many were not lowered.
struct Worst { Spread time; double memory = 0; int closed_form = 0; };

Worst compare_quick(const std::string& title, int count, int steps, unsigned seed, const std::function<Drawn(std::mt19937_64&)>& draw_one) {
  std::mt19937_64 random(seed);
  std::vector<Compared> times;
  Worst out;
  std::string fullest;
  for (int i = 0; i < count; ++i) {
    const Drawn d = draw_one(random);
    QuickEstimator quick(d.workload, d.site->cluster, d.site->cost, {}, steps);
    const Row row = ask(d, quick, steps);
    times.push_back(row.time);
    times.back().name += row.closed_form ? ", closed form" : ", lowered";
    out.closed_form += row.closed_form ? 1 : 0;
    if (std::abs(row.memory) >= std::abs(out.memory)) {
      out.memory = row.memory;
      fullest = d.name;
    }
  }
  out.time = print(title, times);
  fmt::print("  {} of {} in closed form; memory differs most, {:.4f} %, for {}\n", out.closed_form, count, 100 * out.memory, fullest);
  return out;
}

void check(const Worst& w) {
  CHECK(w.time.worst < 0.01);
  CHECK(std::abs(w.memory) < 0.001);
}

}  // namespace

TEST_CASE("drawn strategies are estimated quickly as they are played") {
  for (const int steps : {1, 3}) {
    const Worst dense_worst = compare_quick("quick, dense", draws(24), steps, 11U + static_cast<unsigned>(steps), dense);
    check(dense_worst);
    CHECK(dense_worst.closed_form > draws(24) / 2);
    check(compare_quick("quick, sharded", draws(8), steps, 21U + static_cast<unsigned>(steps), draw_sharded));
    check(compare_quick("quick, context", draws(8), steps, 31U + static_cast<unsigned>(steps), draw_context));
    check(compare_quick("quick, experts", draws(8), steps, 41U + static_cast<unsigned>(steps), experts));
  }
  check(compare_quick("quick, images", draws(6), 1, 51, draw_images));
}
