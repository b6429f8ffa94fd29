#include <algorithm>
#include <limits>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/api/build_info.hpp"
#include "core/api/session/scenario_cluster.hpp"
#include "core/api/session/session.hpp"
#include "core/cli/html_output.hpp"
#include "core/cli/output.hpp"
#include "core/cli/run/optional_parts.hpp"
#include "core/cli/verbs.hpp"
#include "core/cli/verbs/collective_sizes.hpp"
#include "core/collective/algorithm.hpp"
#include "core/collective/collective_table.hpp"
#include "core/config/json_file.hpp"
#include "core/hardware/collective_constants.hpp"
#include "core/play/clocks/analytic_clock.hpp"
#include "core/play/player/plan_play.hpp"
#include "core/report/results/collective_report.hpp"

namespace rehearse::cli {
namespace {

int whole_number(const Arguments& arguments, const std::string& option, int fallback, int least) {
  return static_cast<int>(arguments.whole(option, least, fallback, std::numeric_limits<int>::max()));
}

bool is_machine_file(const std::string& file) {
  const nlohmann::json json = load_json(file);
  return json.is_object() && json.value("schema", "").starts_with("rehearse/machine/");
}

/// --cluster as a scenario would name it: a cluster, or some of one machine.
ClusterRef cluster_ref(const Catalogue& catalogue, const Arguments& arguments) {
  if (!arguments.has("--cluster"))
    throw Error(ErrorKind::usage, "--cluster is missing", "collectives",
                "example: rehearse collectives --cluster dgx_h100");
  const std::string name = arguments.text("--cluster");
  ClusterRef out;
  out.network = arguments.text("--network");
  const auto clusters = catalogue.names(Catalogue::Kind::cluster), machines = catalogue.names(Catalogue::Kind::machine);
  const bool file = is_file_reference(name);
  if (file ? !is_machine_file(name) : std::find(clusters.begin(), clusters.end(), name) != clusters.end()) {
    (file ? out.file : out.name) = name;
    return out;
  }
  if (!file && std::find(machines.begin(), machines.end(), name) == machines.end()) {
    auto all = clusters;
    all.insert(all.end(), machines.begin(), machines.end());
    Error e = unknown_name("cluster or machine", name, all);
    e.where = "--cluster";
    throw e;
  }
  out.parts.push_back({name, whole_number(arguments, "--nodes", 1, 1)});
  return out;
}

Cluster open_cluster(const Catalogue& catalogue, const Arguments& arguments) {
  Scenario scenario;
  scenario.cluster = cluster_ref(catalogue, arguments);
  scenario.origin = "--cluster";
  return scenario_cluster(catalogue, scenario);
}

/// The first GPUs of the first nodes.
std::vector<DeviceId> group_of(const Cluster& cluster, int nodes, int per_node) {
  std::vector<DeviceId> out;
  if (nodes > cluster.node_count())
    throw Error(ErrorKind::usage, fmt::format("{} nodes of {}", nodes, cluster.node_count()), "--nodes",
                fmt::format("1 to {}", cluster.node_count()));
  for (NodeId n = 0; n < nodes; ++n) {
    const int here = cluster.machine(n).gpus;
    if (per_node > here)
      throw Error(ErrorKind::usage, fmt::format("{} GPUs per node", per_node), "-g",
                  fmt::format("{} has {}", cluster.machine(n).id, here));
    for (int g = 0; g < (per_node > 0 ? per_node : here); ++g) out.push_back(cluster.first_device(n) + g);
  }
  if (out.size() < 2)
    throw Error(ErrorKind::usage, "one rank has nobody to talk to", "-g, --nodes", "two ranks or more");
  return out;
}

std::vector<double> asked_sizes(const Arguments& arguments) {
  SizeRange range;
  if (arguments.has("--minbytes")) range.first = parse_size(arguments.text("--minbytes"), "-b");
  if (arguments.has("--maxbytes"))
    range.last = parse_size(arguments.text("--maxbytes"), "-e");
  else
    range.last = std::max(range.last, range.first);
  if (arguments.has("--stepfactor") && arguments.has("--stepbytes"))
    throw Error(ErrorKind::usage, "both a factor and a step", "-f, -i", "give one of them");
  if (arguments.has("--stepbytes")) range.increment = parse_size(arguments.text("--stepbytes"), "-i");
  if (arguments.has("--stepfactor")) {
    const std::string text = arguments.text("--stepfactor");
    char* end = nullptr;
    range.factor = std::strtod(text.c_str(), &end);
    if (text.empty() || *end != 0)
      throw Error(ErrorKind::usage, fmt::format("'{}' is no number", text), "-f", "a factor above 1");
  }
  return sizes_of(range);
}

CollectiveModel::Options model_options(const Arguments& arguments) {
  CollectiveModel::Options out;
  out.algorithm = arguments.text("--algo");
  out.protocol = arguments.text("--proto");
  out.measured_latency = !arguments.has("--nccl-times");
  out.min_channels = whole_number(arguments, "--min-channels", 0, 1);
  if (arguments.has("--table")) {
    const std::string file = arguments.text("--table");
    out.table = std::make_shared<const CollectiveTable>(CollectiveTable::parse(read_text(file), file));
  }
  return out;
}

bool reduces(CollectiveOp op) {
  return op == CollectiveOp::all_reduce || op == CollectiveOp::reduce_scatter || op == CollectiveOp::reduce;
}

std::string checked_redop(const Arguments& arguments, CollectiveOp op) {
  static const std::vector<std::string> kValid{"sum", "prod", "min", "max", "avg"};
  const std::string name = arguments.text("--redop", "sum");
  if (std::find(kValid.begin(), kValid.end(), name) == kValid.end()) {
    Error e = unknown_name("reduction", name, kValid);
    e.where = "--redop";
    throw e;
  }
  return reduces(op) ? name : "none";
}

/// Plays plans one by one, each on a clock of its own.
Seconds played(const std::string& backend, const Cluster& cluster, const FluidPlan& plan) {
  if (plan.edges.empty()) return plan.latency;
  if (backend == "analytic") {
    AnalyticClock clock(cluster);
    return play_plan(plan, clock);
  }
  return play_plan(plan, *make_simgrid_clock(cluster));
}

std::string checked_backend(const Arguments& arguments) {
  const std::string name = arguments.text("--backend", "model");
  static const std::vector<std::string> kValid{"model", "analytic", "simgrid"};
  if (std::find(kValid.begin(), kValid.end(), name) != kValid.end()) return name;
  Error e = unknown_name("back end", name, kValid);
  e.where = "--backend";
  throw e;
}

std::vector<std::string> sources_of(const Cluster& cluster, int nodes, const CollectiveModel::Options& options) {
  std::vector<std::string> out{"The choice is NCCL 2.28.9's."};
  if (options.table) out.push_back(fmt::format("Measured times: {}.", options.table->origin()));
  if (!options.measured_latency)
    return {"The choice and the times are NCCL 2.28.9's own prediction, within what the wires carry."};
  const auto& constants = cluster.gpu(0).collectives;
  if (constants == nullptr) return out;
  for (const char* key : {"latency", "bandwidth"})
    for (const Source& s : constants->sources)
      if (s.key == key) out.push_back(fmt::format("{} inside a node, {}: {}.", key, name_of(s.evidence), s.text));
  const bool stated = cluster.network().collectives.crossing.has_value();
  for (const Source& s : stated ? cluster.network().sources : constants->sources)
    if (nodes > 1 && s.key == (stated ? "collectives" : "crossing"))
      out.push_back(fmt::format("crossing the network, {}: {}.", name_of(s.evidence), s.text));
  return out;
}

int collectives(const Arguments& arguments, Console& console) {
  check_output(arguments);
  check_html(arguments);
  const std::string backend = checked_backend(arguments);
  const DataDirectory data = find_data();
  const Catalogue catalogue(data.topologies());
  const CollectiveOp op = parse_collective_op(arguments.text("--op", "all_reduce"));
  const ElementType type = parse_element_type(arguments.text("--dtype", "float"));
  const auto sizes = asked_sizes(arguments);
  const CollectiveModel::Options options = model_options(arguments);

  const Cluster cluster = open_cluster(catalogue, arguments);
  CollectiveReport report;
  report.program_version = rehearse_version();
  report.cluster = cluster.name();
  report.op = op;
  report.nodes = whole_number(arguments, "--nodes", cluster.node_count(), 1);
  const auto group = group_of(cluster, report.nodes, whole_number(arguments, "--gpus", 0, 1));
  report.ranks = static_cast<int>(group.size());
  report.per_node = report.ranks / report.nodes;
  report.type = type.name;
  report.redop = checked_redop(arguments, op);
  report.backend = backend;
  CallOptions call;
  call.grouped = whole_number(arguments, "--grouped", 1, 1);
  call.fp8_reduction = type.is_fp8 && reduces(op);
  call.switch_reduces = !reduces(op) || (type.in_switch && report.redop != "prod" && report.redop != "avg");
  const CollectiveModel model(cluster, options);
  const CollectiveAlgorithm* own = model.without_nccl(op, group);
  report.rests_on = own != nullptr ? own->sources(cluster) : sources_of(cluster, report.nodes, options);
  for (const double size : sizes) {
    const Buffer buffer = buffer_of(op, size, type.bytes, report.ranks);
    CollectiveRow row{Bytes{buffer.bytes}, buffer.count, model.choose(op, Bytes{buffer.bytes}, group, call), {}};
    row.time = backend == "model" || row.choice.algorithm == "none"
                   ? row.choice.time
                   : played(backend, cluster, model.plan(op, Bytes{buffer.bytes}, group, call));
    report.rows.push_back(std::move(row));
  }
  const Document document = collective_document(report);
  print(document, arguments, console);
  write_html("collectives", document, arguments, console);
  return 0;
}

}  // namespace

Verb collectives_verb() {
  return {
      "collectives",
      "nccl-tests' table for a cluster that you may not have: times, bandwidths and NCCL's choice.",
      {"rehearse collectives --cluster dgx_h100 -b 8 -e 8G -f 4",
       "rehearse collectives --cluster eos --nodes 16 --op all_gather -b 1M -e 1G --dtype bfloat16",
       "rehearse collectives --cluster dgx_a100_80gb --nodes 2 --network selene --algo ^Tree --proto Simple"},
      {},
      {{"--cluster", "NAME", "cluster, machine, or a file of either"},
       {"--nodes", "N", "its first N nodes; of a machine, so many of it", "all; 1 of a machine"},
       {"--network", "NAME", "network that joins them, by name or file", "the cluster's own"},
       {"-g,--gpus", "N", "ranks per node, on its first GPUs", "all"},
       {"--op", "NAME",
        "all_reduce, all_gather, reduce_scatter, broadcast, reduce, all_to_all, halo_exchange, send_recv",
        "all_reduce"},
       {"-b,--minbytes", "SIZE", "first size: 8, 64K, 1G (powers of 1024), 1MB", "8"},
       {"-e,--maxbytes", "SIZE", "last size", "1G"},
       {"-f,--stepfactor", "FACTOR", "each size is the one before, times this", "2"},
       {"-i,--stepbytes", "SIZE", "each size is the one before, plus this"},
       {"-d,--dtype", "TYPE", "type of an element, as NCCL names it: float, half, bfloat16, f8e4m3, ...", "float"},
       {"--redop", "OP", "reduction: sum, prod, min, max, avg", "sum"},
       {"--algo", "LIST", "algorithms allowed, in the grammar of NCCL_ALGO: [op:]list[;op:list], ^ for all but", "all"},
       {"--proto", "LIST", "protocols allowed, in the grammar of NCCL_PROTO", "all"},
       {"--min-channels", "N", "as NCCL_MIN_NCHANNELS"},
       {"--grouped", "N", "equal calls in one ncclGroup; sizes are their sum", "1"},
       {"--table", "FILE", "measured times that go first (rehearse/collective_table/v1)"},
       {"--nccl-times", "", "NCCL's own prediction, without what benchmarks measured beyond it"},
       {"--backend", "NAME", "model: the call alone; analytic, simgrid: its flows played on the links", "model"},
       format_option("form of the result", "table, or as the suffix of -o says"),
       output_option(),
       html_option()},
      "Sizes are nccl-tests': the larger of what a rank sends and receives. busbw = algbw x 2(n-1)/n for all_reduce, "
      "(n-1)/n for all_gather, "
      "reduce_scatter and all_to_all, 1 otherwise (nccl-tests, PERFORMANCE.md).",
      collectives};
}

}  // namespace rehearse::cli
