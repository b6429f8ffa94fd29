#include "core/cli/verbs/search_setup.hpp"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <thread>

#include <fmt/format.h>

#include "core/cli/run/sample_name.hpp"
#include "core/config/full_key.hpp"
#include "core/play/metrics.hpp"
#include "core/play/words.hpp"

namespace rehearse::cli {

namespace {

constexpr int kMostJobs = 1024;

std::optional<int> whole(std::string_view text) {
  int out = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  return error == std::errc{} && end == text.data() + text.size() ? std::optional<int>(out) : std::nullopt;
}

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
          [&session](const StrategySettings& s) { return session.lowered(s); }};
}

StepFigures figures_of(const Session& session) {
  const TrainingSettings& t = session.scenario.training;
  StepFigures out;
  out.gpus = session.devices.empty() ? session.cluster.device_count() : static_cast<int>(session.devices.size());
  for (int d = 0; d < out.gpus; ++d)
    out.peak += session.cluster.gpu(session.devices.empty() ? d : session.devices[static_cast<std::size_t>(d)])
                    .peak(arithmetic_of(t.precision));
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

SearchSession open_search_session(const Scenario& scenario) {
  try {
    return {open_session(scenario)};
  } catch (const Error& e) {
    if (e.kind != ErrorKind::usage) throw;
    // Everything but the strategy must be right.
    return {open_session(scenario, {}, false), false, e.what()};
  }
}

std::string fix_override(const std::string& text) {
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0 || equals + 1 == text.size())
    throw Error(ErrorKind::usage, fmt::format("'{}' is not KEY=VALUE", text), "--fix", "example: --fix tp=8");
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

SearchShard parse_shard(const std::string& text) {
  if (text.empty()) return {};
  const std::size_t slash = text.find('/');
  const auto index = whole(std::string_view(text).substr(0, slash));
  const auto count = slash == std::string::npos ? std::nullopt : whole(std::string_view(text).substr(slash + 1));
  if (!index || !count || *count < 1 || *count > 1'000'000 || *index < 1 || *index > *count)
    throw Error(ErrorKind::usage, fmt::format("'{}' is not I/N with 1 <= I <= N", text), "--shard",
                "example: --shard 2/8; in a Slurm array of 8, --shard $((SLURM_ARRAY_TASK_ID + 1))/8");
  return {*index - 1, *count};
}

int whole_of(const Arguments& arguments, const std::string& option, int least, int fallback) {
  if (!arguments.has(option)) return fallback;
  const auto value = whole(arguments.text(option));
  if (!value || *value < least)
    throw Error(ErrorKind::usage, fmt::format("'{}' is not a whole number from {} on", arguments.text(option), least),
                option);
  return *value;
}

int jobs_of(const Arguments& arguments) {
  return std::min(
      kMostJobs, whole_of(arguments, "--jobs", 1, static_cast<int>(std::max(1U, std::thread::hardware_concurrency()))));
}

Option jobs_option() {
  return {"-j,--jobs", "N", "threads; the answer is the same for any number", "the cores of this machine"};
}
Option shard_option() { return {"--shard", "I/N", "do part I of N only; 'rehearse merge' joins the parts' JSON"}; }

SearchReport search_report_of(const Session& session, const std::string& file) {
  SearchReport out;
  out.version = program_version();
  out.file = file;
  out.scenario = std::filesystem::path(file).stem().string();
  out.scenario_json = resolved_json(session.scenario);
  out.figures = figures_of(session);
  out.range = [&session, ranges = PredictionRanges::load(session.data.prediction_errors())](const StrategySettings& s) {
    return ranges.range(kind_of(session.workload.network, s, session.cluster));
  };
  const Network& network = session.workload.network;
  const TrainingSettings& t = session.scenario.training;
  out.subject =
      fmt::format("{} ({:.1f} B parameters) on {} GPUs, {}: batches of {}, {}", network.name,
                  static_cast<double>(network.parameter_count()) / 1e9, with_commas(out.figures.gpus),
                  session.cluster.name(), with_commas(static_cast<double>(t.global_batch)), name_of(t.precision));
  return out;
}

}  // namespace rehearse::cli
