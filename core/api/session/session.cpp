#include "core/api/session/session.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/api/build_info.hpp"
#include "core/api/session/rate_slips.hpp"
#include "core/api/session/sample_name.hpp"
#include "core/api/session/scenario_cluster.hpp"
#include "core/api/session/scenario_file.hpp"
#include "core/cluster/placement.hpp"
#include "core/collective/collective_table.hpp"
#include "core/config/json_file.hpp"
#include "core/config/settings/strategy.hpp"
#include "core/estimate/balance.hpp"
#include "core/model/adapters.hpp"
#include "core/model/encoder.hpp"
#include "core/model/library.hpp"
#include "core/price/calibration/calibration.hpp"
#include "core/schedule/schedule.hpp"
#include "core/strategy/lower.hpp"
#include "core/strategy/workload.hpp"

namespace rehearse {

namespace {

bool names_setting(const std::string& where) { return where.find_first_of("/: ") == std::string::npos; }

/// Errors of the library about a setting ("strategy.tp") gain the place in the scenario's file; those about nothing in
/// particular are about `key`.
template <class Do>
auto in_scenario(const Scenario& scenario, const std::string& key, Do action) -> decltype(action()) {
  try {
    return action();
  } catch (Error& e) {
    if (!names_setting(e.where)) throw;
    std::string path = e.where.empty() ? key : e.where;
    std::replace(path.begin(), path.end(), '.', '/');
    e.where = scenario.origin + ": /" + path;
    throw;
  }
}

/// A window of the whole sequence is none.
Network without_idle_windows(Network network, std::int64_t sequence) {
  for (BlockSpec& block : network.blocks)
    for (OpSpec& op : block.ops)
      if (op.attention_window >= sequence) op.attention_window = 0;
  return network;
}

Network load_model(const DataDirectory& data, const Scenario& scenario) {
  const ModelRef& m = scenario.model;
  return in_scenario(scenario, "model", [&] {
    return ModelLibrary(data.models())
        .load(!m.inline_json.empty() ? m.inline_json
              : m.file.empty()       ? m.name
                                     : m.file,
              {},
              {scenario.training.image_height, scenario.training.image_width, scenario.framework.merged_projections});
  });
}

CalibrationProfile calibration_of(const Session& s, const GpuSpec& gpu) {
  const std::string& named = s.scenario.calibration;
  CalibrationOptions options = calibration_options(s.scenario.kernels);
  // What a profile names may never have been measured on these GPUs; what the user names must be there.
  options.attention_or_default = !s.scenario.stated.contains("kernels.flash");
  if (named.empty() || s.profile) return load_calibration(s.data.calibration(), gpu, options);
  const auto read = [](const std::string& file) { return parse_calibration(read_text(file), file); };
  const std::string file = is_file_reference(named) ? named : (s.data.calibration() / (named + ".json")).string();
  const CalibrationProfile given = read(file);
  return resolve_calibration(read((s.data.calibration() / "fallback.json").string()), &given, gpu, options);
}

/// The framework that the scenario names.
std::optional<Framework> framework_of(const DataDirectory& data, Scenario& scenario) {
  if (scenario.framework.name.empty()) return std::nullopt;
  return in_scenario(scenario, "framework", [&] {
    Framework found = Frameworks::load(data.frameworks()).find(scenario.framework.name);
    scenario.framework.name = found.id();
    return found;
  });
}

/// What the framework's profile says goes into the scenario, where that is silent; what it cannot do is warned of.
std::vector<TakenFact> framework_facts(const std::optional<Framework>& framework, const Cluster& cluster,
                                       Scenario& scenario) {
  std::vector<TakenFact> out;
  if (framework)
    out = in_scenario(scenario, "framework",
                      [&] { return take(*framework, scenario, {cluster.parts().front().gpu->generation}); });
  apply_checkpoints(scenario);
  if (framework)
    for (const Ability& ability : lacking(*framework, scenario))
      scenario.warnings.push_back(fmt::format("{}: {} cannot do {} {} ({})", scenario.origin, framework->id(),
                                              ability.kind, ability.name, ability.source.text));
  return out;
}

/// Where one of the files that the scenario names is a device profile. A cluster that is one is priced by it.
std::shared_ptr<const DeviceProfile> profile_of(const Scenario& scenario) {
  for (const std::string* file : {&scenario.calibration, &scenario.cluster.file}) {
    if (file->empty() || !is_file_reference(*file)) continue;
    const std::string text = read_text(*file);
    if (is_device_profile(text, *file)) return std::make_shared<const DeviceProfile>(parse_device_profile(text, *file));
  }
  return nullptr;
}

/// Empty where the scenario says nothing: rank i on device i.
std::vector<DeviceId> stated_devices(const Scenario& scenario, const Cluster& cluster) {
  if (const std::string& file = scenario.strategy.devices; !file.empty())
    return read_placement(read_text(file), file, cluster);
  if (scenario.cluster.gpus_per_node > 0)
    return first_devices(cluster, scenario.cluster.gpus_per_node, scenario.origin + ": /cluster/gpus_per_node");
  return {};
}

/// Whole layers are what PyTorch's users call full, though its checkpoints keep the last value that backward reads.
std::string recompute_text(const StrategySettings& s) {
  if (s.recompute != Recompute::selective) return name_of(s.recompute);
  if (s.recompute_modules == std::vector<std::string>{"layer"}) return "full (PyTorch's checkpoints)";
  if (s.recompute_modules == StrategySettings{}.recompute_modules) return "selective";
  return fmt::format("selective ({})", fmt::join(s.recompute_modules, ", "));
}

std::string strategy_text(const StrategySettings& s) {
  std::string out = fmt::format("dp {}", s.dp);
  const auto axis = [&out](const char* name, int size) {
    if (size > 1) out += fmt::format(" x {} {}", name, size);
  };
  axis("cp", s.cp);
  axis("tp", s.tp);
  axis("pp", s.pp);
  axis("tile_h", s.tile_h);
  axis("tile_w", s.tile_w);
  axis("ep", s.ep);
  axis("etp", s.etp);
  if (s.ep > 1 && s.dispatch == Dispatch::hierarchical) out += ", hierarchical dispatch";
  if (s.pp > 1) out += ", " + s.schedule;
  if (s.virtual_stages > 1) out += fmt::format(" with {} chunks", s.virtual_stages);
  if (!s.layers_per_stage.empty()) out += fmt::format(", {} layers", fmt::join(s.layers_per_stage, "+"));
  if (!s.batch_per_replica.empty())
    out += fmt::format(", replicas of {} sequences", fmt::join(s.batch_per_replica, "+"));
  if (s.sequence_parallel && s.tp > 1) out += ", sequence parallel";
  if (s.overlap.tp && s.tp > 1) out += " in pieces";
  if (s.cp > 1) out += fmt::format(", {} attention", name_of(s.context));
  if (s.zero_stage > 0) out += fmt::format(", ZeRO {}", s.zero_stage);
  if (s.fsdp.enabled)
    out += s.dp_replicate > 1 ? fmt::format(", HSDP {} x {}", s.dp_replicate, s.dp_shard) : std::string(", FSDP");
  if (s.data_parallel != DataParallelism::replicas && s.dp > 1) out += ", " + name_of(s.data_parallel);
  if (s.offload != Offload::none) out += fmt::format(", {} offloaded", name_of(s.offload));
  return out + ", recompute " + recompute_text(s);
}

}  // namespace

std::string name_of_samples(const Network& network) {
  if (network.sequences) return "samples";
  const auto& shape = network.blocks.front().tensors.front().shape;
  const auto sides = std::count_if(shape.begin(), shape.end(), [](const Dim& d) {
    return d.tag != DimTag::batch && !(d.tag == DimTag::fixed && d.size == 1);
  });
  return sides > 1 ? "images" : "samples";
}

StrategySettings Session::as_run(const StrategySettings& settings) const {
  return plans ? plans->as_run(settings) : settings;
}

std::optional<Workload> Session::other_workload(const StrategySettings& settings) const {
  if (!plans) return std::nullopt;
  const auto usual = plans->facts(scenario.strategy), here = plans->facts(settings);
  if (usual->training == here->training && usual->kernels == here->kernels) return std::nullopt;
  Workload out = workload;
  out.kernels = here->kernels;
  out.training = here->training;
  // Worked out from the model and the machines.
  out.training.sequence_length = workload.training.sequence_length;
  out.training.fp8.copies = workload.training.fp8.copies;
  return out;
}

Program Session::lowered(const StrategySettings& asked) const {
  const StrategySettings settings = as_run(asked);
  const std::optional<Workload> other = other_workload(asked);
  const Workload& used = other ? *other : workload;
  Program program =
      devices.empty() ? lower(used, settings, cluster) : lower(used, settings, static_cast<int>(devices.size()));
  if (!devices.empty()) program.device_of_rank = devices;
  return profile && profile->kind == "cpu" ? with_real_type(std::move(program), profile->settings.front().arithmetic)
                                           : program;
}

Program Session::lowered() const {
  in_scenario(scenario, "strategy.schedule", [this] { (void)schedules().at(scenario.strategy.schedule); });
  return in_scenario(scenario, "strategy", [this] { return lowered(scenario.strategy); });
}

CostModel::Profiles Session::profiles(const Cluster& of) const {
  CostModel::Profiles out;
  for (const Cluster::Part& part : of.parts()) out.emplace(part.gpu->id, calibration_of(*this, *part.gpu));
  return out;
}

CostModel Session::cost_model() const {
  CostModel::Options options = CostModel::Options::of(scenario.kernels);
  options.input = scenario.input;
  options.profile = profile;
  options.slowdown = slowdown;
  options.collectives.searches = searches;
  if (profile)
    if (const std::string table = collective_table_text(*profile); !table.empty())
      options.collectives.table =
          std::make_shared<const CollectiveTable>(CollectiveTable::parse(table, profile->origin));
  if (const std::string& file = scenario.collective_table; !file.empty())
    options.collectives.table = std::make_shared<const CollectiveTable>(CollectiveTable::parse(read_text(file), file));
  return {cluster, profiles(cluster), options};
}

ReportHead Session::head(const Program& program) const {
  ReportHead out{rehearse_version(), resolved_json(scenario), {}};
  const std::string batch =
      fmt::format(", {} microbatch{} of {}, {}", program.microbatches, program.microbatches == 1 ? "" : "es",
                  scenario.strategy.microbatch, name_of(scenario.training.precision));
  out.plan = {workload.network.name,
              static_cast<double>(workload.network.parameter_count()),
              static_cast<int>(program.device_of_rank.size()),
              cluster.name(),
              strategy_text(scenario.strategy) + batch,
              program.microbatches,
              name_of_samples(workload.network)};
  return out;
}

Session open_session(const std::string& path, const std::vector<std::string>& overrides,
                     const SessionOptions& options) {
  return open_session(load_scenario_file(path, overrides), options);
}

Session open_session(Scenario scenario, const SessionOptions& options) {
  const std::optional<int>& ranks = options.ranks;
  DataDirectory data = data_in(options.data);
  Catalogue catalogue(data.topologies());
  std::shared_ptr<const DeviceProfile> profile = profile_of(scenario);
  const bool on_profile = profile && scenario.cluster.file == profile->origin;
  Cluster cluster =
      on_profile ? profile_cluster(*profile, ranks.value_or(profile->most_ranks()), *catalogue.network("single_switch"))
                 : scenario_cluster(catalogue, scenario);
  if (!on_profile)
    for (std::string& slip : rate_slips(catalogue, cluster, scenario))
      scenario.warnings.push_back(fmt::format("{}: {}", scenario.origin, slip));
  std::vector<DeviceId> devices = options.devices.empty() ? stated_devices(scenario, cluster) : options.devices;
  if (options.resolved)
    resolve_axes(scenario, ranks             ? *ranks
                           : devices.empty() ? cluster.device_count()
                                             : static_cast<int>(devices.size()));
  std::optional<Framework> framework = framework_of(data, scenario);
  std::shared_ptr<const FrameworkPlans> plans;
  if (framework)
    plans = std::make_shared<const FrameworkPlans>(*framework, scenario,
                                                   FrameworkSite{cluster.parts().front().gpu->generation});
  std::vector<TakenFact> taken = framework_facts(framework, cluster, scenario);
  Network network = load_model(data, scenario);
  for (const std::string& note : network.notes)
    scenario.warnings.push_back(fmt::format("{}: model: {}", scenario.origin, note));
  network =
      in_scenario(scenario, "training.lora", [&] { return with_adapters(std::move(network), scenario.training.lora); });
  if (network.sequences && scenario.training.sequence_length == 0)
    scenario.training.sequence_length = network.max_sequence_length;
  if (network.sequences) network = without_idle_windows(std::move(network), scenario.training.sequence_length);
  network = with_predicted_positions(std::move(network), scenario.training);
  Workload workload = on_machines({std::move(network), scenario.training, scenario.kernels, scenario.input}, cluster);
  Session out{std::move(data),     std::move(catalogue), std::move(scenario),  std::move(cluster), std::move(devices),
              std::move(workload), std::move(profile),   std::move(framework), std::move(taken)};
  out.plans = std::move(plans);
  out.searches = options.searches;
  if (StrategySettings& strategy = out.scenario.strategy; options.resolved && strategy.balance != Balance::none)
    strategy = in_scenario(out.scenario, "strategy.balance",
                           [&] { return balanced(out.workload, strategy, out.cost_model(), out.devices); });
  return out;
}

}  // namespace rehearse
