#include "core/cli/run/measured_step.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/api/session/scenario_cluster.hpp"
#include "core/api/session/session.hpp"
#include "core/cli/backend_choice.hpp"
#include "core/cli/output.hpp"
#include "core/collective/collective_table.hpp"
#include "core/config/json_file.hpp"
#include "core/import/traces/measured_program.hpp"
#include "core/play/words.hpp"
#include "core/price/calibration/calibration.hpp"
#include "core/report/pictures/kineto_trace.hpp"
#include "core/strategy/workload.hpp"

namespace rehearse::cli {

namespace {

Cluster cluster_of(const Catalogue& catalogue, const MeasuredWorkload& w, const std::string& file) {
  if (!w.cluster) {
    throw Error(
        ErrorKind::usage,
        fmt::format("the trace does not say on which cluster to play it (it ran on {} ranks{})", w.world_size,
                    w.gpu.empty() ? "" : " of " + w.gpu),
        file + ": /cluster",
        "example: --set cluster.machine=dgx_a100_80gb --set cluster.nodes=2 --set cluster.network=single_switch");
  }
  Scenario scenario;
  scenario.cluster = *w.cluster;
  scenario.origin = file;
  return scenario_cluster(catalogue, scenario);
}

CostModel prices(const Cluster& cluster, const DataDirectory& data, const MeasuredProgram& made) {
  CostModel::Profiles profiles;
  for (const Cluster::Part& part : cluster.parts())
    profiles.emplace(part.gpu->id, load_calibration(data.calibration(), *part.gpu));
  CostModel::Options options;
  options.task_times = made.times;
  return {cluster, profiles, options};
}

Document document_of(const MeasuredWorkload& w, const MeasuredProgram& made, const Cluster& cluster,
                     const RunResult& run) {
  const RankMetrics& slowest = run.ranks.at(static_cast<std::size_t>(run.slowest));
  const int ranks = made.program.mesh.ranks();
  Document out;
  out.blocks.emplace_back(
      Heading{fmt::format("{}, {}, measured on {} ranks{}, played on {}: {} ranks", w.name, w.step, w.world_size,
                          w.gpu.empty() ? "" : " of " + w.gpu, cluster.name(), ranks)});
  Facts facts{"",
              {{"step time", to_string(run.step_time)},
               {"measured", to_string(w.measured_step)},
               {"played / measured", fmt::format("{:.3f}", run.step_time / w.measured_step)},
               {"back end", run.backend}}};
  if (w.data_parallel > 0)
    facts.rows.emplace_back("throughput",
                            fmt::format("{:.3f} of the traced job's",
                                        ranks / static_cast<double>(w.world_size) * (w.measured_step / run.step_time)));
  out.blocks.emplace_back(std::move(facts));
  Table table{fmt::format("Where the step goes, on the slowest rank ({})", slowest.rank),
              {{""}, {"ms", true}, {"%", true}},
              {}};
  out.records = {"", {{"category"}, {"seconds", true}}, {}};
  nlohmann::ordered_json json{{"schema", kResultSchema},
                              {"step_time_s", run.step_time.value()},
                              {"measured_step_s", w.measured_step.value()},
                              {"ranks", ranks},
                              {"backend", run.backend}};
  json["breakdown"] = nlohmann::ordered_json::object();
  for (int c = 0; c < kTimeCategories; ++c) {
    const auto category = static_cast<TimeCategory>(c);
    const Seconds t = slowest.breakdown[category];
    if (t <= Seconds{0}) continue;
    table.rows.push_back({std::string(words_of(category)), fmt::format("{:.3f}", t.value() * 1e3),
                          fmt::format("{:.1f}", 100 * (t / run.step_time))});
    table.bars.push_back(t / run.step_time);
    out.records.rows.push_back({std::string(name_of(category)), fmt::format("{}", t.value())});
    json["breakdown"][std::string(name_of(category))] = t.value();
  }
  out.blocks.emplace_back(std::move(table));
  std::vector<std::string> notes = made.notes;
  notes.insert(notes.end(), w.notes.begin(), w.notes.end());
  if (!w.gpu.empty())
    notes.push_back(
        fmt::format("kernels take what they took on {}{}", w.gpu,
                    w.kernel_scale == 1 ? "; kernel_scale changes that" : fmt::format(", times {}", w.kernel_scale)));
  for (const std::string& note : notes) out.blocks.emplace_back(Paragraph{"Taken for granted: " + note + "."});
  json["notes"] = notes;
  out.json = json.dump(2) + "\n";
  return out;
}

}  // namespace

int simulate_measured(const std::string& file, const Arguments& arguments, Console& console) {
  for (const char* option :
       {"--what-if", "--html", "--dry-run", "--trace-ranks", "--no-fold", "--all-flows", "--observed"})
    if (arguments.has(option))
      throw Error(ErrorKind::usage, "a traced step is played without it", option,
                  "leave it out, or give a scenario: " + file + " is what 'import trace' wrote");
  const MeasuredWorkload workload = read_measured_workload(file, arguments.all("--set"));
  const MeasuredProgram made = measured_program(workload);
  const DataDirectory data = find_data();
  const Catalogue catalogue(data.topologies());
  const Cluster cluster = cluster_of(catalogue, workload, file);
  const int ranks = made.program.mesh.ranks();
  if (cluster.device_count() < ranks)
    throw Error(ErrorKind::usage, fmt::format("{} ranks do not fit on {} GPUs", ranks, cluster.device_count()),
                file + ": /cluster", "more --set cluster.nodes, or a smaller --set data_parallel");
  const CostModel cost = prices(cluster, data, made);
  Trace trace(arguments.has("--trace") ? std::vector<int>{0} : std::vector<int>{});
  trace.streams = made.program.stream_names();
  RunOptions options;
  options.fold = false;
  const RunResult run =
      backends().at(chosen_backend(arguments, console)).value()->run(made.program, cluster, cost, options, trace);
  print(document_of(workload, made, cluster, run), arguments, console);
  if (arguments.has("--trace")) {
    const auto out = open_output(arguments.text("--trace"));
    write_kineto(trace, made.program, cluster, workload.name, *out);
    out->close();
  }
  return 0;
}

}  // namespace rehearse::cli
