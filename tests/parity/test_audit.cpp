// The audit judges every strategy's bytes: a result whose bytes are multiplied until a wire carries more than it can is
// refused, and one a little below is not.

#include "core/play/audit.hpp"
#include "tests/parity/jobs.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/testbed.hpp"

using namespace rehearse;
using namespace rehearse::test;

namespace {

const Variation kReplicas{"dp", 2, [](StrategySettings& s) { s.dp_replicate *= 2; }};

/// What parity has, and what it doesn't execute.
std::map<std::string, std::vector<Variation>> audited_variations() {
  auto out = variations();
  out["data_parallel_funnel"].push_back({"funnel", 2, [](StrategySettings& s) {
                                           s.dp_replicate *= 2;
                                           s.data_parallel = DataParallelism::funnel;
                                         }});
  out["offload_optimizer"].push_back({"optimizer in host memory", 2, [](StrategySettings& s) {
                                        s.dp_replicate *= 2;
                                        s.zero_stage = 1;
                                        s.offload = Offload::optimizer;
                                      }});
  out["offload_parameters"].push_back({"parameters in host memory", 2, [](StrategySettings& s) {
                                         s.dp_shard *= 2;
                                         s.zero_stage = 3;
                                         s.offload = Offload::optimizer;
                                         s.declared.set("strategy.offload_parameters", true);
                                       }});
  return out;
}

/// With replicas beside it where the variation by itself moves nothing between ranks.
Program program_of(const Variation& v) {
  const Net net = net_of(v);
  const bool alone = v.ranks > 1 || !legal(net, {v, kReplicas});
  return spread(small_job(net), alone ? std::vector<Variation>{v} : std::vector<Variation>{v, kReplicas});
}

std::vector<Breach> audited(const Cluster& cluster, const RunResult& run, int steps, std::vector<double> bytes) {
  for (double& b : bytes) b *= steps;
  Audit audit(cluster);
  RunResult out;
  audit.close(bytes, run.link_time.value() * steps, steps, out);
  return out.breaches;
}

/// Share of its rate that link `l` is used at.
double used(const Cluster& cluster, const RunResult& run, std::size_t l) {
  return run.link_bytes[l] / (cluster.link_rate(static_cast<LinkId>(l)).value() * run.link_time.value());
}

void check_mutations(const Cluster& cluster, const RunResult& run, int steps) {
  double most = 0;
  for (std::size_t l = 0; l < run.link_bytes.size(); ++l) most = std::max(most, used(cluster, run, l));
  REQUIRE(most > 0);
  const auto times = [&](double factor) {
    std::vector<double> bytes = run.link_bytes;
    for (double& b : bytes) b *= factor;
    return audited(cluster, run, steps, bytes);
  };
  CHECK(times(1).empty());
  CHECK(times(0.9999 / most).empty());
  for (const double over : {1.0001, 2.0, 8.0}) {
    const std::vector<Breach> found = times(over / most);
    REQUIRE_FALSE(found.empty());
    CHECK(found.front().rule == "link");
  }
  // One wire alone, every one that carries something.
  for (std::size_t l = 0; l < run.link_bytes.size(); ++l) {
    if (run.link_bytes[l] == 0) continue;
    std::vector<double> bytes = run.link_bytes;
    bytes[l] *= 1.0001 / used(cluster, run, l);
    const std::vector<Breach> found = audited(cluster, run, steps, bytes);
    REQUIRE(found.size() == 1);
    CHECK(found.front().detail.starts_with(cluster.link(static_cast<LinkId>(l)).name + " carried"));
  }
}

}  // namespace

TEST_CASE("no strategy's wires can carry more than they do unnoticed") {
  const rehearse::testing::Testbed bed(2, "selene");
  for (const auto& [strategy, list] : audited_variations())
    for (const Variation& v : list)
      for (const int steps : {1, 2, 4})
        for (const bool fold : {true, false}) {
          INFO(strategy << ": " << v.name << ", " << steps << " steps" << (fold ? "" : ", every rank"));
          const Program p = program_of(v);
          RunOptions options;
          options.steps = steps;
          options.fold = fold;
          options.all_flows = true;
          const RunResult run = bed.analytic(p, options);
          CHECK(run.breaches.empty());
          check_mutations(bed.cluster, run, steps);
        }
}

TEST_CASE("every registered strategy's bytes are audited") {
  const auto all = audited_variations();
  for (const auto& entry : strategies().entries()) {
    INFO(entry.name);
    const auto at = all.find(entry.name);
    REQUIRE(at != all.end());
    CHECK((!at->second.empty() || entry.name == "adversarial"));
  }
  const rehearse::testing::Testbed bed(2, "selene");
  RunOptions options;
  options.all_flows = true;
  check_mutations(bed.cluster, bed.analytic(spread(small_job(Net::gan), {kReplicas}), options), 1);
}
