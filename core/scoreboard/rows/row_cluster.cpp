// Which machine and network a row ran on: GPUs by what rows call them, networks by the rate of a node's ports.

#include <algorithm>
#include <array>
#include <charconv>

#include <fmt/format.h>

#include "core/base/characters.hpp"
#include "core/scoreboard/rows/row_machine.hpp"
#include "core/scoreboard/rows/row_scenario.hpp"

namespace rehearse {

namespace {

constexpr std::int64_t kMostGpus = 1'000'000;

/// A machine for the words of `gpu_type`; all of `words` must occur as names_gpu() has it. The first row that fits
/// counts, so special machines stand before common ones.
struct Machine {
  std::array<const char*, 3> words;
  NamedMachine named;
};
constexpr auto kMachines = std::to_array<Machine>({{{"h100", "500w"}, {"hgx_h100_500w", "ib_ndr", true}},
                                                   {{"p5.48xlarge"}, {"aws_p5_48xlarge", "efa_v2", true}},
                                                   {{"p5en"}, {"aws_p5en_48xlarge", "efa_v2", true}},
                                                   {{"p5e"}, {"aws_p5e_48xlarge", "efa_v2", true}},
                                                   {{"p6-b200"}, {"aws_p6_b200_48xlarge", "efa_400g", true}},
                                                   {{"p4de"}, {"aws_p4de_24xlarge", "efa_100g", true}},
                                                   {{"p4d"}, {"aws_p4d_24xlarge", "efa_100g", true}},
                                                   {{"gb300"}, {"gb300_nvl72", "nvl72_row_xdr"}},
                                                   {{"gb200"}, {"gb200_nvl72", "nvl72_row"}},
                                                   {{"b300"}, {"dgx_b300", "superpod_b300"}},
                                                   {{"b200"}, {"dgx_b200", "ib_ndr"}},
                                                   {{"b100"}, {"hgx_b100", "ib_ndr"}},
                                                   {{"h200"}, {"dgx_h200", "ib_ndr"}},
                                                   {{"h800"}, {"hgx_h800", "ib_ndr"}},
                                                   {{"h20"}, {"hgx_h20", "ib_ndr"}},
                                                   {{"h100", "pcie"}, {"pcie8_h100_2sw", "ib_ndr"}},
                                                   {{"h100"}, {"dgx_h100", "ib_ndr"}},
                                                   {{"a100", "pcie"}, {"pcie8_a100_4sw", "ib_hdr"}},
                                                   {{"a100", "40"}, {"dgx_a100_40gb", "ib_hdr"}},
                                                   {{"a100"}, {"dgx_a100_80gb", "ib_hdr"}},
                                                   {{"a800", "pcie"}, {"pcie8_a100_4sw", "ib_hdr"}},
                                                   {{"a800"}, {"hgx_a800", "ib_hdr"}},
                                                   {{"v100s"}, {"pcie4_v100s", "ib_edr"}},
                                                   {{"v100", "dgx-2"}, {"dgx2", "ib_edr", true}},
                                                   {{"v100", "16"}, {"dgx1v_16gb", "ib_edr"}},
                                                   {{"v100"}, {"dgx1v", "ib_edr"}},
                                                   {{"p100"}, {"dgx1p", "ib_edr"}},
                                                   {{"k80"}, {"pcie8_k80", "ethernet_10g"}},
                                                   {{"l40s"}, {"pcie8_l40s_2sw", "ib_hdr"}},
                                                   {{"l40"}, {"pcie8_l40_2sw", "ib_hdr"}},
                                                   {{"l20"}, {"pcie8_l20_2sw", "ib_hdr"}},
                                                   {{"a40"}, {"pcie8_a40_2sw", "ib_hdr"}},
                                                   {{"l4"}, {"aws_g6_48xlarge", "efa_100g"}},
                                                   {{"a30"}, {"pcie4_a30_nvlink", "ib_hdr"}},
                                                   {{"a10g"}, {"aws_g5_48xlarge", "efa_100g"}},
                                                   {{"a10"}, {"pcie4_a10", "ib_hdr"}},
                                                   {{"6000", "ada"}, {"pcie8_rtx_6000_ada_2sw", "ib_hdr"}},
                                                   {{"pro 6000"}, {"pcie8_rtx_pro_6000_2sw", "ib_ndr"}},
                                                   {{"5090"}, {"rtx5090_8x", "ethernet_10g"}},
                                                   {{"4090"}, {"rtx4090_8x", "ethernet_10g"}},
                                                   {{"3090"}, {"rtx3090_8x", "ethernet_10g"}},
                                                   {{"a6000"}, {"pcie4_a6000_nvlink", "ib_hdr"}},
                                                   {{"t4"}, {"aws_g4dn_12xlarge", "ethernet_10g"}}});

/// Ports that a row's field counts: text such as "8 + 2" is no answer.
std::optional<std::int64_t> ports_of(RowFields& f) {
  const std::string text = f.text("nics");
  std::int64_t n = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n);
  return error == std::errc{} && end == text.data() + text.size() && n > 0 && n <= 64 ? std::optional(n) : std::nullopt;
}

/// The network between nodes, and the machine with ports as the row's words have them.
void join_nodes(RowFields& f, const Catalogue& catalogue, const NamedMachine& usual, ClusterRef& cluster) {
  const std::string words = f.text("inter_node"),
                    network = network_named(words + " " + f.text("topology"), usual.network);
  const Placed placed = place(catalogue, {usual.machine, network.c_str(), usual.sold}, words, ports_of(f));
  cluster.parts.front().machine = placed.machine;
  cluster.network = placed.network;
  if (placed.machine != usual.machine) f.note("machine", placed.machine, placed.stated);
  if (!placed.fits)
    f.guess("network", placed.network,
            "the row says " + placed.stated + ", which no machine of the catalogue with these GPUs has");
  else
    f.note("network", placed.network,
           placed.stated.empty() ? "inter_node, topology, else what such machines have" : placed.stated);
}

/// "a100_sxm4" of "a100_sxm4_80": the GPU, whatever its memory.
std::string without_memory(const std::string& gpu) { return gpu.substr(0, gpu.rfind('_')); }

/// The machine of a row: its own, where it or its software names one of the catalogue, else what its GPUs usually stand
/// in.
NamedMachine machine_of(RowFields& f, const std::string& gpu_type, const std::string& own, const Catalogue& catalogue) {
  const NamedMachine* usual = machine_named(gpu_type, f.whole("gpus_per_node", kMostGpus).value_or(1));
  if (own.empty()) {
    if (usual == nullptr)
      throw RowSkipped(
          "GPU unknown",
          gpu_type + ": no usual machine is known for it; `machine` may name one of `rehearse list machines`");
    return *usual;
  }
  const auto known = catalogue.names(Catalogue::Kind::machine);
  if (std::find(known.begin(), known.end(), own) == known.end())
    throw RowSkipped("machine unknown", own.substr(0, 60) + ": `rehearse list machines` has those of the catalogue");
  const std::string gpu = catalogue.machine(own)->gpu;
  if (usual != nullptr && without_memory(catalogue.machine(usual->machine)->gpu) != without_memory(gpu))
    throw RowSkipped("contradiction in the row", fmt::format("machine {} has {}, not {}", own, gpu, gpu_type));
  return {own.c_str(), usual != nullptr ? usual->network : "ib_ndr", true};
}

/// Whether `word` stands in `text` as a whole name: "a100" in "8xA100-SXM4-80GB", "A100SXM" and "A100 80G", and neither
/// in "RTX A1000" nor in "GA100". Both in small letters.
bool names_gpu(const std::string& text, std::string_view word) {
  static constexpr auto kSuffixes = std::to_array<std::string_view>({"sxm", "pcie", "nvl", "gb", "gib", "g", "w"});
  for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) {
    const bool counted = at >= 2 && text[at - 1] == 'x' && is_digit(text[at - 2]);
    if (at > 0 && (is_letter(text[at - 1]) || is_digit(text[at - 1])) && !counted) continue;
    const std::string rest = text.substr(at + word.size());
    if (rest.empty() || !(is_letter(rest[0]) || is_digit(rest[0]))) return true;
    std::size_t letters = 0;
    while (letters < rest.size() && is_letter(rest[letters])) ++letters;
    if (std::find(kSuffixes.begin(), kSuffixes.end(), rest.substr(0, letters)) != kSuffixes.end()) return true;
  }
  return false;
}

}  // namespace

