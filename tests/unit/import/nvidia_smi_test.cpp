#include <algorithm>

#include "core/cluster/topology_matrix.hpp"
#include "core/import/topology/nvidia_smi.hpp"
#include "tests/unit/import/imports.hpp"

namespace rehearse {
namespace {

/// The classes of a matrix, row by row.
std::string cells(const TopologyMatrix& m) {
  std::string text;
  for (std::size_t a = 0; a < m.devices.size(); ++a) {
    text += m.devices[a].name;
    for (std::size_t b = 0; b < m.devices.size(); ++b) text += " " + m.text(a, b);
    text += "\n";
  }
  return text;
}

/// A machine's matrix as nvidia-smi would print it.
std::string smi_text(const MachineSpec& machine) {
  const TopologyMatrix m = topology_matrix(machine);
  std::string text;
  for (const auto& d : m.devices) text += "\t" + d.name;
  text += "\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\n";
  for (std::size_t a = 0; a < m.devices.size(); ++a) {
    text += m.devices[a].name;
    for (std::size_t b = 0; b < m.devices.size(); ++b) text += "\t" + m.text(a, b);
    const auto& d = m.devices[a];
    text +=
        d.is_nic ? "\t\n" : "\t" + (d.cores.empty() ? "0-7" : d.cores) + "\t" + std::to_string(d.numa) + "\t\tN/A\n";
  }
  return text + "\nLegend:\n\n  X    = Self\n";
}

}  // namespace

TEST_CASE("the matrix of the imported machine is the matrix of the text") {
  for (const auto& [file, gpu] : {std::pair("smi_2x5090_club-3090_1229.txt", "rtx5090"),
                                  std::pair("smi_4090x8_go-gpuallocator_17.txt", "rtx4090"),
                                  std::pair("smi_c4140_4xV100_nccl-tests_68.txt", "v100_sxm2_16"),
                                  std::pair("smi_v100_sxm2_8gpu_dlperf.txt", "v100_sxm2_16")}) {
    INFO(file);
    const SmiTopology read = parse_smi_topology(description(file), file);
    CHECK(cells(topology_matrix(imported(description(file), answers(gpu)))) == cells(read.matrix));
  }
}

TEST_CASE("every shipped machine survives the way through nvidia-smi's text") {
  for (const auto& id : shipped().names(Catalogue::Kind::machine)) {
    const auto machine = shipped().machine(id);
    if (shipped().gpu(machine->gpu)->device == GpuSpec::Device::cpu) continue;
    INFO(id);
    CHECK(cells(topology_matrix(imported(smi_text(*machine), answers(machine->gpu)))) ==
          cells(topology_matrix(*machine)));
  }
}

TEST_CASE("colours, spaces for tabs, wrapped rows, the legend of NICs and old names of classes are understood") {
  const std::string text =
      "\033[4m\tGPU0\tGPU1\tNIC0\tCPU Affinity\033[0m\r\n"
      "GPU0    X     SOC\n"
      "PIX   0-3\n"
      "GPU1   SOC    X    SYS   4-7\n"
      "NIC0   PIX   SYS    X\n"
      "\nNIC Legend:\n\n  NIC0: mlx5_2\n";
  const SmiTopology smi = parse_smi_topology(text, "file");
  CHECK(cells(smi.matrix) == "GPU0 X SYS PIX\nGPU1 SYS X SYS\nNIC0 PIX SYS X\n");
  CHECK(smi.matrix.devices[1].cores == "4-7");
  CHECK_FALSE(smi.has_numa);
  const MachineSpec m = imported(text, answers("l40s"));
  CHECK(m.vertices.back().device == "mlx5_2");
  CHECK(m.sockets == 2);
}

TEST_CASE("NICs that the text calls by their device keep that name") {
  const MachineSpec m = imported(description("smi_c4140_4xV100_nccl-tests_68.txt"), answers("v100_sxm2_16"));
  CHECK(topology_matrix(m).devices.back().name == "mlx5_0");
}

TEST_CASE("NVSwitches are where a GPU has links for more peers than it could reach alone") {
  auto has_switch = [](const MachineSpec& m) {
    return std::any_of(m.vertices.begin(), m.vertices.end(),
                       [](const auto& v) { return v.kind == MachineSpec::VertexKind::nvswitch; });
  };
  CHECK(has_switch(imported(smi_text(*shipped().machine("dgx_a100_80gb")), answers("a100_sxm4_80"))));
  CHECK_FALSE(has_switch(imported(smi_text(*shipped().machine("hgx_a100_4gpu")), answers("a100_sxm4_80"))));
  CHECK_FALSE(has_switch(imported(smi_text(*shipped().machine("dgx1p")), answers("p100_sxm2_16"))));
  // One GPU of eight has lost its links: the others still meet in switches.
  std::string text =
      "\tGPU0\tGPU1\tGPU2\tGPU3\tCPU "
      "Affinity\nGPU0\tX\tNV18\tNODE\tNV18\t0-7\nGPU1\tNV18\tX\tNODE\tNV18\t0-7\nGPU2\tNODE\tNODE\tX\tNODE\t0-"
      "7\nGPU3\tNV18\tNV18\tNODE\tX\t0-7\n";
  const MachineSpec broken = imported(text, answers("b200_sxm"));
  CHECK(has_switch(broken));
  CHECK(topology_matrix(broken).text(0, 2) == "NODE");
}

TEST_CASE("what the text leaves open is asked for, one thing after the other") {
  const std::string text = description("smi_v100_sxm2_8gpu_dlperf.txt");
  ImportOptions options;
  CHECK(refused(text, options).hint.find("--gpu") != std::string::npos);
  options.gpu = "v100_sxm2_16";
  CHECK(refused(text, options).hint.find("--cpu") != std::string::npos);
  options.cpu = "upi_skylake";
  CHECK(refused(text, options).hint.find("--nic-rate") != std::string::npos);
  options.nic_rate = BytesPerSecond{12.5e9};
  CHECK(imported(text, options).gpus == 8);
  options.gpu = "l40s";
  CHECK(refused(text, options).what() == std::string("GPU0 and GPU1 share 1 NVLinks; a L40S has 0"));
}

TEST_CASE("words that lost the space between them are taken apart") {
  const SmiTopology smi = parse_smi_topology(
      "\tGPU0\tGPU1\tNIC0NIC1\tCPU Affinity\nGPU0\tX\tNV18\tNODESYS\t0-7\nGPU1\tNV18\tX\tNODESYS\t0-7\n"
      "NIC0\tNODENODE\tX\tSYS\nNIC1\tSYS\tSYS\tSYS\tX\n",
      "file");
  CHECK(cells(smi.matrix) == "GPU0 X NV18 NODE SYS\nGPU1 NV18 X NODE SYS\nNIC0 NODE NODE X SYS\nNIC1 SYS SYS SYS X\n");
}

TEST_CASE("a module without its NVLinks is questioned, and a card without any is not") {
  const std::string text = "\tGPU0\tGPU1\tCPU Affinity\nGPU0\tX\tSYS\t0-3\nGPU1\tSYS\tX\t4-7\n";
  const auto asked = [&](const std::string& gpu) {
    const auto notes = import_topology(text, "file", answers(gpu), shipped()).notes;
    return std::any_of(notes.begin(), notes.end(),
                       [](const std::string& n) { return n.find("is --gpu the right model?") != std::string::npos; });
  };
  CHECK(asked("h100_sxm5_80"));
  CHECK_FALSE(asked("l40s"));
}

TEST_CASE("blank affinities and ranges of NUMA nodes name no cores and no node") {
  const std::string head = "\tGPU0\tGPU1\tCPU Affinity\tNUMA Affinity";
  const SmiTopology blank =
      parse_smi_topology(head + "\tGPU NUMA ID\nGPU0\tX\tSYS\t0-3\t0\t\tN/A\nGPU1\tSYS\tX\t\t1\t\tN/A\n", "file");
  CHECK(blank.matrix.devices[0].cores == "0-3");
  CHECK(blank.matrix.devices[0].numa == 0);
  CHECK(blank.matrix.devices[1].cores.empty());
  CHECK(blank.matrix.devices[1].numa == 1);
  const SmiTopology range = parse_smi_topology(head + "\nGPU0\tX\tSYS\t0,64\t0-3\nGPU1\tSYS\tX\t0,64\t2\n", "file");
  CHECK(range.matrix.devices[0].cores == "0,64");
  CHECK(range.matrix.devices[0].numa == -1);
  CHECK(range.matrix.devices[1].numa == 2);
}

TEST_CASE("a GPU without NVLinks among others that have them is told of") {
  const std::string text =
      "\tGPU0\tGPU1\tGPU2\tCPU Affinity\nGPU0\tX\tNV12\tSYS\t0-3\nGPU1\tNV12\tX\tSYS\t0-3\nGPU2\tSYS\tSYS\tX\t0-3\n";
  const auto notes = import_topology(text, "file", answers("a100_pcie_80"), shipped()).notes;
  CHECK(std::count_if(notes.begin(), notes.end(),
                      [](const std::string& n) { return n.starts_with("Other GPUs share NVLinks, GPU2 none"); }) == 1);
}

TEST_CASE("AMD's matrices are refused for what they are") {
  const std::string smi =
      "============================ ROCm System Management Interface ============================\n"
      "=========================== Weight between two GPUs ============================\n"
      "       GPU0         GPU1\nGPU0   0            15\nGPU1   15           0\n"
      "========================== Link Type between two GPUs ==========================\n"
      "       GPU0         GPU1\nGPU0   0            XGMI\nGPU1   XGMI         0\n";
  CHECK(std::string(refused(smi, answers("l40s")).what()).starts_with("AMD's matrix"));
  CHECK(std::string(refused("LINK TYPE TABLE:\n             0000:05:00.0\n0000:05:00.0 SELF\n", answers("l40s")).what())
            .starts_with("AMD's matrix"));
  CHECK(std::string(
            refused("GPU[0]\t\t: (Topology) Numa Node: 0\nGPU[0]\t\t: (Topology) Numa Affinity: 0\n", answers("l40s"))
                .what())
            .starts_with("AMD's matrix"));
}

TEST_CASE("texts that contradict themselves are refused, each with its reason") {
  auto reason = [](const std::string& text) { return std::string(refused(text, answers("l40s")).what()); };
  CHECK(reason("\tGPU0\tGPU1\nGPU0\tX\tSYS\nGPU1\tPHB\tX\n") == "GPU1 to GPU0 is PHB, but GPU0 to GPU1 is SYS");
  CHECK(reason("\tGPU0\tGPU1\nGPU0\tX\tFAR\nGPU1\tFAR\tX\n") == "'FAR' between GPU0 and GPU1 is no class of path");
  CHECK(reason("\tGPU0\tGPU1\nGPU0\tX\tX\nGPU1\tX\tX\n") == "'X' between GPU0 and GPU1");
  CHECK(reason("\tGPU0\tGPU1\nGPU0\tX\tSYS\n")
            .starts_with("a part of a matrix: the header names 2 devices, but GPU1 has no row"));
  CHECK(reason("\tGPU0\tGPU1\nGPU0\tX\tSYS\nGPU1\tSYS\n")
            .starts_with("a part of a matrix: the row of GPU1 has 1 cells for 2 devices"));
  CHECK(reason("\tGPU0\tGPU0\nGPU0\tX\tSYS\n") == "the header names GPU0 twice");
  CHECK(reason("\tGPU0\tGPU1\nGPU0\tX\tSYS\nGPU0\tX\tSYS\nGPU1\tSYS\tX\n") == "GPU0 has two rows");
  CHECK(reason("\tGPU0\tGPU2\nGPU0\tX\tSYS\nGPU2\tSYS\tX\n") == "GPU2 stands where GPU1 belongs");
  // PIX to both, but SYS to each other: no tree of switches has that.
  CHECK(reason("\tGPU0\tGPU1\tGPU2\nGPU0\tX\tPIX\tSYS\nGPU1\tPIX\tX\tPIX\nGPU2\tSYS\tPIX\tX\n")
            .starts_with("no wiring has this matrix: GPU0 to GPU2 is SYS"));
  CHECK(reason("hello").starts_with("no matrix of `nvidia-smi topo -m`"));
  CHECK(reason("GPU0\tX\tSYS\nGPU1\tSYS\tX\n").starts_with("no matrix of `nvidia-smi topo -m`"));
}

}  // namespace rehearse
