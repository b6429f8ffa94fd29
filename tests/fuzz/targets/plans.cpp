// A plan: which machines to rent for a training run.

#include "core/plan/plan.hpp"
#include "tests/fuzz/inputs.hpp"
#include "tests/fuzz/target.hpp"
#include "tests/support/source_path.hpp"

namespace rehearse::fuzz::plans {

namespace {

void run_one(std::string_view bytes) {
  static const std::string origin = testing::source_path("scenarios/plans/fuzzed.json");
  const Overridden in = overridden(bytes);
  const Plan plan = parse_plan(in.text, origin, in.overrides);
  require(!plan.candidates.empty(), "a plan without machines");
}

void read_file(const std::string& path) { (void)load_plan(path, {}); }

const bool registered =
    targets().add({"plans",
                   "plan files with overrides",
                   {},
                   {.run = run_one,
                    .seeds = {{"scenarios/plans", ".json"}, {"tests/golden/toy/plan_two_weeks.json", ""}},
                    .limits = {64'000'000, "64 deep", read_file}}});

}  // namespace

}  // namespace rehearse::fuzz::plans
