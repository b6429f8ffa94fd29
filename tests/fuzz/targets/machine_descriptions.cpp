// What machines say of themselves: nvidia-smi, NCCL's topology and graph XML, nccl-tests.

#include "core/collective/collective_table.hpp"
#include "core/config/json_file.hpp"
#include "core/hardware/read_specs.hpp"
#include "core/import/nccl_tests.hpp"
#include "core/import/topology/import_topology.hpp"
#include "tests/fuzz/inputs.hpp"
#include "tests/fuzz/target.hpp"
#include "tests/support/source_path.hpp"

namespace rehearse::fuzz::machine_descriptions {

namespace {

constexpr const char* kFolder = "tests/unit/import/machine_descriptions";

/// Answers to everything that a text may leave open.
ImportOptions answers(const std::string& gpu) {
  ImportOptions options;
  options.gpu = gpu;
  options.cpu = "upi_skylake";
  options.nic_rate = BytesPerSecond{12.5e9};
  return options;
}

/// The machine file is read back by the importer itself.
void import_as(std::string_view bytes, const ImportOptions& options) {
  const ImportedTopology imported = import_topology(bytes, "fuzzed", options, shipped());
  require(!imported.machine.empty(), "an import without a machine");
}

void run_topology(std::string_view bytes) {
  ImportOptions options = answers(bytes.size() % 3 == 0 ? "a100_sxm4_40" : "");
  options.nvlinks = bytes.size() % 2 == 0 ? ImportOptions::Nvlinks::to_switch : ImportOptions::Nvlinks::as_stated;
  import_as(bytes, options);
}

void run_graph(std::string_view bytes) {
  static const std::string machine = read_text(testing::source_path("topologies/machines/dgx_a100_80gb.json"));
  ImportOptions options;
  options.base_machine = machine;
  import_as(bytes, options);
}

void run_smi(std::string_view bytes) { import_as(bytes, answers("v100_sxm2_16")); }

void read_file(const std::string& path) {
  (void)import_topology(read_text(path, kMostTopologyBytes), path, answers("v100_sxm2_16"), shipped());
}

void run_nccl_tests(std::string_view bytes) {
  NcclTestsOptions options;
  if (bytes.size() % 2 == 0) options = {"all_reduce", 8, 1, bytes.size() % 4 == 0};
  const std::vector<NcclTestsRun> runs = parse_nccl_tests(bytes, "fuzzed", options);
  const std::string table = collective_table_json(runs, "fuzzed, today");
  try {
    (void)CollectiveTable::parse(table, "table.json");
  } catch (const Error& e) {
    require(false, "a table of nccl-tests is refused: " + std::string(e.what()));
  }
}

std::vector<std::string> nccl_tests() {
  const std::string devices =
      "# nThread 1 nGpus 1 minBytes 1048576 maxBytes 4194304 step: 2(factor) warmup iters: 5 iters: 20 agg iters: 1 "
      "validation: 1 graph: 0\n#\n# Using devices\n"
      "#  Rank  0 Group  0 Pid  100 on      host0 device  0 [0x10] NVIDIA A100-SXM4-80GB\n"
      "#  Rank  1 Group  0 Pid  101 on      host1 device  0 [0x10] NVIDIA A100-SXM4-80GB\n";
  const std::string header =
      "#\n#                                                              out-of-place                       in-place\n"
      "#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw "
      "#wrong\n#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s) "
      " (GB/s)\n";
  const std::string rows =
      "     1048576        262144     float     sum      -1    80.00   13.11   13.11      0    70.00   14.98   14.98   "
      "  0\n"
      "     4194304       1048576     float     sum      -1    180.0   23.30   23.30      0    170.0   24.67   24.67   "
      "  0\n";
  return {"$ mpirun -np 2 ./build/all_reduce_perf -b 1M -e 4M -f 2 -g 1\n" + devices + header + rows +
              "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 18.2\n#\n",
          "[1,0]<stdout>:# nThread 1\n[1,0]<stdout>:" + header + "[1,0]<stdout>:" + rows};
}

std::vector<std::string> graphs() {
  return {R"(<graphs version="1"><graph id="0" pattern="4" crossnic="0" nchannels="1" speedintra="20" speedinter="20"
 latencyinter="0" typeintra="NVL" typeinter="PIX" samechannels="0"><channel><net dev="0"/><gpu dev="0"/><gpu dev="1"/>
 <gpu dev="2"/><gpu dev="3"/><gpu dev="4"/><gpu dev="5"/><gpu dev="6"/><gpu dev="7"/><net dev="0"/></channel>
</graph></graphs>)"};
}

std::vector<std::string> smi() {
  return {
      "\tGPU0\tGPU1\tNIC0\tCPU Affinity\tNUMA Affinity\nGPU0\t X \tNV2\tPIX\t0-23\t0\nGPU1\tNV2\t X \tSYS\t24-47\t1\n"
      "NIC0\tPIX\tSYS\t X \n\nNIC Legend:\n\n  NIC0: mlx5_0\n"};
}

constexpr const char* kXmlLimits = "32 deep, 100,000 elements of 64 attributes of 4,096 bytes; no document type";

const bool registered_topology =
    targets().add({"nccl_topologies",
                   "NCCL's topology XML",
                   {},
                   {.run = run_topology,
                    .seeds = {{kFolder, "topo.xml"}, {kFolder, "dump.xml"}, {kFolder, "only.xml"}},
                    .longest = 16384,
                    .limits = {kMostTopologyBytes, kXmlLimits, read_file}}});
const bool registered_graph =
    targets().add({"nccl_graphs",
                   "NCCL's graph XML",
                   {},
                   {.run = run_graph,
                    .seeds = {{kFolder, "graph.xml"}},
                    .made = graphs,
                    .longest = 8192,
                    .limits = {kMostTopologyBytes, "64 channels, 1,024 GPUs; as above", read_file}}});
const bool registered_smi = targets().add({"nvidia_smi",
                                           "matrices of 'nvidia-smi topo -m'",
                                           {},
                                           {.run = run_smi,
                                            .seeds = {{kFolder, ".txt"}},
                                            .made = smi,
                                            .longest = 8192,
                                            .limits = {kMostTopologyBytes, "512 devices", read_file}}});
const bool registered_tests =
    targets().add({"nccl_tests",
                   "what nccl-tests print",
                   {},
                   {.run = run_nccl_tests, .made = nccl_tests, .limits = {64'000'000, "", nullptr}}});

}  // namespace

}  // namespace rehearse::fuzz::machine_descriptions
