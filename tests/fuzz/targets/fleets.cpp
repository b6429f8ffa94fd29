// Shared clusters: their file, tables of jobs, and what other schedulers print.

#include "core/fleet/read_fleet.hpp"
#include "core/fleet/result.hpp"
#include "core/import/fleet/import_fleet.hpp"
#include "tests/fuzz/inputs.hpp"
#include "tests/fuzz/target.hpp"
#include "tests/support/source_path.hpp"

namespace rehearse::fuzz::fleets {

namespace {

void run_fleet_file(std::string_view bytes) {
  static const std::string origin = testing::source_path("scenarios/fleets/fuzzed.json");
  const Overridden in = overridden(bytes);
  const fleet::Fleet read = fleet::parse_fleet(in.text, origin, in.overrides, shipped());
  fleet::check_fleet(read);
}

void read_fleet_file(const std::string& path) { (void)fleet::load_fleet(path, {}, shipped()); }

/// The columns of the table that the file `jobs.csv` beside it is.
constexpr const char* kTableFleet =
    R"({"schema": "rehearse/fleet/v1", "pools": [{"name": "a", "nodes": 4, "gpus_per_node": 8}],
        "queues": [{"name": "vision"}, {"name": "speech"}],
        "jobs": {"file": "jobs.csv", "columns": {"name": "job_id", "gpus": "num_gpu", "arrival": "submit_time",
                 "duration": "duration", "queue": "queue"}}})";

void run_table(std::string_view bytes) {
  const std::string beside = written("jobs.csv", bytes);
  static const std::string origin = beside.substr(0, beside.rfind('/')) + "/fleet.json";
  const fleet::Fleet read = fleet::parse_fleet(kTableFleet, origin, {}, shipped());
  fleet::check_fleet(read);
}

std::vector<std::string> tables() {
  return {"job_id,num_gpu,submit_time,duration,queue\n1,4,0,3600,vision\n2,0.5,10,60,speech\n",
          "duration,job_id,submit_time,num_gpu,more\r\n12.5,\"a, b\",1e3,8,\"x\"\"y\"\r\n"};
}

void run_import(std::string_view bytes) {
  FleetImportOptions options;
  options.nodes = bytes.size() % 2 == 0 ? 16 : 0;
  const ImportedFleet imported = import_fleet({{"fuzzed.txt", std::string(bytes)}}, options);
  if (imported.json.find("\"jobs\": []") != std::string::npos) return;  // It says so in a note.
  fleet::Fleet read;
  try {
    read = fleet::parse_fleet(imported.json, "imported.json", {}, shipped());
  } catch (const Error& e) {
    require(false, "an imported fleet is refused: " + std::string(e.what()));
  }
  fleet::check_fleet(read);
}

std::vector<std::string> imports() {
  return {
      "JobID|Account|Submit|Elapsed|TimelimitRaw|AllocTRES|State\n"
      "7|vision|2024-02-29T23:00:00|02:00:00|240|billing=16,cpu=16,gres/gpu:a100=16,gres/gpu=16,node=2|COMPLETED\n"
      "8|speech|2024-03-01T00:30:00|1-00:00:10|2880|cpu=4,gres/gpu:a100=4,node=1|TIMEOUT\n",
      R"(apiVersion: v1
kind: Node
metadata: {name: n1, labels: {pool: a, nvidia.com/gpu.product: H100}}
status: {capacity: {nvidia.com/gpu: 8, cpu: "96", memory: 1Ti}}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: team-a}
spec:
  cohortName: all
  preemption: {reclaimWithinCohort: Any, withinClusterQueue: LowerPriority}
  resourceGroups:
  - coveredResources: ["nvidia.com/gpu"]
    flavors:
    - name: spot
      resources: [{name: "nvidia.com/gpu", nominalQuota: 8, borrowingLimit: 4}]
---
apiVersion: kueue.x-k8s.io/v1beta1
kind: LocalQueue
metadata: {name: lq, namespace: a}
spec: {clusterQueue: team-a}
---
apiVersion: batch/v1
kind: Job
metadata: {name: j, namespace: a, labels: {kueue.x-k8s.io/queue-name: lq}, creationTimestamp: "2024-03-01T01:00:00Z"}
spec:
  parallelism: 2
  activeDeadlineSeconds: 600
  template: {spec: {containers: [{name: c, resources: {requests: {nvidia.com/gpu: 4, cpu: 500m}}}]}}
)",
      R"(apiVersion: scheduling.run.ai/v2
kind: Queue
metadata: {name: team}
spec: {parentQueue: dept, priority: 100, resources: {gpu: {quota: 4, limit: 8, overQuotaWeight: 2}}}
---
apiVersion: scheduling.run.ai/v2
kind: Queue
metadata: {name: dept}
spec: {resources: {gpu: {quota: -1, limit: -1, overQuotaWeight: 1}}}
---
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata: {name: js, labels: {kai.scheduler/queue: team}}
spec: {replicatedJobs: [{name: w, replicas: 2, template: {spec: {parallelism: 1, template: {spec: {containers:
  [{name: c, resources: {limits: {nvidia.com/gpu: 1}}}]}}}}}]}
)"};
}

const bool registered_files = targets().add({"fleets",
                                             "fleet files with overrides",
                                             {},
                                             {.run = run_fleet_file,
                                              .seeds = {{"scenarios/fleets", ".json"},
                                                        {"scenarios/lessons/borrowing", ".json"},
                                                        {"scenarios/lessons/idle_gpus", ".json"},
                                                        {"tests/golden/toy/fleet.json", ""},
                                                        {"tests/golden/toy/fleet_pools.json", ""},
                                                        {"tests/golden/toy/fleet_priced.json", ""}},
                                              .limits = {512'000'000, "64 deep, 1,000,000 nodes", read_fleet_file}}});
const bool registered_tables =
    targets().add({"fleet_tables",
                   "tables of jobs (CSV) beside a fleet",
                   {},
                   {.run = run_table, .made = tables, .limits = {512'000'000, "", nullptr}}});
const bool registered_imports =
    targets().add({"fleet_imports",
                   "Slurm's sacct, and manifests of Kubernetes, Kueue and KAI",
                   {},
                   {.run = run_import, .made = imports, .limits = {512'000'000, "", nullptr}}});

}  // namespace

}  // namespace rehearse::fuzz::fleets