const NamedMachine* machine_named(const std::string& gpu_type, std::int64_t gpus_per_node) {
  const std::string name = lowered(gpu_type);
  // Names that hold those of other GPUs, and words that others begin with ("NVLink").
  static constexpr NamedMachine h100_nvl{"pcie8_h100_nvl_2sw", "ib_ndr"}, h200_nvl{"pcie8_h200_nvl_2sw", "ib_ndr"},
      gh200_alone{"gh200_1gpu", "ib_ndr"}, gh200_board{"gh200_4gpu", "ib_ndr"};
  if (names_gpu(name, "gh200")) return gpus_per_node > 1 ? &gh200_board : &gh200_alone;
  if (holds(name, "h100nvl") || (holds(name, "h100") && has_word(name, "nvl"))) return &h100_nvl;
  if (holds(name, "h200nvl") || (holds(name, "h200") && has_word(name, "nvl"))) return &h200_nvl;
  const auto fits = [&](const Machine& m) {
    return std::all_of(m.words.begin(), m.words.end(),
                       [&](const char* w) { return w == nullptr || names_gpu(name, w); });
  };
  const auto at = std::find_if(kMachines.begin(), kMachines.end(), fits);
  return at == kMachines.end() ? nullptr : &at->named;
}

std::string network_named(const std::string& words, const char* usual) {
  if (holds(words, "selene") || holds(words, "850 switches")) return "selene";
  if (holds(words, "eos")) return "eos";
  if (holds(words, "hdr")) return "rail_hdr";
  if (holds(words, "edr")) return "ib_edr";
  return usual;
}

