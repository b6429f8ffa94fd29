#include <algorithm>
#include <cstdlib>
#include <set>

#include <fmt/format.h>
#include <unistd.h>
#include <nlohmann/json.hpp>

#include "core/api/data_directory.hpp"
#include "core/api/session/scenario_cluster.hpp"
#include "core/base/error.hpp"
#include "core/base/index.hpp"
#include "core/cli/html_output.hpp"
#include "core/cli/output.hpp"
#include "core/cli/verbs.hpp"
#include "core/cluster/drawing.hpp"
#include "core/cluster/topology_matrix.hpp"
#include "core/report/formats/format.hpp"
#include "core/report/formats/text_output.hpp"
#include "core/report/html/topology_data.hpp"

namespace rehearse::cli {

namespace {

using nlohmann::ordered_json;

constexpr int kMostDevices = 1024;  ///< Rows of a matrix.
constexpr int kFewDevices = 72;     ///< Up to so many are shown unasked.
constexpr int kUnlimitedWidth = 1'000'000;

// ---- Which devices a matrix has

int device_number(const std::string& text, const Cluster& cluster) {
  const bool number = !text.empty() && text.size() <= 9 && text.find_first_not_of("0123456789") == std::string::npos;
  if (!number || std::stoi(text) >= cluster.device_count())
    throw Error(ErrorKind::usage,
                fmt::format("'{}' is no device: the cluster has 0 to {}", text, cluster.device_count() - 1),
                "--devices", "example: --devices 0-7,64");
  return std::stoi(text);
}

/// "0-7,64": device numbers.
std::vector<DeviceId> read_devices(const std::string& text, const Cluster& cluster) {
  std::set<DeviceId> devices;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const std::string piece = text.substr(begin, end - begin);
    const std::size_t dash = piece.find('-');
    const DeviceId first = device_number(piece.substr(0, dash), cluster);
    const DeviceId last = dash == std::string::npos ? first : device_number(piece.substr(dash + 1), cluster);
    if (last < first || last - first >= kMostDevices)
      throw Error(ErrorKind::usage, fmt::format("'{}' is not a range of at most {} devices", piece, kMostDevices),
                  "--devices");
    for (DeviceId d = first; d <= last; ++d) devices.insert(d);
    begin = end + 1;
  }
  if (devices.size() > kMostDevices)
    throw Error(ErrorKind::usage,
                fmt::format("{} devices are more than a matrix shows ({})", devices.size(), kMostDevices), "--devices");
  return {devices.begin(), devices.end()};
}

/// Two nodes of every part, where all would be too many.
std::vector<DeviceId> some_devices(const Cluster& cluster) {
  std::vector<DeviceId> devices;
  NodeId first = 0;
  for (const Cluster::Part& part : cluster.parts()) {
    const int nodes = cluster.device_count() <= kFewDevices ? part.nodes : std::min(part.nodes, 2);
    for (NodeId n = first; n < first + nodes; ++n)
      for (int d = 0; d < part.machine->gpus && static_cast<int>(devices.size()) < kMostDevices; ++d)
        devices.push_back(cluster.first_device(n) + d);
    first += part.nodes;
  }
  return devices;
}

std::string name_of(const Cluster& cluster, DeviceId d) {
  const auto& vertices = cluster.machine(cluster.node_of(d)).vertices;
  // GPUs are a machine's first vertices.
  const std::string& own = nth(vertices, cluster.local_index(d)).name;
  return cluster.node_count() == 1 ? own : fmt::format("node{}/{}", cluster.node_of(d), own);
}

// ---- N x N of bandwidth or latency

struct Measure {
  std::string name, title, unit, key;
  double (*of)(const Cluster&, const Route&);
};

const std::vector<Measure>& measures() {
  static const std::vector<Measure> all{
      {"bandwidth", "Bandwidth of one transfer alone, GPU (row) to GPU (column), GB/s", "GBps", "bandwidth_GBps",
       [](const Cluster& cluster, const Route& route) {
         double narrowest = route.links.empty() ? 0 : 1e300;
         for (const LinkId link : route.links) narrowest = std::min(narrowest, cluster.link_rate(link).value() / 1e9);
         return narrowest;
       }},
      {"latency", "Latency of the wires, GPU (row) to GPU (column), us", "us", "latency_us",
       [](const Cluster&, const Route& route) { return route.latency.value() * 1e6; }}};
  return all;
}

const Measure& measure(const std::string& name) {
  std::vector<std::string> names;
  for (const Measure& m : measures()) {
    if (m.name == name) return m;
    names.push_back(m.name);
  }
  Error e = unknown_name("matrix", name, names);
  e.where = "--matrix";
  throw e;
}

Document measure_document(const Cluster& cluster, const Measure& measure, const std::vector<DeviceId>& devices) {
  Table table{measure.title, {{""}}, {}};
  Table records{"", {{"from"}, {"to"}, {measure.key, true}}, {}};
  ordered_json json{{"schema", "rehearse/topology/v1"},
                    {"cluster", cluster.name()},
                    {"matrix", measure.name},
                    {"unit", measure.unit}};
  for (const DeviceId d : devices)
    table.columns.push_back({name_of(cluster, d), true}), json["devices"].push_back(name_of(cluster, d));
  for (const DeviceId from : devices) {
    std::vector<std::string> row{name_of(cluster, from)};
    ordered_json values = ordered_json::array();
    for (const DeviceId to : devices) {
      const double value = measure.of(cluster, cluster.route(from, to));
      row.push_back(from == to ? "X" : fmt::format("{:.4g}", value));
      values.push_back(from == to ? ordered_json() : ordered_json(value));
      if (from != to) records.rows.push_back({name_of(cluster, from), name_of(cluster, to), fmt::format("{}", value)});
    }
    table.rows.push_back(std::move(row));
    json["rows"].push_back(std::move(values));
  }
  std::vector<DocumentBlock> blocks{Heading{cluster.summary()}};
  if (static_cast<int>(devices.size()) < cluster.device_count())
    blocks.push_back(
        Paragraph{fmt::format("{} of {} devices; others: --devices LIST.", devices.size(), cluster.device_count())});
  blocks.push_back(table);
  return {std::move(blocks), std::move(records), json.dump(2) + "\n"};
}

// ---- nvidia-smi's matrix

void add_matrix(const MachineSpec& machine, const std::string& title, Document& document, ordered_json& json) {
  const TopologyMatrix m = topology_matrix(machine);
  const bool cores = std::any_of(m.devices.begin(), m.devices.end(), [](const auto& d) { return !d.cores.empty(); });
  Table table{title, {{""}}, {}};
  for (const auto& d : m.devices) table.columns.push_back({d.name});
  if (cores) table.columns.push_back({"CPU Affinity"});
  table.columns.push_back({"NUMA Affinity"});
  ordered_json entry{{"machine", machine.id}, {"hosts_of_an_nvlink_domain", machine.trays}};
  std::string nics;
  for (std::size_t a = 0; a < m.devices.size(); ++a) {
    const auto& d = m.devices[a];
    std::vector<std::string> row{d.name};
    ordered_json classes;
    for (std::size_t b = 0; b < m.devices.size(); ++b) {
      row.push_back(a == b ? " X" : m.text(a, b));
      classes.push_back(m.text(a, b));
      document.records.rows.push_back({machine.id, d.name, m.devices[b].name, m.text(a, b)});
    }
    if (cores) row.push_back(d.cores);
    row.push_back(d.numa < 0 ? "" : std::to_string(d.numa));
    table.rows.push_back(std::move(row));
    ordered_json device{{"name", d.name}, {"kind", d.is_nic ? "nic" : "gpu"}};
    if (!d.device.empty()) device["device"] = d.device;
    if (!d.is_nic) device["cores"] = d.cores, device["numa"] = d.numa;
    entry["devices"].push_back(std::move(device));
    entry["paths"].push_back(std::move(classes));
    if (d.is_nic && !d.device.empty()) nics += fmt::format("  {}: {}\n", d.name, d.device);
  }
  document.blocks.push_back(std::move(table));
  if (!nics.empty()) document.blocks.push_back(Picture{"NIC Legend:", [nics](const TextStyle&) { return nics; }});
  json["machines"].push_back(std::move(entry));
}

DocumentBlock legend() {
  return Picture{"Legend:", [](const TextStyle& style) {
                   std::string out;
                   for (const auto& [name, meaning] : path_legend())
                     out += fmt::format("  {:<4} = {}\n", name,
                                        wrap(std::string(meaning), std::max(20, style.width - 9), 9));
                   return out;
                 }};
}

Document matrix_document(const Cluster& cluster) {
  Document document{{Heading{cluster.summary()}}, Table{"", {{"machine"}, {"from"}, {"to"}, {"path"}}, {}}, {}};
  ordered_json json{{"schema", "rehearse/topology/v1"}, {"cluster", cluster.name()}, {"matrix", "paths"}};
  std::set<const MachineSpec*> shown;
  NodeId first = 0;
  for (const Cluster::Part& part : cluster.parts()) {
    std::string title;
    if (cluster.node_count() > 1)
      title = part.nodes == 1 ? fmt::format("node{}: {}", first, part.machine->id)
                              : fmt::format("node{} to node{}: {}", first, first + part.nodes - 1, part.machine->id);
    if (part.machine->trays > 1)
      title += fmt::format("{}one of {} hosts; GPUs of all are joined by NVLink", title.empty() ? "" : "; ",
                           part.machine->trays);
    if (shown.insert(part.machine.get()).second) add_matrix(*part.machine, title, document, json);
    first += part.nodes;
  }
  document.blocks.push_back(legend());
  document.json = json.dump(2) + "\n";
  return document;
}

// ---- The verb

void draw(const Cluster& cluster, const Arguments& arguments, Console& console) {
  const std::string file = arguments.text("--output", "-");
  if (file == "-") {
    console.out << dot_text(cluster);
    return;
  }
  const std::string text = dot_text(cluster);
  write_file(file, text);
  console.err << "wrote " << file << ": dot -Tsvg " << file << " draws it\n";
}

int topology(const Arguments& arguments, Console& console) {
  if (arguments.text("ACTION") != "show")
    throw unknown_name("action", arguments.text("ACTION"), std::vector<std::string>{"show"});
  check_output(arguments);
  check_html(arguments);
  const Catalogue catalogue(find_data().topologies());
  const Cluster cluster = named_cluster(catalogue, arguments.text("CLUSTER"));
  if (arguments.has("--dot")) {
    for (const char* other : {"--matrix", "--format", "--devices", "--html"})
      if (arguments.has(other))
        throw Error(ErrorKind::usage, fmt::format("stands beside {}", other), "--dot", "a drawing has one form");
    draw(cluster, arguments, console);
    return 0;
  }
  if (arguments.has("--devices") && !arguments.has("--matrix"))
    throw Error(ErrorKind::usage, "needs --matrix bandwidth or --matrix latency", "--devices");
  const Document document =
      arguments.has("--matrix")
          ? measure_document(
                cluster, measure(arguments.text("--matrix")),
                arguments.has("--devices") ? read_devices(arguments.text("--devices"), cluster) : some_devices(cluster))
          : matrix_document(cluster);
  // What another program reads isn't broken into pieces; a terminal's width is kept.
  Console whole = console;
  if (isatty(STDOUT_FILENO) == 0 && std::getenv("COLUMNS") == nullptr) whole.style.width = kUnlimitedWidth;
  print(document, arguments, whole);
  write_html("topology", document, arguments, console, [&] { return HtmlParts{{"topology", topology_json(cluster)}}; });
  return 0;
}

}  // namespace

Verb topology_verb() {
  Verb verb{
      "topology",
      "How the GPUs and NICs of a machine or a cluster are joined.",
      {"rehearse topology show dgx_a100_80gb", "rehearse topology show selene --matrix bandwidth --devices 0-7,8",
       "rehearse topology show dgx1v --dot | dot -Tsvg > dgx1v.svg"},
      {{"ACTION", "show"}, {"CLUSTER", "a registered cluster or machine, or the path of its file"}},
      {{"--matrix", "WHAT", "instead of nvidia-smi's classes: bandwidth or latency between devices"},
       {"--devices", "LIST", "rows of that matrix, such as 0-7,64", "all, or of large clusters two nodes of each kind"},
       {"--dot", "", "a drawing for Graphviz"}},
      "Without --matrix: the matrix of `nvidia-smi topo -m` for every kind of machine.",
      topology};
  for (const Option& option : result_options())
    if (option.name != "--set") verb.options.push_back(option);
  verb.options.push_back(html_option());
  return verb;
}

}  // namespace rehearse::cli
