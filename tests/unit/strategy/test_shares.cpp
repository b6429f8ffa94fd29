// Unequal shares: layers where they are asked for, samples each trained on once, and refusals that name the rule.

#include <numeric>
#include <set>

#include "core/base/index.hpp"
#include "core/config/settings/strategy.hpp"
#include "core/program/body.hpp"
#include "core/strategy/shares.hpp"
#include "tests/support/catch.hpp"
#include "tests/unit/program/lowered.hpp"

using namespace rehearse;
using namespace rehearse::test;

namespace {

std::string refusal_shares(const Job& job) {
  try {
    (void)job.lower();
  } catch (const Error& e) {
    CHECK(e.kind == ErrorKind::usage);
    CHECK_FALSE(e.hint.empty());
    return e.what();
  }
  return "";
}

}  // namespace

TEST_CASE("stages hold the layers they are given, the first the embedding besides and the last the head") {
  Job job(tiny_gpt(8));
  job.strategy.pp = 4;
  job.strategy.layers_per_stage = {1, 3, 2, 2};
  const Program p = job.lower();
  validate(p);
  std::vector<int> held;
  for (const ChunkPlacement& c : p.chunks) held.push_back(c.last_layer - c.first_layer);
  CHECK(held == std::vector<int>{2, 3, 2, 3});
  job.strategy.layers_per_stage = {1, 3, 2};
  CHECK(refusal_shares(job) == "layers_per_stage has 3 numbers for pp(4) * virtual_stages(1) = 4 chunks");
  job.strategy.layers_per_stage = {1, 3, 2, 3};
  CHECK(refusal_shares(job) == "layers_per_stage: 1 + 3 + 2 + 3 = 9 != 8 layers");
}

TEST_CASE("with unequal replicas every sequence is trained on once") {
  for (const auto& [batch, microbatch] :
       std::vector<std::pair<std::vector<std::int64_t>, int>>{{{6, 2}, 1}, {{2, 6}, 2}, {{1, 9, 2, 4}, 1}}) {
    Job job(tiny_gpt());
    StrategySettings& s = job.strategy;
    s.dp = s.dp_replicate = static_cast<int>(batch.size());
    s.microbatch = microbatch;
    s.batch_per_replica = batch;
    const auto total = std::accumulate(batch.begin(), batch.end(), std::int64_t{0});
    job.microbatches = static_cast<int>(total / microbatch / s.dp);
    const Program p = job.lower();
    validate(p);
    std::multiset<std::int64_t> trained;
    for (int rank = 0; rank < p.mesh.ranks(); ++rank) {
      std::set<int> seen;
      for (const Entry& e : nth(p.roles, nth(p.role_of_rank, rank)).step) {
        if (nth(p.bodies, e.body).phase != Phase::forward || !seen.insert(e.microbatch).second) continue;
        ExprContext at = context_of(p, rank, e);
        at.tables = &p.tables;
        for (int i = 0; i < microbatch; ++i)
          trained.insert(p.exprs.evaluate(p.first_sample, at) + rank * microbatch + i);
      }
      CHECK(static_cast<std::int64_t>(seen.size()) * microbatch == nth(batch, rank));
    }
    CHECK(static_cast<std::int64_t>(trained.size()) == total);
    CHECK(std::set(trained.begin(), trained.end()).size() == trained.size());
    CHECK(*trained.rbegin() == total - 1);
  }
}

TEST_CASE("unequal replicas cannot meet in every microbatch") {
  Job job(tiny_gpt());
  StrategySettings& s = job.strategy;
  s.dp = s.dp_replicate = 2;
  s.batch_per_replica = {6, 2};
  CHECK(refusal_shares(job).empty());
  s.zero_stage = 2;
  CHECK(refusal_shares(job).find("meet once a step") != std::string::npos);
  s.zero_stage = 1;
  CHECK(refusal_shares(job).empty());
  s.grad_sync = GradientSync::every;
  CHECK(refusal_shares(job).find("grad_sync 'every'") != std::string::npos);
  s.grad_sync = GradientSync::automatic;
  s.batch_per_replica = {6, 1};
  CHECK(refusal_shares(job) == "batch_per_replica: 6 + 1 = 7 != global_batch(8)");
  s.batch_per_replica = {8};
  CHECK(refusal_shares(job) == "batch_per_replica has 1 numbers for dp(2) replicas");
  s.microbatch = 2;
  s.batch_per_replica = {13, 3};
  CHECK(refusal_shares(job) == "batch_per_replica: 13 % microbatch(2) = 1 != 0");
}
