#include "core/scoreboard/predict.hpp"

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "core/cluster/make_cluster.hpp"
#include "core/config/settings/strategy.hpp"
#include "core/estimate/estimate.hpp"
#include "core/estimate/evaluation.hpp"
#include "core/model/adapters.hpp"
#include "core/model/encoder.hpp"
#include "core/model/library.hpp"
#include "core/play/backend.hpp"
#include "core/play/metrics.hpp"
#include "core/price/stage_memory.hpp"
#include "core/strategy/lower.hpp"
#include "core/strategy/workload.hpp"

namespace rehearse {

namespace {

/// All that prices depend on beside the files of one catalogue: a site is made from it and from nothing else.
struct SiteKey {
  ClusterSpec cluster;
  CalibrationOptions calibration;
  CostModel::Options prices;
  bool operator==(const SiteKey&) const = default;

  SiteKey(const Scenario& s, const std::string& without)
      : calibration(calibration_options(s.kernels)), prices(CostModel::Options::of(s.kernels)) {
    const ClusterPart& part = s.cluster.parts.front();
    cluster.parts = {{part.machine, part.nodes}};
    cluster.network = s.cluster.network;
    calibration.without = without;
    calibration.attention_or_default = true;  // The mapping notes it.
  }
};

/// A cluster and its prices; not to be moved once the model refers to the cluster.
struct Site {
  SiteKey key;
  Cluster cluster;
  CostModel cost;
  Site(SiteKey k, const Catalogue& catalogue, const std::filesystem::path& calibrations)
      : key(std::move(k)),
        cluster(make_cluster(catalogue, key.cluster)),
        cost(cluster, profiles(cluster, calibrations, key.calibration), key.prices) {}
  Site(const Site&) = delete;
  Site& operator=(const Site&) = delete;

 private:
  static CostModel::Profiles profiles(const Cluster& cluster, const std::filesystem::path& directory,
                                      const CalibrationOptions& wanted) {
    CostModel::Profiles out;
    for (const Cluster::Part& part : cluster.parts())
      out.emplace(part.gpu->id, load_calibration(directory, *part.gpu, wanted));
    return out;
  }
};

/// The first `per_domain` GPUs of every machine.
std::vector<DeviceId> devices_of(const RowJob& job, const Cluster& cluster) {
  std::vector<DeviceId> out;
  for (int i = 0; i < job.gpus; ++i)
    out.push_back(cluster.first_device(i / job.gpus_per_domain) + i % job.gpus_per_domain);
  return out;
}

}  // namespace

struct RowPredictor::Impl {
  Catalogue catalogue;
  ModelLibrary models;
  KnownModels known;
  std::filesystem::path calibration;
  std::string backend, without;
  std::vector<std::unique_ptr<Site>> sites;  ///< One for each key.

  Impl(const PredictorPaths& paths, std::string b, std::string w)
      : catalogue(paths.topologies),
        models(paths.models),
        known(models),
        calibration(paths.topologies / "calibration"),
        backend(std::move(b)),
        without(std::move(w)) {}

  const Site& site(const RowJob& job) {
    SiteKey key(job.scenario, without);
    const auto at = std::find_if(sites.begin(), sites.end(), [&](const auto& s) { return s->key == key; });
    if (at != sites.end()) return **at;
    return *sites.emplace_back(std::make_unique<Site>(std::move(key), catalogue, calibration));
  }

  Estimate estimated(const Workload& workload, const RowJob& job, const Site& at) const {
    Program program = lower(workload, job.scenario.strategy, job.gpus);
    program.device_of_rank = devices_of(job, at.cluster);
    return estimate(program, at.cost, job.scenario.strategy,
                    steps_in_period(job.scenario.strategy, job.scenario.input));
  }

  void play(const Program& program, const Site& at, int steps, Prediction& out) const {
    RunOptions options;
    options.steps = steps;
    Trace nothing({});
    const RunResult run = backends().at(backend).value()->run(program, at.cluster, at.cost, options, nothing);
    out.step_time = run.step_time;
    out.breakdown = run.ranks.at(static_cast<std::size_t>(run.slowest)).breakdown;
  }
};

RowPredictor::RowPredictor(const PredictorPaths& paths, std::string backend, std::string without)
    : impl_(std::make_unique<Impl>(paths, std::move(backend), std::move(without))) {}
RowPredictor::~RowPredictor() = default;
RowPredictor::RowPredictor(RowPredictor&&) noexcept = default;

const Catalogue& RowPredictor::catalogue() const { return impl_->catalogue; }
const KnownModels& RowPredictor::known_models() const { return impl_->known; }

Prediction RowPredictor::predict(const RowJob& job) {
  const Scenario& s = job.scenario;
  const ModelRef& model = s.model;
  const Site& at = impl_->site(job);
  const Workload workload =
      on_machines({with_predicted_positions(
                       with_adapters(impl_->models.load(model.inline_json.empty() ? model.name : model.inline_json, {},
                                                        {0, 0, s.framework.merged_projections}),
                                     s.training.lora),
                       s.training),
                   s.training,
                   s.kernels,
                   {}},
                  at.cluster);
  Prediction out;
  if (impl_->backend == "estimate") {
    const Estimate e = impl_->estimated(workload, job, at);
    out.step_time = e.step_time;
    out.breakdown = e.breakdown;
  }
  const bool memory = job.measured.peak_allocated || job.measured.peak_reserved;
  if (!memory && impl_->backend == "estimate") {
    out.bound_by = bound_by(out.breakdown);
    return out;
  }
  Program program = lower(workload, s.strategy, job.gpus);
  program.device_of_rank = devices_of(job, at.cluster);
  if (impl_->backend != "estimate") impl_->play(program, at, steps_in_period(s.strategy, s.input), out);
  out.bound_by = bound_by(out.breakdown);
  if (!memory) return out;
  const MemoryReport report = memory_report(program, at.cluster, MemoryRule(at.cluster));
  for (const StageMemory& stage : report.stages) {
    out.peak_allocated = std::max(out.peak_allocated, stage.allocated);
    out.peak_reserved = std::max(out.peak_reserved, stage.reserved);
  }
  return out;
}

}  // namespace rehearse
