// A search against playing every plan of its space on SimGrid.

#include <cstdlib>

#include <fmt/core.h>

#include "core/search/playing.hpp"
#include "tests/support/catch.hpp"
#include "tests/unit/search/exhaustive.hpp"

using namespace rehearse;
using namespace rehearse::test;

namespace {

void hold(const char* name, const SearchJob& job, std::set<std::string> fixed, Bytes most = {}) {
  SearchOptions options;
  options.backend = "simgrid";
  options.fixed = std::move(fixed);
  options.most_memory = most;
  const SearchProblem problem = job.problem();
  const SearchResult found = search(problem, problem.own, options);
  REQUIRE_FALSE(found.best.empty());
  const Exhausted all = exhaustive(problem, options);
  INFO(name << ": " << all.played << " plans played, the search played " << found.played);
  if (std::getenv("REHEARSE_VERBOSE") != nullptr)
    fmt::print(
        "{}: {} plans played, best {:.6g} s; the search played {} and found {:.6g} s; played over closed form {:.4f} "
        "to {:.4f}\n",
        name, all.played, all.best.value(), found.played, found.best.front().evaluation.time().value(), all.least_ratio,
        all.most_ratio);
  CHECK(all.played > 100);
  CHECK(found.best.front().evaluation.time() <= all.best);
  CHECK(all.least_ratio >= kPlayedBelow);
}

}  // namespace

TEST_CASE("a search is never worse than playing every plan on SimGrid") {
  // Inside a node; over two nodes, whose network orders of axes share in different ways; with little memory; where PCIe
  // contends and closed forms are far off.
  hold("one node", SearchJob("tiny_gpt2", "dgx_a100_80gb", 1, 8, 64),
       {"recompute", "offload", "cp", "sequence_parallel"});
  hold("two nodes", SearchJob("gpt2_xl", "dgx_a100_80gb", 2, 32, 1024),
       {"recompute", "offload", "cp", "microbatch", "sequence_parallel"});
  hold("little memory", SearchJob("gpt2_xl", "dgx_a100_80gb", 1, 16, 1024),
       {"offload", "cp", "microbatch", "sequence_parallel"}, Bytes{12e9});
  hold("PCIe boxes", SearchJob("gpt2_xl", "pcie8_l40s_2sw", 2, 32, 1024),
       {"recompute", "offload", "cp", "microbatch", "sequence_parallel"});
}
