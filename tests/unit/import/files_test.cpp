// Every description of a real machine that lies beside this test, with what comes of it.

#include <filesystem>
#include <map>
#include <optional>

#include "tests/support/source_path.hpp"
#include "tests/unit/import/imports.hpp"

namespace rehearse {
namespace {

struct Outcome {
  std::string gpu;          ///< As --gpu; empty: the file says it.
  int gpus = 0, nics = 0;   ///< Of the machine that it becomes; 0 GPUs: refused.
  std::string reason = {};  ///< What the refusal begins with.
};

const std::map<std::string, Outcome>& outcomes() {
  static const std::map<std::string, Outcome> table{
      {"smi_2x5090_club-3090_1229.txt", {"rtx5090", 2, 0}},
      {"smi_4090x8_go-gpuallocator_17.txt", {"rtx4090", 8, 2}},
      {"smi_c4140_4xV100_nccl-tests_68.txt", {"v100_sxm2_16", 4, 1}},
      {"smi_v100_sxm2_8gpu_dlperf.txt", {"v100_sxm2_16", 8, 1}},
      {"smi_2xNV4_3gpu_nccl-tests_320.txt", {"rtx_a6000", 3, 2}},
      {"smi_dgx2_16gpu_nccl-tests_78_first2rows.txt",
       {"v100_sxm3_32", 0, 0, "a part of a matrix: the header names 26 devices, but GPU2, GPU3,"}},
      {"rocm-smi_4gpu_rocm_smi_lib_108.txt",
       {"l40s", 0, 0, "AMD's matrix ('Weight between two GPUs'): no AMD GPU is known here"}},
      {"smi_hgx_NV18_9nic_4numa_sglang_13973_first6rows.txt",
       {"h200_sxm", 0, 0, "a part of a matrix: the header names 17 devices, but GPU6, GPU7, NIC0,"}},
      {"smi_2x5090_p2p_rw_club-3090_1229.txt", {"rtx5090", 0, 0, "'GNS' between GPU0 and GPU1 is no class of path"}},
      {"ibm_vpc_h100_vm_dump.xml", {"", 8, 8}},
      {"nccl-tests_256_h200_baremetal_numa0_only.xml", {"", 3, 3}},
      {"nccl-tests_256_h200_vm_first_gpu_nic_only.xml", {"", 1, 1}},
      {"azure_ncv4-topo.xml", {"", 4, 1}},
      {"aws_p5.48xl-topo.xml",
       {"h100_sxm5_80", 0, 0, "<system>: no NVLink is named, but a H100 SXM5 80GB has 18: a template"}},
      {"aws_g5.48xl-topo.xml", {"", 0, 0, "<system>: no <gpu>: a template without GPUs"}},
      {"aws_p4d-24xl-topo.xml",
       {"", 0, 0, "<system>: a template without GPUs: 8 PCI devices of class GPU, but no <gpu>"}},
      {"aws_p4de-24xl-topo.xml", {"", 0, 0, "<system>: a template without GPUs: 8 PCI devices"}},
      {"azure_ndv2-topo.xml", {"", 0, 0, "<system>: a template without GPUs: 8 PCI devices"}},
      {"azure_ndv4-topo.xml", {"", 0, 0, "<system>: a template without GPUs: 8 PCI devices"}},
      {"azure_ndv5-topo.xml", {"", 0, 0, "<system>: a template without GPUs: 8 PCI devices"}},
      {"azure_ncv4-graph.xml", {"", 0, 0, "a graph file holds the channels that NCCL chose, but no wiring"}},
      {"rccl_topo_8p6l_4nic.xml",
       {"", 0, 0, "<system>: a topology of AMD's RCCL (version 2): 8 AMD GPUs, 48 xgmi links"}},
      {"rccl_topo_8p_940.xml", {"", 0, 0, "<system>: a topology of AMD's RCCL (version 2): 8 AMD GPUs, 56 xgmi links"}},
      {"rccl_topo_8p_pcie.xml", {"", 0, 0, "<system>: a topology of AMD's RCCL (version 2): 8 AMD GPUs, 0 xgmi links"}},
      {"rccl_topo_8p_rome_4n_1.xml",
       {"", 0, 0, "<system>: a topology of AMD's RCCL (version 2): 8 AMD GPUs, 24 xgmi links"}},
  };
  return table;
}

ImportOptions options_for(const Outcome& outcome, bool xml) {
  ImportOptions options = xml ? ImportOptions{} : answers(outcome.gpu);
  options.gpu = outcome.gpu;
  return options;
}

}  // namespace

TEST_CASE("every description has its outcome: a machine, or the exact reason why not") {
  int files = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(rehearse::testing::source_path("tests/unit/import/machine_descriptions"))) {
    const std::string name = entry.path().filename().string();
    if (name == "SOURCES.md") continue;
    INFO(name);
    ++files;
    REQUIRE(outcomes().contains(name));
    const Outcome& outcome = outcomes().at(name);
    const ImportOptions options = options_for(outcome, entry.path().extension() == ".xml");
    if (outcome.gpus == 0) {
      const Error e = error_of([&] { (void)import_topology(description(name), name, options, shipped()); });
      CHECK(e.kind == ErrorKind::usage);
      CHECK(e.where.starts_with(name));
      CHECK(std::string(e.what()).substr(0, outcome.reason.size()) == outcome.reason);
      CHECK_FALSE(e.hint.empty());
      continue;
    }
    const MachineSpec machine = machine_of(import_topology(description(name), name, options, shipped()));
    CHECK(machine.gpus == outcome.gpus);
    CHECK(machine.nics == outcome.nics);
  }
  CHECK(files == static_cast<int>(outcomes().size()));
}

