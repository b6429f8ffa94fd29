#include "tests/unit/config/support_scenario.hpp"

using namespace rehearse;
using namespace rehearse::test;

namespace {

Scenario with(const std::vector<std::string>& overrides, const std::string& batch = "training.global_batch=5040") {
  std::vector<std::string> all{batch};
  all.insert(all.end(), overrides.begin(), overrides.end());
  return parsed(kLeast, all);
}

Error refused_axes(Scenario s, int devices) {
  return refused([&] { resolve_axes(s, devices); });
}

}  // namespace

TEST_CASE("dp follows from the devices and the other axes") {
  Scenario s = with({"strategy.tp=8", "strategy.pp=4"}, "training.global_batch=64");
  resolve_axes(s, 128);
  CHECK(s.strategy.dp == 4);
  CHECK(s.strategy.dp_replicate == 4);
  CHECK(s.strategy.dp_shard == 1);
  const Scenario again = s;
  resolve_axes(s, 128);
  CHECK(s == again);
}

TEST_CASE("dp is dp_replicate times dp_shard, whichever of them is stated") {
  Scenario shard = with({"strategy.dp_shard=8"}, "training.global_batch=64");
  resolve_axes(shard, 16);
  CHECK(shard.strategy.dp == 16);
  CHECK(shard.strategy.dp_replicate == 2);
  Scenario both = with({"strategy.dp_shard=8", "strategy.dp_replicate=2"}, "training.global_batch=64");
  resolve_axes(both, 16);
  CHECK(both.strategy.dp == 16);
  CHECK(contains(refused([] {
                   (void)with({"strategy.dp=10", "strategy.dp_shard=4"});
                 }).what(),
                 "dp_shard(4) does not divide dp(10)"));
  CHECK(std::string(refused([] {
                      (void)with({"strategy.dp=10", "strategy.dp_shard=4", "strategy.dp_replicate=2"});
                    }).what()) == "dp_replicate(2) * dp_shard(4) = 8 != dp(10)");
}

TEST_CASE("axes that don't make up the devices are refused with the equation") {
  const Error e = refused_axes(with({"strategy.dp=2", "strategy.tp=8", "strategy.pp=4"}), 128);
  CHECK(std::string(e.what()) == "dp(2) * tp(8) * pp(4) = 64 != 128 GPUs");
  CHECK(e.where == "s.json: /strategy");
  CHECK(contains(e.hint, "dp(4) would fit"));
  CHECK(std::string(refused_axes(with({"strategy.dp=2", "strategy.tp=3"}), 128).what()) ==
        "dp(2) * tp(3) * pp(1) = 6 != 128 GPUs");
  CHECK(std::string(refused_axes(with({"strategy.dp=2", "strategy.cp=4", "strategy.tile_h=3",
                                       "strategy.placement=tp,cp,tile_h,dp"}),
                                 128)
                        .what()) == "dp(2) * cp(4) * tp(1) * pp(1) * tile_h(3) = 24 != 128 GPUs");
}

TEST_CASE("other axes that don't divide the devices are refused with the equation") {
  CHECK(std::string(refused_axes(with({"strategy.tp=8", "strategy.pp=3"}), 128).what()) ==
        "tp(8) * pp(3) = 24 does not divide 128 GPUs");
  CHECK(std::string(refused_axes(with({"strategy.tp=8"}), 4).what()) == "tp(8) * pp(1) = 8 does not divide 4 GPUs");
}

TEST_CASE("absurd axes don't overflow into a right answer") {
  const Error e = refused_axes(with({"strategy.tp=10000000", "strategy.pp=10000000", "strategy.cp=10000000"}), 128);
  CHECK(contains(e.what(), "= 1000000000000000000000 does not divide 128 GPUs"));
  CHECK_NOTHROW(refused_axes(with({"strategy.dp_replicate=10000000", "strategy.dp_shard=10000000"}), 128));
}

TEST_CASE("the batch is a multiple of what the replicas take at once") {
  const Error e = refused([] { (void)parsed(kGpt3, {"strategy.microbatch=5"}); });
  CHECK(std::string(e.what()) == "global_batch(1536) is not a multiple of dp(16) * microbatch(5) = 80");
  CHECK(e.hint == "1520 and 1600 are");
  CHECK(e.where == "s.json: /training/global_batch");
  // dp known only now.
  CHECK(contains(refused_axes(with({}, "training.global_batch=8"), 16).hint, "the smallest is 16"));
}

TEST_CASE("experts use the ranks of one stage") {
  CHECK_NOTHROW(with({"strategy.dp=4", "strategy.tp=2", "strategy.ep=8"}));
  const Error e = refused([] { (void)with({"strategy.dp=2", "strategy.tp=8", "strategy.ep=3"}); });
  CHECK(std::string(e.what()) == "etp(1) * ep(3) = 3 does not divide dp(2) * cp(1) * tp(8) = 16");
  CHECK(contains(refused([] {
                   (void)with({"strategy.dp=2", "strategy.ep=2", "strategy.etp=2"});
                 }).what(),
                 "etp(2) * ep(2) = 4"));
}

TEST_CASE("every axis larger than one has a place") {
  const Error e = refused([] { (void)with({"strategy.cp=2", "strategy.placement=tp,dp,pp"}); });
  CHECK(std::string(e.what()) == "axis cp(2) is not listed in placement 'tp,dp,pp'");
  CHECK(contains(refused_axes(with({"strategy.placement=tp,pp"}), 4).what(), "axis dp(4)"));  // dp known only now.
  CHECK_NOTHROW(with({"strategy.placement=tp,dp"}));
}

TEST_CASE("an axis of one rank that has no place stated has the usual one, or the last") {
  const auto placed = [](const std::string& stated) {
    Scenario s = with({"strategy.tp=2", "strategy.placement=" + stated}, "training.global_batch=64");
    resolve_axes(s, 8);
    return s.strategy.placement;
  };
  using Axes = std::vector<std::string>;
  CHECK(placed("tp,dp") == Axes{"tp", "cp", "ep", "dp", "pp"});
  CHECK(placed("dp,tp") == Axes{"dp", "tp", "cp", "ep", "pp"});
  CHECK(placed("tile_h,dp,tp") == Axes{"tile_h", "dp", "tp", "cp", "ep", "pp"});
}

TEST_CASE("one device needs no strategy") {
  Scenario s = parsed(kLeast);
  resolve_axes(s, 1);
  CHECK(s.strategy.dp == 1);
}
