#include <map>
#include <set>

#include "core/config/settings/strategy.hpp"
#include "core/schedule/schedule.hpp"
#include "core/strategy/workload.hpp"
#include "tests/support/catch.hpp"
#include "tests/unit/search/jobs.hpp"

using namespace rehearse;
using namespace rehearse::test;

namespace {

/// Every n-th plan of a space.
std::vector<StrategySettings> sampled_settings(const Space& space, std::size_t most) {
  std::vector<StrategySettings> out;
  const std::vector<Space::Plan> plans = space.plans();
  const std::size_t step = std::max<std::size_t>(1, plans.size() / most);
  for (std::size_t i = 0; i < plans.size(); i += step) out.push_back(space.settings(plans[i]));
  return out;
}

}  // namespace

TEST_CASE("every plan of a space spreads the model over all devices and lowers, or is refused by lowering alone") {
  for (const char* model : {"tiny_gpt2", "tiny_llama", "tiny_mixtral"}) {
    const SearchJob job(model, "dgx_a100_80gb", 1, 16, 64);
    Space space(job.job.workload, job.job.strategy, 8, {});
    space.enumerate();
    int lowered = 0, refused = 0;
    for (const StrategySettings& s : sampled_settings(space, 150)) {
      INFO(plan_label(s));
      REQUIRE(s.dp * s.tp * s.pp * s.cp * s.tile_h * s.tile_w == 8);
      REQUIRE(s.dp == s.dp_replicate * s.dp_shard);
      REQUIRE(16 % (s.dp * s.microbatch) == 0);
      try {
        (void)lower(job.job.workload, s, 8);
        ++lowered;
      } catch (const Error&) {
        ++refused;
      }
    }
    INFO(model << ": " << refused << " of " << lowered + refused << " refused");
    CHECK(lowered > 9 * refused);
  }
}

TEST_CASE("no two plans are the same plan") {
  const SearchJob job("tiny_gpt2", "dgx_a100_80gb", 1, 8, 64);
  Space space(job.job.workload, job.job.strategy, 8, {});
  space.enumerate();
  std::set<SettingTexts> seen;
  for (const Space::Plan& p : space.plans()) {
    INFO(plan_label(space.settings(p)));
    CHECK(seen.insert(setting_texts(space.settings(p))).second);
  }
  CHECK(static_cast<double>(space.plans().size()) <= space.combinations());
}

TEST_CASE("the space has every strategy that a search promises") {
  const SearchJob job("gpt2", "dgx_a100_80gb", 1, 16, 64);
  Space space(job.job.workload, job.job.strategy, 8, {});
  space.enumerate();
  std::set<std::string> schedules_seen, words;
  for (const Space::Plan& p : space.plans()) {
    const StrategySettings s = space.settings(p);
    schedules_seen.insert(s.schedule);
    words.insert("zero" + std::to_string(s.zero_stage));
    words.insert("recompute " + name_of(s.recompute));
    words.insert("offload " + name_of(s.offload));
    if (s.fsdp.enabled) words.insert(s.dp_replicate > 1 ? "hsdp" : "fsdp");
    if (s.sequence_parallel) words.insert("sp");
    if (s.cp > 1) words.insert("context " + name_of(s.context));
  }
  std::set<std::string> registered;
  for (const auto& entry : schedules().entries())
    if (!entry.value->pairs() || entry.value->copies() > 1)
      registered.insert(entry.name);  // Pairs that hide exchanges between experts are for networks that have some.
  CHECK(schedules_seen == registered);
  for (const char* word : {"zero0", "zero1", "zero2", "zero3", "fsdp", "hsdp", "sp", "recompute none", "recompute full",
                           "offload optimizer", "offload activations", "offload all", "context ring", "context ulysses",
                           "context allgather"})
    CHECK(words.contains(word));
}

TEST_CASE("what is fixed stays, and an impossible wish says who refused it") {
  const SearchJob job("tiny_gpt2", "dgx_a100_80gb", 1, 8, 64);
  StrategySettings wanted = job.job.strategy;
  wanted.tp = 2;
  wanted.zero_stage = 1;
  Space space(job.job.workload, wanted, 8, {"tp", "zero_stage"});
  space.enumerate();
  for (const Space::Plan& p : space.plans()) {
    REQUIRE(space.settings(p).tp == 2);
    REQUIRE(space.settings(p).zero_stage == 1);
  }
  wanted.tp = 3;
  CHECK_THROWS_AS(Space(job.job.workload, wanted, 8, {"tp"}), Error);
}

TEST_CASE("orders of axes: n axes larger than one have n! of them, the scenario's first") {
  const SearchJob job("tiny_gpt2", "dgx_a100_80gb", 1, 8, 64);
  Space space(job.job.workload, job.job.strategy, 8, {});
  space.enumerate();
  std::map<int, std::size_t> expected{{0, 1}, {1, 1}, {2, 2}, {3, 6}};
  for (const Space::Plan& p : space.plans()) {
    const StrategySettings s = space.settings(p);
    const int large = (s.dp > 1) + (s.tp > 1) + (s.pp > 1) + (s.cp > 1);
    const auto orders = space.placements(p);
    REQUIRE(orders.size() == expected.at(large));
    REQUIRE(orders.front() == s.placement);
    REQUIRE(std::set<std::vector<std::string>>(orders.begin(), orders.end()).size() == orders.size());
  }
}

TEST_CASE("a label names what differs from a plain plan, setting texts give the plan back") {
  StrategySettings s;
  s.dp = s.dp_replicate = 16;
  s.tp = 8;
  s.pp = 8;
  s.schedule = "interleaved_1f1b";
  s.virtual_stages = 3;
  s.sequence_parallel = true;
  s.recompute = Recompute::selective;
  CHECK(plan_label(s) == "tp=8 pp=8 dp=16 mb=1 interleaved_1f1b v=3 sp recompute=selective");
  s.placement = {"tp", "pp", "dp", "cp", "ep"};
  CHECK(plan_label(s) == "tp=8 pp=8 dp=16 mb=1 interleaved_1f1b v=3 sp recompute=selective order=tp,pp,dp");
}