TEST_CASE("a template without NVLinks becomes a machine when the user says where they go") {
  ImportOptions options;
  options.gpu = "h100_sxm5_80";
  options.nvlinks = ImportOptions::Nvlinks::to_switch;
  const MachineSpec p5 = imported(description("aws_p5.48xl-topo.xml"), options);
  CHECK(p5.gpus == 8);
  CHECK(p5.nics == 32);
  CHECK(p5.nvls);
  CHECK(p5.nic.rate == BytesPerSecond{12.5e9});
  CHECK(p5.cpu_vendor == "amd");
  options.nvlinks = ImportOptions::Nvlinks::none;
  CHECK_FALSE(imported(description("aws_p5.48xl-topo.xml"), options).nvls);
}

TEST_CASE("a graph file gives its machine the channels that NCCL chose") {
  ImportOptions options;
  options.base_machine = read_text(rehearse::testing::source_path("topologies/machines/azure_nc_a100_v4.json"));
  const MachineSpec machine = imported(description("azure_ncv4-graph.xml"), options);
  REQUIRE(machine.nccl_graphs.size() == 3);
  CHECK(machine.nccl_graphs[0].pattern == 4);
  CHECK(machine.nccl_graphs[0].channels == 2);
  CHECK(machine.nccl_graphs[0].speed_intra == BytesPerSecond{12e9});
  CHECK(machine.nccl_graphs[0].orders[1] == std::vector<int>{0, 3, 2, 1});
  CHECK(machine.nccl_graphs[1].channels == 4);
  options.base_machine = read_text(rehearse::testing::source_path("topologies/machines/rtx4090_2x.json"));
  CHECK(refused(description("azure_ncv4-graph.xml"), options).what() ==
        std::string("GPU2 does not exist: the machine has 2"));
  // Of a job on one of the two.
  CHECK(
      refused(
          R"(<graphs version="1"><graph id="0" pattern="4" nchannels="1" speedintra="24" speedinter="24" typeintra="LOC"
                   typeinter="PXB" crossnic="0" samechannels="1"><channel><gpu dev="0"/></channel></graph></graphs>)",
          options)
          .what() == std::string("rings of 1 GPUs, but the machine has 2"));
}

}  // namespace rehearse
