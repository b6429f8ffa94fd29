// The search that leaves out what cannot be best finds what pricing everything finds.
#include "core/cluster/make_cluster.hpp"
#include "core/config/settings/strategy.hpp"
#include "core/config/settings/training.hpp"
#include "core/estimate/quick/quick_estimate.hpp"
#include "core/hardware/catalogue.hpp"
#include "core/model/library.hpp"
#include "core/plan/step_search.hpp"
#include "core/price/calibration/calibration.hpp"
#include "core/price/memory_rule.hpp"
#include "core/search/search.hpp"
#include "core/strategy/lower.hpp"
#include "core/strategy/workload.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/source_path.hpp"

using namespace rehearse;

namespace {

const Catalogue& catalogue() {
  static const Catalogue all(rehearse::testing::source_path("topologies"));
  return all;
}

struct Site {
  std::string machine, network;
  int machines;
  [[nodiscard]] Cluster cluster(int n) const {
    return make_cluster(catalogue(), {{}, {}, {{machine, n}}, network, {}});
  }
};

CostModel::Profiles profiles(const Cluster& cluster) {
  CostModel::Profiles out;
  for (const Cluster::Part& part : cluster.parts())
    out.emplace(part.gpu->id, load_calibration(rehearse::testing::source_path("topologies/calibration"), *part.gpu));
  return out;
}

StepQuestion question(const std::string& model, std::int64_t batch) {
  StepQuestion q{{ModelLibrary(rehearse::testing::source_path("scenarios/models")).load(model), {}, {}}, {}, {}, 0.1};
  q.workload.training.global_batch = batch;
  q.workload.training.sequence_length = q.workload.network.max_sequence_length;
  q.workload.training.optimizer = Optimizer::adamw;
  return q;
}

/// Least seconds per sequence of all trials that fit, each priced.
double exhaustive(const StepQuestion& q, const Cluster& cluster) {
  const CostModel cost(cluster, profiles(cluster), {});
  QuickEstimator one(q.workload, cluster, cost, {}, 1), two(q.workload, cluster, cost, {}, 2);
  double best = INFINITY;
  for (const StepTrial& t : step_trials(q, cluster.device_count(), cluster.machine(0).gpus)) try {
      TrainingSettings training = q.workload.training;
      training.global_batch = t.global_batch;
      const QuickEstimate e = (steps_in_period(t.strategy, {}) > 1 ? two : one)(t.strategy, training);
      if (e.fits()) best = std::min(best, e.step_time.value() / static_cast<double>(t.global_batch));
    } catch (const Error&) {}
  return best;
}

}  // namespace

TEST_CASE("bounds leave out nothing that is best", "[search]") {
  for (const auto& [model, site] : {std::pair<std::string, Site>{"gpt2_xl", {"dgx_a100_40gb", "ib_hdr", 2}},
                                    {"llama3_8b", {"dgx_h100", "superpod_h100", 2}},
                                    {"llama2_7b", {"pcie8_l40s_2sw", "roce_400g", 3}}}) {
    INFO(model << " on " << site.machine);
    auto q = std::make_shared<const StepQuestion>(question(model, 96));
    const auto search = make_step_search(
        q, [site = site](int n) { return site.cluster(n); }, profiles);
    const StepAnswer a = search->best(site.machines);
    REQUIRE(a.choice);
    CHECK(a.choice->step_time.value() / static_cast<double>(a.choice->global_batch) ==
          Approx(exhaustive(*q, site.cluster(site.machines))).epsilon(1e-12));
    CHECK(a.choice->needed <= a.choice->capacity);
    CHECK(a.choice->mfu > 0.1);
    CHECK(a.choice->mfu < 0.8);
    CHECK(a.evaluated > 0);
  }
}

TEST_CASE("the whole space has little that is faster", "[search]") {
  // With the batch that the plan chose; figures in core/plan/README.md.
  for (const auto& [model, site] : {std::pair<std::string, Site>{"gpt2_xl", {"dgx_a100_40gb", "ib_hdr", 2}},
                                    {"llama2_7b", {"dgx_h100", "superpod_h100", 1}}}) {
    INFO(model << " on " << site.machine);
    auto q = std::make_shared<const StepQuestion>(question(model, 64));
    const StepAnswer a = make_step_search(
                             q, [site = site](int n) { return site.cluster(n); }, profiles)
                             ->best(site.machines, true);
    REQUIRE(a.choice);
    const Cluster cluster = site.cluster(site.machines);
    const CostModel cost(cluster, profiles(cluster), {});
    Workload workload = q->workload;
    workload.training.global_batch = a.choice->global_batch;
    const SearchProblem problem{
        workload, cluster, cost, q->own, cluster.device_count(), [&](const StrategySettings& s) {
          return lower(workload, s, cluster);
        }};
    SearchOptions options;
    options.top = 1;
    options.most_played = options.front_evaluations = 0;
    const SearchResult whole = search(problem, q->own, options, false);
    REQUIRE(!whole.best.empty());
    INFO(a.choice->label << " against " << plan_label(whole.best.front().settings));
    CHECK(a.choice->step_time >= whole.best.front().evaluation.step_time * (1 - 1e-9));
    CHECK(a.choice->step_time <= whole.best.front().evaluation.step_time * 1.05);
  }
}

