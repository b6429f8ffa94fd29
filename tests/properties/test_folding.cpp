// Ranks that are played as one take as long as each by itself, and leave as much on every link: on jobs drawn over
// every strategy, on full and on oversubscribed fabrics, with flows that share links and without.

#include <memory>

#include "core/play/player/player.hpp"
#include "sim/simgrid_clock.hpp"
#include "tests/properties/any_job.hpp"
#include "tests/support/testbed.hpp"

using namespace rehearse;
using namespace rehearse::test;

namespace {

/// Where flows don't share links, lanes that are one still share those that all of them cross: there, on full fabrics.
NetworkSpec any_fabric(bool shared) {
  const int nodes_per_leaf = any_of<int>({1, 2, 3});
  NetworkSpec n = rehearse::testing::shipped_network(any_of<std::string>({"ib_hdr", "selene"}));
  if (n.kind == "fat_tree")
    n.parameters = {{"levels", 2},
                    {"nodes_per_leaf", nodes_per_leaf},
                    {"oversubscription", shared ? any_of<double>({1, 3, 16}) : 1.0}};
  return n;
}

struct Played {
  RunResult run;
  Trace trace;
};

Played play_once(const rehearse::testing::Testbed& bed, const Program& p, const RunOptions& options, bool shared) {
  std::vector<int> ranks;
  for (int r = 0; r < p.mesh.ranks(); ++r) ranks.push_back(r);
  Played out{{}, Trace(ranks)};
  std::unique_ptr<PlayClock> clock;
  if (shared)
    clock = std::make_unique<sim::SimGridClock>(bed.cluster);
  else
    clock = std::make_unique<AnalyticClock>(bed.cluster);
  out.run = play(p, bed.cluster, bed.cost, options, out.trace, *clock, "drawn");
  return out;
}

bool near(double a, double b, double scale) { return std::abs(a - b) <= 1e-9 * scale; }

/// Every rank's breakdown in the folded run: that of the one which stands for it is somewhere in it.
void same_ranks(const RunResult& folded, const RunResult& each) {
  int ranks = 0;
  for (const RankMetrics& f : folded.ranks) {
    ranks += f.stands_for;
    const auto same =
        std::find_if(each.ranks.begin(), each.ranks.end(), [&](const auto& e) { return e.rank == f.rank; });
    RC_ASSERT(same != each.ranks.end());
    for (std::size_t c = 0; c < f.breakdown.seconds.size(); ++c)
      RC_ASSERT(near(f.breakdown.seconds[c].value(), same->breakdown.seconds[c].value(), each.step_time.value()));
  }
  RC_ASSERT(ranks == static_cast<int>(each.ranks.size()));
}

void same_links(const RunResult& folded, const RunResult& each) {
  RC_ASSERT(folded.link_bytes.size() == each.link_bytes.size());
  double most = 0;
  for (const double b : each.link_bytes) most = std::max(most, b);
  for (std::size_t l = 0; l < each.link_bytes.size(); ++l)
    RC_ASSERT(near(folded.link_bytes[l], each.link_bytes[l], most));
}

}  // namespace

TEST_CASE("ranks played as one are as each by itself") {
  int fewer = 0;
  check_property("folded = every rank", [&] {
    Job job(tiny_gpt());
    const Program p = any_program(job);
    const bool shared = coin() || coin();
    const int nodes = (p.mesh.ranks() + 7) / 8 + any_of<int>({0, 1});
    const rehearse::testing::Testbed bed(rehearse::testing::machines_on(nodes, any_fabric(shared)));
    RunOptions options;
    options.steps = any_of<int>({1, 2});
    options.all_flows = coin();
    const Played folded = play_once(bed, p, options, shared);
    options.fold = false;
    const Played each = play_once(bed, p, options, shared);
    fewer += folded.run.ranks.size() < each.run.ranks.size() ? 1 : 0;
    RC_LOG(fmt::format("{} nodes, {} of {} ranks, steps={} all_flows={} shared={}: {} and {} s", nodes,
                       folded.run.ranks.size(), each.run.ranks.size(), options.steps, options.all_flows, shared,
                       folded.run.step_time.value(), each.run.step_time.value()));
    RC_ASSERT(near(folded.run.step_time.value(), each.run.step_time.value(), each.run.step_time.value()));
    RC_ASSERT(folded.run.breaches.empty());
    same_ranks(folded.run, each.run);
    same_links(folded.run, each.run);
  });
  CHECK(fewer > 20);
}
