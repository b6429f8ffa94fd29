// Plans drawn from whole search spaces, worked out as a search does: how many a second, how many of them by the tables
// of QuickEstimator, and how far the closed form is from the player.
//
//   bench_plans [COUNT [NAME...]]     2,000 plans of each of the six spaces that core/estimate's tests draw from, or of
//                                     those of scenarios/NAME.json
//
// PLAY=0 in the environment leaves the player out. MOST: entries that the player may take (tests: 2e5). EACH=1 prints
// every plan with the time it took.

#include <cstdlib>
#include <ctime>

#include "core/price/stage_memory.hpp"
#include "tests/unit/estimate/plan_draws.hpp"

namespace {

using namespace rehearse;
using namespace rehearse::test;

double cpu_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

double number(const char* name, double otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::atof(text);
}

struct Rate {
  int plans = 0;
  double seconds = 0;
  void add(double took) {
    ++plans;
    seconds += took;
  }
  [[nodiscard]] std::string text() const {
    return plans == 0 ? "none" : fmt::format("{} ({:.0f}/s)", plans, plans / seconds);
  }
};

/// By how they were worked out; those that fit no device have no time.
void bench_rate(const ScenarioJob& job, int count) {
  const SearchProblem problem{job.workload,
                              job.site->cluster,
                              job.site->cost,
                              job.strategy,
                              job.site->cluster.device_count(),
                              [&](const StrategySettings& s) { return lower(job.workload, s, job.site->cluster); }};
  std::mt19937_64 random(7);
  std::vector<StrategySettings> plans;
  for (int i = 0; i < count; ++i) plans.push_back(draw_settings(job, random));
  QuickEvaluator quick(problem, {});
  Rate tables, walked, memory, refused, all;
  for (const StrategySettings& s : plans) {
    const double begin = cpu_seconds();
    std::optional<Evaluation> e = quick(s);
    const bool known = e.has_value();
    if (!known) e = evaluate(problem, s);
    const double took = cpu_seconds() - begin;
    all.add(took);
    (!e->refusal.empty() ? refused : known ? tables : e->fits ? walked : memory).add(took);
    if (number("EACH", 0) != 0)
      fmt::print("{:.6f} s step, in {:.5f} s{}: {}\n", e->step_time.value(), took, known ? " by tables" : "",
                 plan_label(s));
  }
  fmt::print("  {} plans: by tables {}, walked {}, memory alone {}, refused {}\n", all.text(), tables.text(),
             walked.text(), memory.text(), refused.text());
}

void bench_agreement(const ScenarioJob& from, int count) {
  std::mt19937_64 random(7);
  std::vector<Compared> rows, known;
  double memory = 0;
  std::string fullest;  // Of the worst.
  for (int i = 0; i < count; ++i) {
    const DrawnPlan d = draw_plan(from, random, number("MOST", 2e5));
    rows.push_back(compare_plan(from, d));
    const MemoryRule rule(from.site->cluster);
    QuickEstimator quick(d.workload, from.site->cluster, from.site->cost, rule,
                         steps_in_period(d.strategy, d.workload.input));
    const auto e = quick.closed_form(d.strategy);
    if (!e) continue;
    const double needed = memory_report(*d.program, from.site->cluster, rule).tightest().needed.value();
    known.push_back(rows.back());
    known.back().estimated = e->step_time.value();
    known.back().name += fmt::format(", memory {:+.4f} %", 100 * (e->needed.value() / needed - 1));
    if (const double off = std::abs(e->needed.value() / needed - 1); off > memory)
      memory = off, fullest = known.back().name;
  }
  if (!known.empty())
    print(fmt::format("  {}, by tables (memory within {:.4f} %: {})", from.name, 100 * memory, fullest), known);
  print("  " + from.name, rows);
  std::sort(rows.begin(), rows.end(),
            [](const Compared& a, const Compared& b) { return std::abs(a.difference()) < std::abs(b.difference()); });
  fmt::print("  99th percentile {:.3f} %\n",
             100 * std::abs(rows[static_cast<std::size_t>(0.99 * static_cast<double>(rows.size() - 1))].difference()));
}

}  // namespace

int main(int argc, char* argv[]) {
  const int count = argc > 1 ? std::atoi(argv[1]) : 2000;
  std::vector<std::string> scenarios(argv + std::min(argc, 2), argv + argc);
  for (const std::string& s : scenarios.empty() ? kSpaces : scenarios) {
    fmt::print("{}\n", s);
    const ScenarioJob job = load_job(kSource + "/scenarios/" + s + ".json");
    bench_rate(job, count);
    if (number("PLAY", 1) != 0) bench_agreement(job, count);
  }
}
