// What is told of a step is of one step, however many were played; and the audit refuses a result in which a wire
// carries more than it can.

#include <cmath>

#include "core/base/index.hpp"
#include "core/play/audit.hpp"
#include "tests/conformance/scenes.hpp"
#include "tests/support/catch.hpp"

using namespace rehearse;
using namespace rehearse::testing;

namespace {

std::vector<Scene> with_flows() {
  std::vector<Scene> out = scenes();
  out.push_back(scene("fsdp", 16, 1, 1, [](auto& s) {
    s.fsdp.enabled = true;
    s.dp_shard = 16;
    s.dp_replicate = 1;
  }));
  return out;
}

RunResult over(int steps, const Testbed& bed, const Program& p) {
  RunOptions options;
  options.steps = steps;
  options.all_flows = true;
  return bed.analytic(p, options);
}

}  // namespace

TEST_CASE("links' bytes and streams' times are those of one step, over any number of played steps") {
  for (const Scene& s : with_flows()) {
    const Testbed bed(s.nodes);
    const Program p = s.job.lower();
    const RunResult one = over(1, bed, p);
    REQUIRE_FALSE(one.busiest_links.empty());
    for (const int steps : {2, 3, 4}) {
      INFO(s.name << ", " << steps << " steps");
      const RunResult more = over(steps, bed, p);
      for (std::size_t l = 0; l < one.link_bytes.size(); ++l)
        REQUIRE(more.link_bytes[l] == Approx(one.link_bytes[l]).epsilon(1e-9));
      CHECK(more.busiest_links.front().bytes.value() == Approx(one.busiest_links.front().bytes.value()).epsilon(1e-9));
      CHECK(more.busiest_links.front().utilisation <= 1);
      for (const RankMetrics& rank : more.ranks)
        for (const Seconds busy : rank.stream_busy) CHECK(busy <= more.link_time * (1 + 1e-9));
    }
  }
}