void map_cluster(RowFields& f, const Catalogue& catalogue, RowJob& job) {
  const std::string gpu_type = f.needed_text("gpu_type");
  const std::string own = f.text("machine");
  const NamedMachine named = machine_of(f, gpu_type, own, catalogue);
  const auto machine = catalogue.machine(named.machine);
  job.gpu = machine->gpu;
  job.generation = catalogue.gpu(machine->gpu)->generation;
  auto gpus = f.whole("gpus", kMostGpus);
  if (!gpus) {
    if (const auto nodes = f.whole("nodes", kMostGpus)) {
      gpus = *nodes * f.whole("gpus_per_node", kMostGpus).value_or(machine->gpus);
      f.note("gpus", fmt::format("{}", *gpus), "nodes * gpus_per_node");
    }
  }
  if (!gpus || *gpus > kMostGpus) throw RowSkipped(gpus ? "malformed row" : "field missing: gpus");
  job.gpus = static_cast<int>(*gpus);
  // A rack of 72 runs jobs of 64, as parallel degrees are powers of two and trays are kept back as spares, unless the
  // job fills whole racks.
  constexpr int kRack = 72, kUsed = 64;
  job.gpus_per_domain = machine->gpus == kRack && job.gpus % kRack != 0 && job.gpus > kRack ? kUsed : machine->gpus;
  // Of a machine with a switch for many, rows say how many stand on a tray.
  constexpr int kMostInBox = 16;
  if (const auto used = f.whole("gpus_per_node", kMostGpus);
      used && *used < machine->gpus && machine->gpus <= kMostInBox)
    job.gpus_per_domain = static_cast<int>(*used);
  const int nodes = (job.gpus + job.gpus_per_domain - 1) / job.gpus_per_domain;
  job.scenario.cluster.parts = {{named.machine, nodes}};
  if (const int used = std::min(job.gpus, job.gpus_per_domain); used < machine->gpus)
    job.scenario.cluster.gpus_per_node = used;
  if (nodes == 1)
    job.scenario.cluster.network = "single_switch";
  else
    join_nodes(f, catalogue, named, job.scenario.cluster);
  if (own.empty()) f.note("machine", named.machine, "gpu_type");
}

}  // namespace rehearse
