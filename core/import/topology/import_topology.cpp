#include "core/import/topology/import_topology.hpp"

#include <algorithm>
#include <filesystem>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "core/base/error.hpp"
#include "core/cluster/machine_routes.hpp"
#include "core/config/json_file.hpp"
#include "core/hardware/read_specs.hpp"
#include "core/import/topology/nccl_xml.hpp"
#include "core/import/topology/nvidia_smi.hpp"
#include "core/import/topology/xml.hpp"

namespace rehearse {
namespace {

std::string file_name(const std::string& origin) { return std::filesystem::path(origin).filename().string(); }

/// The machine that a text describes; also makes sure that everything in the product can use it.
MachineSpec read_back(const std::string& text, const std::string& origin, const Catalogue& catalogue) {
  MachineSpec machine =
      read_machine(parse_json(text, origin), origin, std::filesystem::path(origin).stem().string(),
                   catalogue.interconnects(), [&](const std::string& id) { return catalogue.gpu(id); });
  (void)MachineRoutes(machine);
  return machine;
}

void finish(MachineDraft& draft, const std::string& origin, const ImportOptions& options, const std::string& kind) {
  draft.name = options.name.empty() ? "Imported from " + file_name(origin) : options.name;
  draft.source = fmt::format("{}: {}", file_name(origin), kind);
  if (options.no_peer_to_peer) draft.peer_to_peer = false;
}

// ---- nvidia-smi

void take_cpu(MachineDraft& draft, const std::string& origin, const ImportOptions& options,
              const Interconnects& links) {
  if (options.cpu.empty()) {
    std::vector<std::string> known;
    for (const auto& [name, rates] : links.sockets) known.push_back(name);
    throw Error(ErrorKind::usage,
                "the text does not say what the CPUs are, and NCCL's choice and the link between them depend on it",
                origin, fmt::format("give it: --cpu, one of {}", fmt::join(known, ", ")));
  }
  draft.socket_link = options.cpu;
  draft.cpu_vendor = links.socket(options.cpu).vendor;
  draft.cpu_model = "as --cpu " + options.cpu + " says";
}

void check_same_matrix(const TopologyMatrix& wanted, const MachineSpec& machine, const std::string& origin) {
  const TopologyMatrix got = topology_matrix(machine);
  for (std::size_t a = 0; a < wanted.devices.size(); ++a) {
    for (std::size_t b = 0; b < wanted.devices.size(); ++b) {
      if (a >= got.devices.size() || wanted.text(a, b) != got.text(a, b))
        throw Error(ErrorKind::usage,
                    fmt::format("no wiring has this matrix: {} to {} is {}, but the other paths make it {}",
                                wanted.devices[a].name, wanted.devices[b].name, wanted.text(a, b),
                                a < got.devices.size() ? got.text(a, b) : "unknown"),
                    origin, "is a part of the machine missing, or was the text changed?");
    }
  }
}

ImportedTopology import_smi(std::string_view text, const std::string& origin, const ImportOptions& options,
                            const Catalogue& catalogue) {
  const SmiTopology smi = parse_smi_topology(text, origin);
  if (options.gpu.empty())
    throw Error(ErrorKind::usage, "the text does not say which GPU model this is", origin,
                "give it: --gpu ID, one of 'rehearse list gpus' (nvidia-smi -L names it)");
  const auto gpu = catalogue.gpu(options.gpu);
  MachineDraft draft = draft_of(smi, *gpu, origin);
  draft.gpu = options.gpu;
  take_cpu(draft, origin, options, catalogue.interconnects());
  if (!draft.nics.empty() && options.nic_rate <= BytesPerSecond{0})
    throw Error(ErrorKind::usage, fmt::format("the text does not say how fast the {} NICs are", draft.nics.size()),
                origin, "give the rate of one: --nic-rate 400Gb/s");
  draft.nic_rate = options.nic_rate;
  draft.nic_name = "NIC of " + to_string(options.nic_rate);
  draft.nvls = !draft.nvswitch_links.empty() && gpu->compute_capability >= 90;
  draft.notes.push_back(fmt::format("PCIe links are not in the text: taken as generation {} x{}, the slot of the GPU.",
                                    gpu->pcie.generation, gpu->pcie.lanes));
  if (!draft.nvlink_pairs.empty() || !draft.nvswitch_links.empty())
    draft.notes.push_back(
        "Where GPUs share NVLinks the text hides their PCIe path: such GPUs are taken to share no switch unless a NIC "
        "shows it.");
  finish(draft, origin, options, "nvidia-smi topo -m");
  ImportedTopology out{machine_json(draft), draft.notes};
  check_same_matrix(smi.matrix, read_back(out.machine, origin, catalogue), origin);
  return out;
}

// ---- NCCL

ImportedTopology import_system(const XmlElement& root, const std::string& origin, const ImportOptions& options,
                               const Catalogue& catalogue) {
  MachineDraft draft = draft_of_nccl_topology(root, origin, options, catalogue);
  if (!options.cpu.empty()) take_cpu(draft, origin, options, catalogue.interconnects());
  if (options.nic_rate > BytesPerSecond{0} && !draft.nics.empty()) draft.nic_rate = options.nic_rate;
  finish(draft, origin, options, "NCCL topology");
  ImportedTopology out{machine_json(draft), draft.notes};
  (void)read_back(out.machine, origin, catalogue);
  return out;
}

std::string rate_text_import_topology(BytesPerSecond rate) { return fmt::format("{}GB/s", rate.value() / 1e9); }

ImportedTopology import_graphs(const XmlElement& root, const std::string& origin, const ImportOptions& options,
                               const Catalogue& catalogue) {
  const auto graphs = read_nccl_graphs(root, origin);
  if (options.base_machine.empty())
    throw Error(ErrorKind::usage, "a graph file holds the channels that NCCL chose, but no wiring", origin,
                "give the machine that it belongs to: --machine ID or FILE");
  if (!parse_json(options.base_machine, "--machine").is_object())
    throw Error(ErrorKind::usage, "the text is no machine file", "--machine",
                "for example topologies/machines/dgx_h100.json");
  auto machine = nlohmann::ordered_json::parse(options.base_machine);
  nlohmann::ordered_json nccl;
  for (const auto& g : graphs) {
    nccl["graphs"].push_back({{"id", g.id},
                              {"pattern", g.pattern},
                              {"channels", g.channels},
                              {"speed_intra", rate_text_import_topology(g.speed_intra)},
                              {"speed_inter", rate_text_import_topology(g.speed_inter)},
                              {"type_intra", g.type_intra},
                              {"type_inter", g.type_inter},
                              {"cross_nic", g.cross_nic},
                              {"same_channels", g.same_channels},
                              {"orders", g.orders}});
  }
  nccl["source"] = "nccl_graph";
  machine["nccl"] = std::move(nccl);
  machine["sources"]["nccl_graph"] = {{"text", file_name(origin) + ": NCCL graphs"}, {"evidence", "published"}};
  if (!options.name.empty()) machine["name"] = options.name;
  ImportedTopology out{machine.dump(2) + "\n",
                       {"Channels are those of the graph file: they take the place of the search's."}};
  // A job on fewer GPUs has other channels, which say nothing of the whole machine. Graph 0: rings, which pass all.
  const int gpus = read_back(out.machine, origin, catalogue).gpus;
  for (const auto& g : graphs) {
    if (g.id != 0 || g.orders.empty()) continue;
    const std::set<int> passed(g.orders.front().begin(), g.orders.front().end());
    if (static_cast<int>(passed.size()) != gpus)
      throw Error(ErrorKind::usage, fmt::format("rings of {} GPUs, but the machine has {}", passed.size(), gpus),
                  origin, "import the graphs of a job on all its GPUs, or give the machine that they belong to");
  }
  return out;
}

ImportedTopology import_xml(std::string_view text, const std::string& origin, const ImportOptions& options,
                            const Catalogue& catalogue) {
  const XmlElement root = parse_xml(text, origin);
  if (root.name == "system") return import_system(root, origin, options, catalogue);
  if (root.name == "graphs") return import_graphs(root, origin, options, catalogue);
  std::string what = fmt::format("<{}> is neither NCCL's <system> nor its <graphs>", root.name);
  if (root.name == "topology") what = "hwloc's topology: it has no NVLinks that NCCL would see";
  if (root.name == "platform") what = "a SimGrid platform: it has hosts and links, but no GPUs and PCIe";
  throw Error(ErrorKind::usage, what, origin,
              "import `nvidia-smi topo -m`, or what NCCL_TOPO_DUMP_FILE or NCCL_GRAPH_DUMP_FILE writes");
}

}  // namespace

ImportedTopology import_topology(std::string_view text, const std::string& origin, const ImportOptions& options,
                                 const Catalogue& catalogue) {
  if (text.size() > kMostTopologyBytes)
    throw Error(ErrorKind::usage,
                fmt::format("the text has {}; at most {} are read", to_string(Bytes{static_cast<double>(text.size())}),
                            to_string(Bytes{static_cast<double>(kMostTopologyBytes)})),
                origin, "is this the right file?");
  const std::size_t first = text.find_first_not_of(" \t\r\n\xEF\xBB\xBF");
  if (first == std::string_view::npos) throw Error(ErrorKind::usage, "the text is empty", origin);
  if (text.find('\0') != std::string_view::npos)
    throw Error(ErrorKind::usage, "not a text: it holds a zero byte", origin);
  if (text[first] == '<') return import_xml(text, origin, options, catalogue);
  return import_smi(text, origin, options, catalogue);
}

}  // namespace rehearse
