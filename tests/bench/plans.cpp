// How the closed form and the player agree on plans drawn from whole search spaces, and what each takes.
//
//   bench_plans [COUNT [SCENARIO...]]     2,000 plans of each of the six spaces that core/estimate's tests draw from
//
// PLAY=0 in the environment leaves the player out. MOST: entries that the player may take (tests: 2e5).

#include <cstdlib>
#include <ctime>

#include "tests/unit/estimate/plan_draws.hpp"

namespace {

using namespace rehearse;
using namespace rehearse::test;

double cpu_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

double number(const char* name, double otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::atof(text);
}

void bench(const std::string& scenario, int count) {
  const ScenarioJob from = load_job(kSource + "/scenarios/" + scenario + ".json");
  std::mt19937_64 random(7);
  std::vector<Compared> rows;
  const bool plays = number("PLAY", 1) != 0;
  const double most = number("MOST", 2e5);
  double lowering = 0, estimating = 0, slowest = 0;
  std::string slow;
  for (int i = 0; i < count; ++i) {
    DrawnPlan d = draw_plan(from, random, plays ? most : 1e18);
    const double t0 = cpu_seconds();
    d.program = lower(d.workload, d.strategy, from.site->cluster);
    const double t1 = cpu_seconds();
    const Estimate e = estimate(*d.program, from.site->cost, d.strategy, steps_in_period(d.strategy, d.workload.input));
    const double t2 = cpu_seconds();
    lowering += t1 - t0;
    estimating += t2 - t1;
    if (t2 - t1 > slowest) {
      slowest = t2 - t1;
      slow = plan_label(d.strategy);
    }
    if (number("EACH", 0) != 0)
      fmt::print("{:.6f} s step, lowered in {:.4f} s, estimated in {:.4f} s: {}\n", e.step_time.value(), t1 - t0,
                 t2 - t1, plan_label(d.strategy));
    if (plays) rows.push_back(compare_plan(from, d));
  }
  fmt::print("  lowered {:.0f}/s, estimated {:.0f}/s, slowest {:.3f} s: {}\n", count / lowering, count / estimating,
             slowest, slow);
  if (!plays) return;
  print("  " + scenario, rows);
  std::sort(rows.begin(), rows.end(),
            [](const Compared& a, const Compared& b) { return std::abs(a.difference()) < std::abs(b.difference()); });
  fmt::print("  99th percentile {:.3f} %\n",
             100 * std::abs(rows[static_cast<std::size_t>(0.99 * static_cast<double>(rows.size() - 1))].difference()));
}

}  // namespace

int main(int argc, char* argv[]) {
  const int count = argc > 1 ? std::atoi(argv[1]) : 2000;
  std::vector<std::string> scenarios(argv + std::min(argc, 2), argv + argc);
  for (const std::string& s : scenarios.empty() ? kSpaces : scenarios) bench(s, count);
}
