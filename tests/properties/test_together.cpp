// Several drawn jobs at once on one cluster: whatever they are and however nodes are dealt, each moves the bytes that
// it moves alone, those that meet nobody are as fast as alone, and neither their order nor folding matters.

#include <algorithm>
#include <numeric>

#include "core/play/player/player.hpp"
#include "sim/simgrid_clock.hpp"
#include "tests/properties/any_job.hpp"
#include "tests/support/testbed.hpp"

using namespace rehearse;
using namespace rehearse::test;

namespace {

constexpr int kGpusANode = 8;

NetworkSpec meeting_fabric() {
  NetworkSpec n = rehearse::testing::shipped_network(any_of<std::string>({"ib_hdr", "ib_hdr", "selene"}));
  if (n.kind == "fat_tree")
    n.parameters = {
        {"levels", 2}, {"nodes_per_leaf", any_of<int>({1, 2, 3})}, {"oversubscription", any_of<double>({1, 3, 16})}};
  return n;
}

/// One that is not refused, and mostly one of several nodes.
Program any_lowered() {
  const bool wide = any_of<int>({0, 1, 1, 1}) == 1;
  for (int tries = 0; tries < 200; ++tries) {
    const Job job = any_job();
    try {
      Program p = job.lower();
      if (wide && p.mesh.ranks() <= kGpusANode) continue;
      RC_LOG(describe(job));
      return p;
    } catch (const Error&) {
      continue;
    }
  }
  RC_DISCARD("all refused");
}

std::vector<RunResult> together(const rehearse::testing::Testbed& bed, const std::vector<Program>& programs,
                                const std::vector<bool>& meets, const RunOptions& options) {
  Trace nothing({});
  std::vector<PlayedProgram> played;
  for (std::size_t i = 0; i < programs.size(); ++i)
    played.push_back({programs[i], bed.cost, options, nothing, {}, meets[i]});
  sim::SimGridClock clock(bed.cluster);
  return play(bed.cluster, played, clock, "drawn");
}

/// Nodes one after another, or dealt in turn.
void place(std::vector<Program>& programs, bool in_turn) {
  std::vector<int> nodes;
  for (const Program& p : programs) nodes.push_back((p.mesh.ranks() + kGpusANode - 1) / kGpusANode);
  std::vector<std::vector<int>> taken(programs.size());
  const int all = std::accumulate(nodes.begin(), nodes.end(), 0);
  std::size_t job = 0;
  for (int n = 0; n < all; ++n) {
    while (static_cast<int>(taken[job].size()) == nodes[job]) job = (job + 1) % programs.size();
    taken[job].push_back(n);
    if (in_turn) job = (job + 1) % programs.size();
  }
  for (std::size_t j = 0; j < programs.size(); ++j)
    for (int r = 0; r < programs[j].mesh.ranks(); ++r)
      nth(programs[j].device_of_rank, r) = nth(taken[j], r / kGpusANode) * kGpusANode + r % kGpusANode;
}

std::vector<bool> who_meets(const std::vector<RunResult>& alone) {
  std::vector<bool> out;
  for (std::size_t i = 0; i < alone.size(); ++i) {
    bool meets = false;
    for (std::size_t j = 0; j < alone.size(); ++j)
      for (std::size_t l = 0; i != j && l < alone[i].link_bytes.size(); ++l)
        meets = meets || (alone[i].link_bytes[l] > 0 && alone[j].link_bytes[l] > 0);
    out.push_back(meets);
  }
  return out;
}

bool close(double a, double b, double scale) { return std::abs(a - b) <= 1e-9 * scale; }

/// SimGrid takes moments closer than 1e-11 s for one, which adds up over the moments of a step.
void same_times(const RunResult& a, const RunResult& b) {
  constexpr double kMoments = 2e-9;
  RC_ASSERT(a.step_times.size() == b.step_times.size());
  for (std::size_t s = 0; s < a.step_times.size(); ++s)
    RC_ASSERT(std::abs(a.step_times[s].value() - b.step_times[s].value()) <= 1e-9 * b.step_times[s].value() + kMoments);
}

void same_bytes(const RunResult& a, const RunResult& b) {
  RC_ASSERT(a.link_bytes.size() == b.link_bytes.size());
  const double most = b.link_bytes.empty() ? 0 : *std::max_element(b.link_bytes.begin(), b.link_bytes.end());
  for (std::size_t l = 0; l < a.link_bytes.size(); ++l) RC_ASSERT(close(a.link_bytes[l], b.link_bytes[l], most));
}

}  // namespace

TEST_CASE("jobs on one fabric are themselves where they meet nobody, in any order, folded or not") {
  int met = 0, slowed = 0, apart = 0;
  check_property("together", [&] {
    const int jobs = any_of<int>({2, 2, 3});
    std::vector<Program> programs;
    for (int j = 0; j < jobs; ++j) {
      programs.push_back(any_lowered());
      if (j > 0 && coin()) programs.back() = programs.front();
    }
    place(programs, coin());
    int nodes = 0;
    for (const Program& p : programs)
      nodes = std::max(nodes, *std::max_element(p.device_of_rank.begin(), p.device_of_rank.end()) / kGpusANode + 1);
    const rehearse::testing::Testbed bed(rehearse::testing::machines_on(nodes, meeting_fabric()));
    RunOptions options;
    options.steps = any_of<int>({1, 2});
    std::vector<RunResult> alone;
    for (const Program& p : programs) alone.push_back(std::move(together(bed, {p}, {false}, options).front()));
    const std::vector<bool> meets = who_meets(alone);
    const auto beside = together(bed, programs, meets, options);
    RunOptions each = options;
    each.fold = false;
    const auto unfolded = together(bed, programs, meets, each);
    for (std::size_t j = 0; j < programs.size(); ++j) {
      RC_ASSERT(beside[j].breaches.empty());
      same_times(beside[j], unfolded[j]);
      same_bytes(beside[j], alone[j]);
      if (!meets[j]) same_times(beside[j], alone[j]);
      (meets[j] ? met : apart) += 1;
      slowed += meets[j] && beside[j].step_time > alone[j].step_time * (1 + 1e-6) ? 1 : 0;
    }
    std::vector<Program> turned(programs.rbegin(), programs.rend());
    const auto other = together(bed, turned, {meets.rbegin(), meets.rend()}, options);
    for (std::size_t j = 0; j < programs.size(); ++j) same_times(beside[j], other[programs.size() - 1 - j]);
  });
  CHECK(met > 20);
  CHECK(slowed > 5);
  CHECK(apart > 20);
}
