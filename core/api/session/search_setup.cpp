#include "core/api/session/search_setup.hpp"

#include <algorithm>
#include <filesystem>

#include <fmt/format.h>

#include "core/api/build_info.hpp"
#include "core/api/session/observed.hpp"
#include "core/api/session/sample_name.hpp"
#include "core/base/index.hpp"
#include "core/config/full_key.hpp"
#include "core/config/settings/strategy.hpp"
#include "core/config/settings/training.hpp"
#include "core/play/metrics.hpp"
#include "core/play/words.hpp"
#include "core/strategy/workload.hpp"

namespace rehearse {

namespace {

/// Short names that people use for keys.
std::string long_key(const std::string& key) {
  if (key == "zero") return "zero_stage";
  if (key == "mb") return "microbatch";
  if (key == "v" || key == "vpp") return "virtual_stages";
  if (key == "sp") return "sequence_parallel";
  if (key == "fsdp") return "fsdp.enabled";
  return key;
}

}  // namespace

SearchProblem problem_of(const Session& session, const CostModel& cost) {
  return {session.workload,
          session.cluster,
          cost,
          session.scenario.strategy,
          session.devices.empty() ? session.cluster.device_count() : static_cast<int>(session.devices.size()),
          [&session](const StrategySettings& s) { return session.lowered(s); },
          [&session](const StrategySettings& s) { return session.as_run(s); },
          [&session](const StrategySettings& s) { return !session.other_workload(s); }};
}

StepFigures figures_of(const Session& session) {
  const TrainingSettings& t = session.scenario.training;
  StepFigures out;
  out.gpus = session.devices.empty() ? session.cluster.device_count() : static_cast<int>(session.devices.size());
  for (int d = 0; d < out.gpus; ++d)
    out.peak +=
        session.cluster.gpu(session.devices.empty() ? d : nth(session.devices, d)).peak(arithmetic_of(t.precision));
  out.samples_per_step = static_cast<double>(t.global_batch);
  out.samples = name_of_samples(session.workload.network);
  if (session.workload.network.sequences)
    out.tokens_per_step =
        static_cast<double>(t.global_batch) * static_cast<double>(session.workload.training.sequence_length);
  out.model_flops =
      model_flops(session.workload.network, t.global_batch, session.workload.training.sequence_length).value();
  bool known = true;
  for (const Cluster::Part& part : session.cluster.parts()) {
    known = known && part.machine->power > Watts{0};
    out.power += part.machine->power * part.nodes;
  }
  if (!known) out.power = Watts{0};
  return out;
}

SearchSession open_search_session(const Scenario& scenario, const std::filesystem::path& data) {
  try {
    return {scenario, open_session(scenario, {.data = data})};
  } catch (const Error& e) {
    if (e.kind != ErrorKind::usage) throw;
    // Everything but the strategy must be right.
    return {scenario, open_session(scenario, {.data = data, .resolved = false}), false, e.what()};
  }
}

std::string fix_override(const std::string& text) {
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0 || equals + 1 == text.size())
    throw Error(ErrorKind::usage, fmt::format("'{}' is not KEY=VALUE", text), "fix", "example: tp=8");
  std::string key = text.substr(0, equals);
  const bool grouped = key.starts_with("strategy.");
  key = full_key("strategy." + long_key(grouped ? key.substr(9) : key));
  return key + text.substr(equals);
}

std::set<std::string> fixed_keys(const std::vector<std::string>& overrides) {
  const std::vector<std::string> searched = searched_keys();
  std::set<std::string> out;
  for (const std::string& o : overrides) {
    const std::string key = o.substr(9, o.find('=') - 9);
    if (std::find(searched.begin(), searched.end(), key) != searched.end()) out.insert(key);
  }
  return out;
}

SearchReport search_report_of(const Session& session, const std::string& file) {
  SearchReport out;
  out.version = rehearse_version();
  out.file = file;
  out.scenario = std::filesystem::path(file).stem().string();
  out.scenario_json = resolved_json(session.scenario);
  out.figures = figures_of(session);
  out.range = range_of(session);
  out.peak = peak_range_of(session);
  const Network& network = session.workload.network;
  const TrainingSettings& t = session.scenario.training;
  out.subject =
      fmt::format("{} ({:.1f} B parameters) on {} GPUs, {}: batches of {}, {}", network.name,
                  static_cast<double>(network.parameter_count()) / 1e9, with_commas(out.figures.gpus),
                  session.cluster.name(), with_commas(static_cast<double>(t.global_batch)), name_of(t.precision));
  return out;
}

}  // namespace rehearse
