// What is told of a step is of one step, however many were played.

#include "core/config/settings/choices.hpp"
#include "core/program/body.hpp"
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

TEST_CASE("every sample is read from storage once a step, whoever reads it and whatever comes with it") {
  for (const DataParallelism kind :
       {DataParallelism::replicas, DataParallelism::funnel, DataParallelism::parameter_server})
    for (const int microbatches : {1, 4}) {
      INFO(name_of(kind) << ", " << microbatches << " microbatches");
      test::Job job = small_gpt(4);
      job.workload.input.sample = Bytes{1e5};
      job.microbatches = microbatches;
      job.strategy.dp = job.strategy.dp_replicate = 4;
      job.strategy.data_parallel = kind;
      const Program p = job.lower();
      double read = 0;
      for (int r = 0; r < p.mesh.ranks(); ++r)
        test::for_each_task(p, r, [&](const Entry& e, const Body&, const Task& task) {
          const ExprContext at = test::context_of(p, r, e);
          const auto* input = std::get_if<InputTask>(&task.kind);
          if (input != nullptr && p.exprs.evaluate(e.predicate, at) != 0)
            read += static_cast<double>(p.exprs.evaluate(input->samples, at));
        });
      CHECK(read == p.samples_per_step);
    }
}
