#include <filesystem>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/api/data_directory.hpp"
#include "core/base/error.hpp"
#include "core/base/registry.hpp"
#include "core/cli/verbs.hpp"
#include "core/cli/verbs/import/import_parts.hpp"
#include "core/config/json_file.hpp"
#include "core/config/scenario.hpp"
#include "core/import/topology/import_topology.hpp"
#include "core/import/topology/machine_draft.hpp"
#include "core/report/formats/text_output.hpp"
#include "core/strategy/workload.hpp"

namespace rehearse::cli {

namespace {

namespace fs = std::filesystem;

ImportOptions::Nvlinks nvlinks(const std::string& text) {
  static const std::vector<std::string> kNames{"file", "switch", "none"};
  for (std::size_t i = 0; i < kNames.size(); ++i)
    if (kNames[i] == text) return static_cast<ImportOptions::Nvlinks>(i);
  Error e = unknown_name("place of NVLinks", text, kNames);
  e.where = "--nvlinks";
  throw e;
}

ImportOptions options_of(const Arguments& arguments, const Catalogue& catalogue) {
  ImportOptions options;
  options.gpu = arguments.text("--gpu");
  options.cpu = arguments.text("--cpu");
  options.name = arguments.text("--name");
  options.no_peer_to_peer = arguments.has("--no-p2p");
  options.nvlinks = nvlinks(arguments.text("--nvlinks", "file"));
  const auto about = [](const char* option, const auto& look) {
    try {
      look();
    } catch (Error& e) {
      if (e.where.empty()) e.where = option;
      throw;
    }
  };
  if (arguments.has("--nic-rate"))
    about("--nic-rate", [&] { options.nic_rate = parse<BytesPerSecond>(arguments.text("--nic-rate")); });
  if (!options.gpu.empty()) about("--gpu", [&] { (void)catalogue.gpu(options.gpu); });
  if (!options.cpu.empty()) about("--cpu", [&] { (void)catalogue.interconnects().socket(options.cpu); });
  if (const std::string base = arguments.text("--machine"); !base.empty()) {
    if (!is_file_reference(base)) about("--machine", [&] { (void)catalogue.machine(base); });
    options.base_machine =
        read_text(is_file_reference(base) ? base : (catalogue.root() / "machines" / (base + ".json")).string());
  }
  return options;
}

void write(const std::string& file, const std::string& text, Console& console) {
  write_file(file, text);
  console.err << "wrote " << file << "\n";
}

std::string only_file(const Arguments& arguments) {
  if (arguments.all("FILE").size() > 1)
    throw Error(ErrorKind::usage, fmt::format("'{}' after the file", arguments.all("FILE")[1]), "import topology",
                "one file describes one machine");
  return arguments.text("FILE");
}

int import_topology(const Arguments& arguments, Console& console) {
  const Catalogue catalogue(find_data().topologies());
  const std::string file = only_file(arguments), output = arguments.text("--output", "-");
  const ImportedTopology imported =
      rehearse::import_topology(read_text(file, kMostTopologyBytes), file, options_of(arguments, catalogue), catalogue);
  for (const std::string& note : imported.notes) console.err << "note: " << note << "\n";
  if (output == "-") {
    console.out << imported.machine;
    return 0;
  }
  if (fs::path(output).extension() != ".json")
    throw Error(ErrorKind::usage, fmt::format("'{}' is no name of a machine file", output), "--output",
                "machine files end in .json");
  write(output, imported.machine, console);
  const fs::path machine(output);
  const fs::path cluster = machine.parent_path() / (machine.stem().string() + ".cluster.json");
  write(cluster.string(),
        cluster_json("One " + machine.stem().string(), "./" + machine.filename().string(), 1, "single_switch",
                     "rehearse import topology " + file),
        console);
  return 0;
}

int import(const Arguments& arguments, Console& console) {
  const std::string what = arguments.text("WHAT");
  if (what == "trace") return import_trace(arguments, console);
  if (what == "collectives") return import_collectives(arguments, console);
  if (what == "job") return import_job(arguments, console);
  if (what == "graph") return import_graph(arguments, console);
  if (what == "fleet") return import_fleet(arguments, console);
  if (what != "topology")
    throw unknown_name("kind of import", what,
                       std::vector<std::string>{"job", "topology", "trace", "collectives", "fleet", "graph"});
  return import_topology(arguments, console);
}

}  // namespace

Verb import_verb() {
  return {"import",
          "What other programs wrote: training jobs, machines, traces, networks, nccl-tests' tables, shared clusters.",
          {"rehearse import job pretrain.sh --cluster dgx_h100 -o job.json",
           "rehearse import job train.toml --cluster dgx_h100 --gpus 64 -o job.json",
           std::string("rehearse import topology topo.txt --gpu h100_sxm5_80 --cpu upi_sapphire_rapids ") +
               "--nic-rate 400Gb/s -o mybox.json",
           "rehearse import topology topology.xml -o mybox.json",
           "rehearse import topology graph.xml --machine mybox.json -o mybox.json",
           "rehearse import trace rank0.json.gz rank1.json.gz -o job.json",
           "rehearse import collectives all_reduce.txt -o measured.json",
           "rehearse import graph resnet50.json -o model.json",
           "rehearse import fleet sacct.txt --nodes 16 --gpus 8 -o fleet.json"},
          {{"WHAT", "job, topology, trace, collectives, fleet or graph"},
           {"FILE",
            "job: a launch script, YAML, TOML or JSON of training software, and the files that it reads; topology: "
            "what `nvidia-smi topo -m` prints, or NCCL's topology or graph XML; trace: PyTorch's profiler or "
            "Chakra, a file per rank; collectives: what nccl-tests print; fleet: what `sacct --parsable2` prints, or "
            "Kubernetes manifests of nodes, jobs and Kueue's or KAI's queues; graph: what "
            "topologies/graph/rehearse_graph.py wrote of a PyTorch module, or an ONNX model",
            true, true}},
          {{"--gpu", "ID", "GPU model ('rehearse list gpus'), where the file does not say it"},
           {"--cpu", "LINK",
            "CPUs and the link between them, as interconnects.json names it, where the file does not say it"},
           {"--nic-rate", "RATE", "rate of one NIC, such as 400Gb/s, where the file does not say it"},
           {"--nvlinks", "WHERE",
            "file: as the file says; switch: all to NVSwitches, for templates that leave them out; none", "file"},
           {"--no-p2p", "", "GPUs have no access to each other's memory"},
           {"--machine", "ID|FILE", "machine that a graph XML belongs to; fleet: of each node"},
           {"--name", "NAME", "name of the machine", "Imported from FILE"},
           {"--step", "N", "trace: the step that becomes a workload", "the last one"},
           format_option("job, trace: form of the report", "table"),
           {"--cluster", "NAME", "job: a machine or a cluster, by name or file"},
           {"--network", "NAME", "job: the network between machines"},
           {"--gpus", "N", "job: on how many GPUs, where the files do not say it, or on others; fleet: of each node"},
           {"--framework", "NAME", "job: the software and its release, such as megatron-core@0.12"},
           {"--model", "NAME|FILE", "job: a registered model, or a config.json"},
           {"--vocabulary", "N", "job: rows of the word table"},
           {"--launch", "LINE", "job: the command that starts it, with its arguments"},
           {"--env", "NAME=VALUE", "job: a variable that the job finds set", "", true},
           {"--job", "N", "job: which one, where a script starts several"},
           {"--set", "KEY=VALUE", "job: a setting that goes before the job's own", "", true},
           {"--op", "NAME", "collectives: what was measured, where the text does not say"},
           {"--ranks", "N", "collectives: between how many ranks, where the text does not say"},
           {"--nodes", "N", "collectives: on how many nodes, where the text does not say; fleet: of the cluster"},
           {"--in-place", "", "collectives: the columns of in-place calls"},
           {"-o,--output", "FILE",
            "write the scenario, the machine file, the workload or the table there; beside a machine file, a cluster "
            "of one such "
            "machine with .cluster.json",
            "standard output"}},
          "Every setting of a job is taken, ignored for a reason, or asked for, and the report lists which; a scenario "
          "that lacks something is not written, all that it lacks is named, and the exit code is 2. Machine and "
          "cluster files stand wherever a scenario, topology show or "
          "collectives name a machine or a "
          "cluster; a workload is played by simulate; a table is named by "
          "a scenario's collective_table.",
          import};
}

}  // namespace rehearse::cli
