// torchrun and Slurm: scripts that start this program's own ranks, or any program, on the plan's machines.

#include <algorithm>
#include <cctype>
#include <map>
#include <string>

#include <fmt/format.h>

#include "core/config/json_file.hpp"
#include "core/export/setting_table.hpp"
#include "core/model/library.hpp"

namespace rehearse::exporting {

namespace {

/// A file among the shipped models is known by name wherever this program runs; a file of the user's own goes along as
/// config.json.
ModelRef registered(const std::filesystem::path& path, const std::filesystem::path& models) {
  const std::filesystem::path folder = std::filesystem::absolute(path).lexically_normal().parent_path();
  ModelRef out;
  std::error_code none;
  if (std::filesystem::equivalent(folder.parent_path(), models, none))
    out.name = folder.filename().string();
  else
    out.file = "config.json";
  return out;
}

/// A file that the scenario names goes along under its own name.
void carry(std::string& reference, std::vector<ExportedFile>& beside) {
  if (!is_file_reference(reference)) return;
  const std::string name = std::filesystem::path(reference).filename().string();
  const auto same = [&](const ExportedFile& f) { return f.name == name; };
  std::string text = read_text(reference);
  if (const auto at = std::find_if(beside.begin(), beside.end(), same); at != beside.end() && at->text != text)
    throw Error(ErrorKind::usage, fmt::format("two files of the scenario are called {}", name), reference,
                "give one of them another name");
  else if (at == beside.end())
    beside.push_back({name, std::move(text), false, false});
  reference = "./" + name;
}

/// The scenario without paths of this machine; the files it still names are put into `beside`.
Scenario portable(const ExportInput& in, std::vector<ExportedFile>& beside) {
  Scenario out = in.scenario;
  if (!out.model.file.empty()) {
    const std::filesystem::path path = ModelLibrary(in.models).find(out.model.file);
    out.model = registered(path, in.models);
    if (!out.model.file.empty()) beside.push_back({out.model.file, read_text(path.string()), false, false});
  }
  for (std::string* reference : {&out.cluster.file, &out.cluster.network, &out.calibration, &out.collective_table})
    carry(*reference, beside);
  for (ClusterPart& part : out.cluster.parts) carry(part.machine, beside);
  if (std::string& devices = out.strategy.devices; !devices.empty()) {
    if (!is_file_reference(devices)) devices = "./" + devices;
    carry(devices, beside);
  }
  return out;
}

/// Nothing of the plan becomes a flag: the launcher gets the machines, the scenario goes along whole.
Exported with_scenario(const ExportInput& in) {
  Exported out;
  std::vector<ExportedFile> beside;
  const Scenario carried = portable(in, beside);
  out.files.push_back({"scenario.json", resolved_json(carried), false, false});
  out.files.insert(out.files.end(), beside.begin(), beside.end());
  const std::vector<Pool> all = pools(in);
  for (std::size_t i = 0; i < all.size(); ++i) {
    const std::string part = all.size() > 1 ? fmt::format("cluster.parts.{}.", i) : "cluster.";
    out.settings.push_back({part + "nodes", std::to_string(all[i].nodes), "", std::to_string(all[i].nodes)});
  }
  return out;
}

const char* device_of(const Pool& p) { return p.is_cpu ? "cpu" : "cuda"; }

std::string program_on(const Pool& p) {
  return fmt::format("rehearse run scenario.json --ranks-from-env --device {}", device_of(p));
}

const std::vector<Rule>& nodes_only(const char* nodes, const char* gpus) {
  static std::map<std::string, std::vector<Rule>> tables;
  std::vector<Rule>& table = tables[nodes];
  if (table.empty()) table = {{"cluster.nodes", nodes, {}}, {"cluster.machine", gpus, {}}};
  return table;
}

Exported torchrun(const ExportInput& in) {
  Exported out = with_scenario(in);
  const std::vector<Pool> all = pools(in);
  const bool even = std::all_of(all.begin(), all.end(), [&](const Pool& p) { return p.gpus == all.front().gpus; });
  std::string text = "#!/usr/bin/env bash\n" + banner(in) +
                     "# Start it on every node, with NODE_RANK counting from 0 and MASTER_ADDR the first node's name. "
                     "Another program: ./torchrun.sh my_train.py ...\nset -euo pipefail\n";
  if (even) {
    text += fmt::format("GPUS_PER_NODE=\"${{GPUS_PER_NODE:-{}}}\"\n", all.front().gpus);
  } else {
    // torchrun wants equal numbers on its nodes: each kind of node says its own.
    text += "NODE_RANK=\"${NODE_RANK:-0}\"\ncase \"$NODE_RANK\" in\n";
    int first = 0;
    for (const Pool& p : all) {
      text += "  ";
      for (int n = first; n < first + p.nodes; ++n) text += fmt::format("{}{}", n == first ? "" : "|", n);
      text += fmt::format(") GPUS_PER_NODE={} ;;\n", p.gpus);
      first += p.nodes;
    }
    text += "esac\n";
    out.left_out.push_back(
        {"cluster.parts", "machines of unequal numbers of GPUs",
         "torchrun numbers ranks as if all nodes had as many; start ranks by srun or mpirun instead"});
  }
  text += fmt::format(
      "PROGRAM=(--no-python {})\nif [ \"$#\" -gt 0 ]; then PROGRAM=(\"$@\"); fi\nexec torchrun --nnodes "
      "\"${{NNODES:-{}}}\" --nproc-per-node \"$GPUS_PER_NODE\" --node-rank \"${{NODE_RANK:-0}}\" \\\n"
      "  --master-addr \"${{MASTER_ADDR:-localhost}}\" --master-port \"${{MASTER_PORT:-29500}}\" \\\n  "
      "\"${{PROGRAM[@]}}\"\n",
      program_on(all.front()), node_count(all));
  for (ExportedSetting& s : out.settings) s.flag = "--nnodes";
  out.settings.push_back(
      {"cluster.machine", all.front().gpu_name, "--nproc-per-node", std::to_string(all.front().gpus)});
  out.files.insert(out.files.begin(), {"torchrun.sh", std::move(text), true, false});
  return out;
}

/// Memory that a node's ranks keep on the host, and what their processes take by themselves.
std::int64_t host_gib(const ExportInput& in, int gpus) {
  constexpr double kProcess = 16;  // GiB of a rank's libraries, pinned buffers and data loaders: an estimate.
  return static_cast<std::int64_t>(std::max(1.0, gpus * (kProcess + in.host_memory_per_gpu.value() / (1 << 30)) + 0.5));
}

Exported slurm(const ExportInput& in) {
  Exported out = with_scenario(in);
  const std::vector<Pool> all = pools(in);
  std::string text = "#!/usr/bin/env bash\n" + banner(in) +
                     fmt::format("#SBATCH --job-name={}\n#SBATCH --output=%x-%j.log\n", in.name);
  for (std::size_t i = 0; i < all.size(); ++i) {
    const Pool& p = all[i];
    if (i > 0) text += "#SBATCH hetjob\n";
    text += fmt::format(
        "#SBATCH --nodes={}\n#SBATCH --ntasks-per-node={}\n#SBATCH --gpus-per-node={}\n#SBATCH --exclusive\n#SBATCH "
        "--mem=0\n",
        p.nodes, p.gpus, p.gpus);
    if (all.size() > 1) text += fmt::format("#SBATCH --constraint={}\n", p.gpu_id);
    out.settings[i].flag = "--nodes";
    out.settings.push_back({all.size() > 1 ? fmt::format("cluster.parts.{}.machine", i) : "cluster.machine", p.gpu_name,
                            "--gpus-per-node", std::to_string(p.gpus)});
    out.settings.push_back({all.size() > 1 ? fmt::format("cluster.parts.{}.machine", i) : "cluster.machine", p.gpu_name,
                            "--ntasks-per-node", std::to_string(p.gpus)});
    out.settings.push_back({"strategy.offload", std::string(name_of(in.scenario.strategy.offload)), "--mem", "0"});
    out.notes.push_back(fmt::format("--mem=0 is all of a node's memory; ranks on {} take about {} GiB of each node",
                                    p.gpu_name, host_gib(in, p.gpus)));
    if (all.size() > 1)
      out.settings.push_back({fmt::format("cluster.parts.{}.machine", i), p.gpu_name, "--constraint", p.gpu_id});
  }
  if (all.size() > 1)
    out.notes.push_back(
        "--constraint names the features that your nodes have in slurm.conf: change them where they are called "
        "otherwise");
  text += "set -euo pipefail\n";
  const std::string nodes =
      all.size() > 1 ? "${SLURM_JOB_NODELIST_HET_GROUP_0:-$SLURM_JOB_NODELIST}" : "$SLURM_JOB_NODELIST";
  text += fmt::format(
      "MASTER_ADDR=\"${{MASTER_ADDR:-$(scontrol show hostnames \"{}\" | head -n 1)}}\"\nexport MASTER_ADDR "
      "MASTER_PORT=\"${{MASTER_PORT:-29500}}\"\n",
      nodes);
  text += fmt::format("if [ \"$#\" -eq 0 ]; then set -- {}; fi\nexec srun {}--kill-on-bad-exit=1 \"$@\"\n",
                      program_on(all.front()),
                      all.size() > 1 ? fmt::format("--het-group={} ", fmt::format("0-{}", all.size() - 1)) : "");
  out.files.insert(out.files.begin(), {"job.sbatch", std::move(text), true, false});
  out.notes.push_back("run: sbatch job.sbatch, or with another program: sbatch job.sbatch my_program ...");
  return out;
}

// ---- Kubernetes

/// NVML's names of GPUs, where they are not the catalogue's.
const std::map<std::string, std::string>& nvml_names() {
  static const std::map<std::string, std::string> names{{"a100_pcie_40", "NVIDIA A100-PCIE-40GB"},
                                                        {"a100_pcie_80", "NVIDIA A100 80GB PCIe"},
                                                        {"a100_sxm4_40", "NVIDIA A100-SXM4-40GB"},
                                                        {"a100_sxm4_80", "NVIDIA A100-SXM4-80GB"},
                                                        {"a800_sxm4_80", "NVIDIA A800-SXM4-80GB"},
                                                        {"b100_sxm", "NVIDIA B100"},
                                                        {"b200_sxm", "NVIDIA B200"},
                                                        {"b300_sxm", "NVIDIA B300 SXM6 AC"},
                                                        {"gb200", "NVIDIA GB200"},
                                                        {"gb300", "NVIDIA GB300"},
                                                        {"gh200_144", "NVIDIA GH200 144G HBM3e"},
                                                        {"gh200_96", "NVIDIA GH200 480GB"},
                                                        {"h100_nvl_94", "NVIDIA H100 NVL"},
                                                        {"h100_pcie_80", "NVIDIA H100 PCIe"},
                                                        {"h100_sxm5_80", "NVIDIA H100 80GB HBM3"},
                                                        {"h200_nvl", "NVIDIA H200 NVL"},
                                                        {"h200_sxm", "NVIDIA H200"},
                                                        {"h20_141", "NVIDIA H20-3e"},
                                                        {"h20_96", "NVIDIA H20"},
                                                        {"h800_sxm5_80", "NVIDIA H800"},
                                                        {"k40", "Tesla K40m"},
                                                        {"k80", "Tesla K80"},
                                                        {"p100_pcie_16", "Tesla P100-PCIE-16GB"},
                                                        {"p100_sxm2_16", "Tesla P100-SXM2-16GB"},
                                                        {"rtx3090", "NVIDIA GeForce RTX 3090"},
                                                        {"rtx4090", "NVIDIA GeForce RTX 4090"},
                                                        {"rtx5090", "NVIDIA GeForce RTX 5090"},
                                                        {"rtx_6000_ada", "NVIDIA RTX 6000 Ada Generation"},
                                                        {"t4", "Tesla T4"},
                                                        {"v100_pcie_16", "Tesla V100-PCIE-16GB"},
                                                        {"v100_pcie_32", "Tesla V100-PCIE-32GB"},
                                                        {"v100_sxm2_16", "Tesla V100-SXM2-16GB"},
                                                        {"v100_sxm2_32", "Tesla V100-SXM2-32GB"},
                                                        {"v100_sxm3_32", "Tesla V100-SXM3-32GB"},
                                                        {"v100s_pcie_32", "Tesla V100S-PCIE-32GB"}};
  return names;
}

/// As GPU feature discovery labels nodes (NVIDIA/k8s-device-plugin @1b826ac, internal/lm/resource.go, sanitise): NVML's
/// name without what a label may not hold, words joined by dashes.
std::string product_label(const Pool& p) {
  const auto known = nvml_names().find(p.gpu_id);
  std::string name = known != nvml_names().end() ? known->second : p.gpu_name;
  if (!name.starts_with("NVIDIA") && !name.starts_with("Tesla")) name.insert(0, "NVIDIA ");
  std::string out;
  for (const char c : name) {
    if (c == ' ' && !out.empty() && out.back() != '-') out += '-';
    if (std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_' || c == '.') out += c;
  }
  return out;
}

/// What a node's devices are called as a resource; empty for processors, which are none.
std::string device_resource(const Pool& p) {
  if (p.vendor == "NVIDIA") return "nvidia.com/gpu";
  if (p.vendor == "AMD" && !p.is_cpu) return "amd.com/gpu";
  return p.vendor == "Google" ? "google.com/tpu" : "";
}

Json resources(const ExportInput& in, const Pool& p) {
  Json each{{"memory", fmt::format("{}Gi", host_gib(in, p.gpus))}};
  if (const std::string device = device_resource(p); !device.empty()) each[device] = std::to_string(p.gpus);
  return {{"requests", each}, {"limits", each}};
}

Json node_selector(const Pool& p) {
  return device_resource(p) == "nvidia.com/gpu" ? Json{{"nvidia.com/gpu.product", product_label(p)}} : Json::object();
}

Json mounts() {
  return {{{"name", "scenario"}, {"mountPath", "/scenario"}}, {{"name", "shm"}, {"mountPath", "/dev/shm"}}};
}

Json volumes(const ExportInput& in) {
  return {{{"name", "scenario"}, {"configMap", {{"name", in.name}}}},
          {{"name", "shm"}, {"emptyDir", {{"medium", "Memory"}}}}};
}

Json pod(const ExportInput& in, const Pool& p, const std::string& command, const Json& environment) {
  Json container{{"name", "pytorch"}, {"image", "REPLACE-WITH-YOUR-IMAGE"}, {"command", {"bash", "-c", command}}};
  if (!environment.empty()) container["env"] = environment;
  container["resources"] = resources(in, p);
  container["volumeMounts"] = mounts();
  Json out{{"restartPolicy", "Never"}, {"containers", Json::array({container})}, {"volumes", volumes(in)}};
  if (const Json selector = node_selector(p); !selector.empty()) out["nodeSelector"] = selector;
  return out;
}

/// What the pods find in /scenario.
Json scenario_files(const std::vector<ExportedFile>& files) {
  Json out;
  for (const ExportedFile& f : files) out[f.name] = f.text;
  return out;
}

std::string documents(const std::vector<Json>& all, const ExportInput& in) {
  std::string out = banner(in);
  for (const Json& d : all) out += "---\n" + yaml(d);
  return out;
}

/// One job of a JobSet per kind of machine; ranks are counted through them.
Json jobset(const ExportInput& in, const std::vector<Pool>& all) {
  Json jobs = Json::array();
  int first = 0;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const Json environment{{{"name", "MASTER_ADDR"}, {"value", fmt::format("{}-pool0-0-0.{}", in.name, in.name)}},
                           {{"name", "MASTER_PORT"}, {"value", "29500"}}};
    const std::string command = fmt::format(
        "exec torchrun --nnodes {} --nproc-per-node {} --node-rank $(({} + JOB_COMPLETION_INDEX)) --master-addr "
        "\"$MASTER_ADDR\" --master-port \"$MASTER_PORT\" --no-python "
        "rehearse run /scenario/scenario.json --ranks-from-env --device {}",
        node_count(all), all[i].gpus, first, device_of(all[i]));
    jobs.push_back({{"name", fmt::format("pool{}", i)},
                    {"replicas", 1},
                    {"template",
                     {{"spec",
                       {{"parallelism", all[i].nodes},
                        {"completions", all[i].nodes},
                        {"completionMode", "Indexed"},
                        {"backoffLimit", 0},
                        {"template", {{"spec", pod(in, all[i], command, environment)}}}}}}}});
    first += all[i].nodes;
  }
  return {{"apiVersion", "jobset.x-k8s.io/v1alpha2"},
          {"kind", "JobSet"},
          {"metadata", {{"name", in.name}}},
          {"spec",
           {{"network", {{"enableDNSHostnames", true}, {"subdomain", in.name}}},
            {"failurePolicy", {{"maxRestarts", 3}}},
            {"replicatedJobs", jobs}}}};
}

/// Kubeflow Trainer's: its runtime for PyTorch, told nodes, ranks and program, patched with volumes and machines.
Json train_job(const ExportInput& in, const Pool& p) {
  const std::string command = fmt::format(
      "exec torchrun --no-python rehearse run /scenario/scenario.json --ranks-from-env --device {}", device_of(p));
  Json spec{{"containers", Json::array({{{"name", "node"}, {"volumeMounts", mounts()}}})}, {"volumes", volumes(in)}};
  if (const Json selector = node_selector(p); !selector.empty()) spec["nodeSelector"] = selector;
  const Json node{{"name", "node"}, {"template", {{"spec", {{"template", {{"spec", spec}}}}}}}};
  return {
      {"apiVersion", "trainer.kubeflow.org/v1alpha1"},
      {"kind", "TrainJob"},
      {"metadata", {{"name", in.name}}},
      {"spec",
       {{"runtimeRef", {{"name", "torch-distributed"}}},
        {"trainer",
         {{"image", "REPLACE-WITH-YOUR-IMAGE"},
          {"command", {"bash", "-c", command}},
          {"numNodes", p.nodes},
          {"numProcPerNode", p.gpus},
          {"resourcesPerNode", resources(in, p)}}},
        {"runtimePatches", Json::array({{{"manager", "rehearse.dev/export"},
                                         {"trainingRuntimeSpec",
                                          {{"template", {{"spec", {{"replicatedJobs", Json::array({node})}}}}}}}}})}}}};
}

Exported kubernetes(const ExportInput& in) {
  Exported out = with_scenario(in);
  const std::vector<Pool> all = pools(in);
  const Json config{{"apiVersion", "v1"},
                    {"kind", "ConfigMap"},
                    {"metadata", {{"name", in.name}}},
                    {"data", scenario_files(out.files)}};
  for (std::size_t i = 0; i < all.size(); ++i) {
    const std::string key = all.size() > 1 ? fmt::format("cluster.parts.{}.machine", i) : "cluster.machine";
    out.settings[i].flag = "completions";
    if (const std::string device = device_resource(all[i]); !device.empty())
      out.settings.push_back({key, all[i].gpu_name, device, std::to_string(all[i].gpus)});
    if (!node_selector(all[i]).empty())
      out.settings.push_back({key, all[i].gpu_name, "nvidia.com/gpu.product", product_label(all[i])});
    out.settings.push_back({"strategy.offload", std::string(name_of(in.scenario.strategy.offload)), "memory",
                            fmt::format("{}Gi", host_gib(in, all[i].gpus))});
  }
  out.files.insert(out.files.begin(), {"jobset.yaml", documents({config, jobset(in, all)}, in), false, false});
  if (all.size() == 1)
    out.files.insert(out.files.begin() + 1,
                     {"trainjob.yaml", documents({config, train_job(in, all.front())}, in), false, false});
  else
    out.left_out.push_back({"cluster.parts", fmt::format("{} kinds of machines", all.size()),
                            "a TrainJob has one template for all nodes: use the JobSet"});
  out.notes.push_back(
      "put your image in place of REPLACE-WITH-YOUR-IMAGE; node selectors are GPU feature discovery's: kubectl get "
      "nodes -L nvidia.com/gpu.product");
  out.notes.emplace_back(
      "with Kueue: put the label kueue.x-k8s.io/queue-name with your queue's name on the job before you create it; "
      "where a network's devices are resources (rdma/hca, vpc.amazonaws.com/efa), add these to the container's");
  return out;
}

[[maybe_unused]] const bool entered_launchers =
    enter("torchrun", "a script that starts ranks by torchrun", nodes_only("--nnodes", "--nproc-per-node"), torchrun) &&
    enter("slurm", "a batch script; a heterogeneous job for mixed pools", nodes_only("--nodes", "--gpus-per-node"),
          slurm) &&
    enter("kubernetes", "a JobSet, and a TrainJob where machines are equal",
          nodes_only("completions", "nvidia.com/gpu"), kubernetes);

}  // namespace

}  // namespace rehearse::exporting