TEST_CASE("offload is for what does not fit otherwise") {
  const Site site{"pcie8_l40s_2sw", "roce_400g", 1};
  const auto choice_for = [&](const std::string& model) {
    return make_step_search(
               std::make_shared<const StepQuestion>(question(model, 16)),
               [site = site](int n) { return site.cluster(n); }, profiles)
        ->best(1)
        .choice;
  };
  const auto small = choice_for("llama2_7b"), large = choice_for("megatron_22b");
  REQUIRE(small);
  CHECK(small->strategy.offload == Offload::none);
  REQUIRE(large);
  CHECK(large->strategy.offload != Offload::none);
  CHECK(large->needed <= large->capacity);
}

TEST_CASE("a mixed set shares its work by speed where that is faster") {
  auto q = std::make_shared<const StepQuestion>(question("gpt2_xl", 96));
  const auto best = [&](const std::vector<ClusterSpec::Part>& parts, const std::string& network) {
    const auto search = make_step_search(
        q,
        [&](int) {
          return make_cluster(catalogue(), {{}, {}, parts, network, {}});
        },
        profiles);
    const StepAnswer a = search->best(2);
    INFO(a.why_not);
    REQUIRE(a.choice);
    return a.choice->step_time.value() / static_cast<double>(a.choice->global_batch);
  };
  const double old = best({{"dgx_a100_80gb", 2}}, "ib_hdr"), fresh = best({{"dgx_h100", 2}}, "ib_hdr"),
               mixed = best({{"dgx_a100_80gb", 1}, {"dgx_h100", 1}}, "ib_hdr");
  CHECK(mixed > fresh);
  CHECK(mixed < old * 0.98);
}

TEST_CASE("what fits nowhere is said to") {
  auto q = std::make_shared<const StepQuestion>(question("llama3_405b", 64));
  const Site site{"dgx_a100_40gb", "ib_hdr", 1};
  const StepAnswer a = make_step_search(
                           q, [site = site](int n) { return site.cluster(n); }, profiles)
                           ->best(1);
  CHECK(!a.choice);
  CHECK(a.why_not.find("memory") != std::string::npos);
}

TEST_CASE("what the software does of itself is in the step, plan by plan, and what it cannot do is left out") {
  const Site site{"dgx_h100", "superpod_h100", 1};
  const auto choice_with = [&](const TrainingSoftware& software) {
    StepQuestion q = question("gpt2_xl", 64);
    q.software = software;
    const auto found = make_step_search(
                           std::make_shared<const StepQuestion>(std::move(q)),
                           [site = site](int n) { return site.cluster(n); }, profiles)
                           ->best(1)
                           .choice;
    REQUIRE(found);
    return *found;
  };
  const StepChoice own = choice_with({});
  // It makes everything again, whatever is asked for.
  TrainingSoftware careful;
  careful.as_run = [](StrategySettings s) {
    s.recompute = Recompute::full;
    return s;
  };
  CHECK(choice_with(careful).step_time > own.step_time * 1.1);
  TrainingSoftware plain;
  plain.admits = [](const StrategySettings& s) { return s.zero_stage == 0 && !s.fsdp.enabled; };
  CHECK(choice_with(plain).strategy.zero_stage == 0);
  CHECK(own.strategy.zero_stage + own.strategy.fsdp.enabled > 0);
  // With sequences twice as long where anything is sharded, plans without are the better ones.
  TrainingSoftware otherwise;
  const Workload usual = question("gpt2_xl", 64).workload;
  otherwise.other_workload = [usual](const StrategySettings& s) {
    std::optional<Workload> out;
    if (s.zero_stage > 0 || s.fsdp.enabled) {
      out = usual;
      out->training.sequence_length *= 2;
    }
    return out;
  };
  CHECK(choice_with(otherwise).strategy.zero_stage == 0);
}
