// Shared clusters as Slurm, Kueue and KAI state them, and back.

#include <algorithm>

#include <nlohmann/json.hpp>

#include "core/base/error.hpp"
#include "core/export/fleet/fleet_export.hpp"
#include "core/fleet/read_fleet.hpp"
#include "core/fleet/result.hpp"
#include "core/hardware/catalogue.hpp"
#include "core/import/fleet/import_fleet.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/source_path.hpp"

using namespace rehearse;

namespace {

const Catalogue& catalogue() {
  static const Catalogue one(testing::source_path("topologies"));
  return one;
}

fleet::Fleet fleet_of(const ImportedFleet& imported) {
  fleet::Fleet out = fleet::parse_fleet(imported.json, "imported", {}, catalogue());
  fleet::check_fleet(out);
  return out;
}

fleet::Fleet import_text(const std::string& text, const FleetImportOptions& options = {}) {
  return fleet_of(import_fleet({{"in.txt", text}}, options));
}

const fleet::Queue& queue(const fleet::Fleet& f, const std::string& name) {
  for (const fleet::Queue& q : f.queues)
    if (q.name == name) return q;
  FAIL("no queue " << name);
  return f.queues.front();
}

std::string refusal(const std::string& text, const FleetImportOptions& options = {}) {
  try {
    (void)import_text(text, options);
  } catch (const Error& e) {
    return e.where + ": " + e.what();
  }
  return "";
}

constexpr const char* kSacct =
    "JobID|Account|Submit|Elapsed|TimelimitRaw|AllocTRES|State\n"
    "7|vision|2024-02-29T23:00:00|02:00:00|240|billing=16,cpu=16,gres/gpu:a100=16,gres/gpu=16,node=2|COMPLETED\n"
    "7.batch||2024-02-29T23:00:00|02:00:00||cpu=8,gres/gpu=8,node=1|COMPLETED\n"
    "8|speech|2024-03-01T00:30:00|1-00:00:10|2880|cpu=4,gres/gpu:a100=4,node=1|TIMEOUT\n"
    "9|speech|2024-03-01T01:00:00|00:10:00|60|cpu=4,node=1|COMPLETED\n"
    "10|speech|2024-03-01T01:00:00|00:00:00|60|gres/gpu=8,node=1|CANCELLED by 5\n";

constexpr const char* kKueue = R"(
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: team-a}
spec:
  cohortName: all
  preemption: {reclaimWithinCohort: Any, withinClusterQueue: LowerPriority}
  resourceGroups:
  - coveredResources: ["cpu", "nvidia.com/gpu"]
    flavors:
    - name: spot
      resources: [{name: cpu, nominalQuota: 9}, {name: "nvidia.com/gpu", nominalQuota: 8, borrowingLimit: 4}]
    - name: reserved
      resources: [{name: cpu, nominalQuota: 9}, {name: "nvidia.com/gpu", nominalQuota: 16, borrowingLimit: 0}]
---
apiVersion: kueue.x-k8s.io/v1beta1
kind: ClusterQueue
metadata: {name: team-b}
spec:
  cohort: all
  fairSharing: {weight: "500m"}
  resourceGroups:
  - coveredResources: ["nvidia.com/gpu"]
    flavors: [{name: reserved, resources: [{name: "nvidia.com/gpu", nominalQuota: 8, lendingLimit: 2}]}]
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {name: users, namespace: default}
spec: {clusterQueue: team-a}
---
apiVersion: batch/v1
kind: Job
metadata: {name: train, labels: {kueue.x-k8s.io/queue-name: users}}
spec:
  parallelism: 2
  activeDeadlineSeconds: 7200
  template: {spec: {containers: [{name: c, resources: {limits: {"nvidia.com/gpu": 8}}}]}}
---
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata: {name: set, labels: {kueue.x-k8s.io/queue-name: users}}
spec:
  replicatedJobs:
  - {name: driver, template: {spec: {template: {spec: {containers: [{name: c}]}}}}}
  - {name: workers, replicas: 3, template: {spec: {parallelism: 1,
      template: {spec: {containers: [{name: c, resources: {requests: {"nvidia.com/gpu": "4"}}}]}}}}}
---
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata: {name: tj, labels: {kueue.x-k8s.io/queue-name: users}}
spec: {trainer: {numNodes: 2, resourcesPerNode: {requests: {"nvidia.com/gpu": 8}}}}
)";

}  // namespace

TEST_CASE("sacct: allocations with GPUs that ran, by account, from the first submission on") {
  const fleet::Fleet f = import_text(kSacct, {.nodes = 4});
  REQUIRE(f.jobs.size() == 2);
  CHECK(f.jobs[0].name == "7");
  CHECK(f.jobs[0].queue == "vision");
  CHECK(f.jobs[0].request.gpus == 16);
  CHECK(f.jobs[0].request.pod_gpus == 8);
  CHECK(f.jobs[0].arrival == Seconds{0});
  CHECK(f.jobs[0].duration == Seconds{7200});
  CHECK(f.jobs[0].estimate == Seconds{240 * 60});
  CHECK(f.jobs[1].arrival == Seconds{5400});
  CHECK(f.jobs[1].duration == Seconds{86410});
  CHECK(f.nodes.size() == 4);
}

TEST_CASE("sacct that cannot be read is refused with its line") {
  CHECK(refusal(kSacct).find("nothing of the cluster's nodes") != std::string::npos);
  CHECK(refusal("JobID|Submit|Elapsed|AllocTRES\n1|yesterday|00:10:00|gres/gpu=1\n", {.nodes = 1}).find("in.txt:2") ==
        0);
  CHECK(refusal("JobID|Submit|AllocTRES\n", {.nodes = 1}).find("in.txt:1: no column Elapsed") == 0);
}

TEST_CASE("Kueue: quotas over flavors, cohorts that nobody states, jobs of three kinds") {
  const fleet::Fleet f = import_text(kKueue, {.nodes = 4});
  CHECK(f.policy.quota == "borrowing");
  const fleet::Queue &a = queue(f, "team-a"), &b = queue(f, "team-b");
  CHECK(a.guaranteed == 24);
  CHECK(a.borrow == 4);
  CHECK(a.reclaim == fleet::Reclaim::any);
  CHECK(a.preempts_own);
  CHECK(b.guaranteed == 8);
  CHECK(b.borrow == fleet::kUnlimited);
  CHECK(b.lend == 2);
  CHECK(b.weight == 0.5);
  CHECK(b.reclaim == fleet::Reclaim::never);
  CHECK(queue(f, "all").guaranteed == 32);
  REQUIRE(f.jobs.size() == 3);
  CHECK(f.jobs[0].queue == "team-a");
  CHECK(f.jobs[0].request.gpus == 16);
  CHECK(f.jobs[0].request.pod_gpus == 8);
  CHECK(f.jobs[0].duration == Seconds{7200});
  CHECK(f.jobs[1].request.gpus == 12);
  CHECK(f.jobs[1].request.pod_gpus == 4);
  CHECK(f.jobs[2].request.gpus == 16);
}

TEST_CASE("KAI: queues with quota, limit, weight and priority, and nodes as kubectl lists them") {
  const fleet::Fleet f = import_text(R"({"kind": "List", "items": [
    {"kind": "Node", "metadata": {"name": "n0"}, "status": {"allocatable": {"nvidia.com/gpu": "8"}}},
    {"kind": "Node", "metadata": {"name": "cpu"}, "status": {"allocatable": {"cpu": "8"}}},
    {"kind": "Queue", "apiVersion": "scheduling.run.ai/v2", "metadata": {"name": "top"},
     "spec": {"resources": {"gpu": {"quota": -1, "limit": -1, "overQuotaWeight": 1}}}},
    {"kind": "Queue", "apiVersion": "scheduling.run.ai/v2", "metadata": {"name": "leaf"},
     "spec": {"parentQueue": "top", "priority": 150,
         "resources": {"gpu": {"quota": 2, "limit": 6, "overQuotaWeight": 3}}}},
    {"kind": "Job", "metadata": {"name": "half"},
        "spec": {"template": {"metadata": {"annotations": {"gpu-fraction": "0.5"},
     "labels": {"kai.scheduler/queue": "leaf"}}, "spec": {"containers": [{"name": "c"}]}}}}]})");
  CHECK(f.policy.quota == "fair");
  REQUIRE(f.nodes.size() == 1);
  CHECK(f.nodes[0].gpus == 8);
  const fleet::Queue& leaf = queue(f, "leaf");
  CHECK(leaf.parent == "top");
  CHECK(leaf.guaranteed == 2);
  CHECK(leaf.limit == 6);
  CHECK(leaf.weight == 3);
  CHECK(leaf.priority == 50);
  REQUIRE(f.jobs.size() == 1);
  CHECK(f.jobs[0].request.milli == 500);
  CHECK(f.jobs[0].queue == "leaf");
}

TEST_CASE("what is neither is refused") {
  CHECK(refusal("a: [1, 2", {.nodes = 1}).find("no YAML") != std::string::npos);
  CHECK(refusal("{\"kind\": \"Job\", \"metadata\": {\"name\": \"x\"}, \"spec\": {\"template\": {\"spec\": "
                "{\"containers\": [{\"resources\": {\"limits\": {\"nvidia.com/gpu\": \"many\"}}}]}}}}",
                {.nodes = 1})
            .find("'many' is no number of GPUs") != std::string::npos);
}

TEST_CASE("queues and jobs come back from the manifests that are written of them") {
  const fleet::Fleet before = fleet::parse_fleet(R"({
    "schema": "rehearse/fleet/v1", "name": "Both Ways", "pools": [{"gpus": 8, "nodes": 4}],
    "queues": [{"name": "lab", "guaranteed": 20}, {"name": "red", "parent": "lab",
        "guaranteed": 8, "borrow": 8, "lend": 2,
                "weight": 3}, {"name": "blue", "parent": "lab", "guaranteed": 8, "reclaim": "lower_priority"},
               {"name": "own", "guaranteed": 4, "reclaim": "never", "preempts_own": true}],
    "jobs": [{"name": "wide", "queue": "red", "gpus": 16, "min_gpus": 8,
        "pod_gpus": 8, "duration": "1h", "priority": 2},
             {"name": "small", "queue": "own", "gpus": 2, "duration": "1h"}]})",
                                                 "made up", {}, catalogue());
  fleet::check_fleet(before);
  const Exported out = fleet_exporters().at("kueue").value(before);
  std::vector<FleetFile> files;
  for (const ExportedFile& f : out.files) files.push_back({f.name, f.text});
  const fleet::Fleet after = fleet_of(import_fleet(files, {.nodes = 4}));
  for (const fleet::Queue& q : before.queues) {
    CAPTURE(q.name);
    const fleet::Queue& back = queue(after, q.name);
    CHECK(back.guaranteed == q.guaranteed);
    CHECK(back.borrow == q.borrow);
    CHECK(back.lend == q.lend);
    CHECK(back.weight == q.weight);
    if (q.name == "lab") continue;  // A cohort preempts nobody.
    CHECK(back.reclaim == q.reclaim);
    CHECK(back.preempts_own == q.preempts_own);
  }
  REQUIRE(after.jobs.size() == 2);
  CHECK(after.jobs[0].request == before.jobs[0].request);
  CHECK(after.jobs[0].priority == 2);
  CHECK(after.jobs[0].queue == "red");
  CHECK(after.jobs[1].request.gpus == 2);

  const Exported kai = fleet_exporters().at("kai").value(before);
  files.clear();
  for (const ExportedFile& f : kai.files) files.push_back({f.name, f.text});
  const fleet::Fleet again = fleet_of(import_fleet(files, {.nodes = 4}));
  for (const fleet::Queue& q : before.queues) {
    CHECK(queue(again, q.name).guaranteed == q.guaranteed);
    CHECK(queue(again, q.name).parent == q.parent);
    CHECK(queue(again, q.name).weight == q.weight);
  }
  CHECK(queue(again, "red").limit == 16);
}

TEST_CASE("Kueue's flavors are pools where nodes have their labels, and their quotas stay apart") {
  const std::string flavors = R"(
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: spot}
spec: {nodeLabels: {tier: spot}}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: reserved}
spec: {nodeLabels: {tier: reserved}}
)";
  std::string nodes;
  for (const auto& [tier, count] : {std::pair{"spot", 2}, {"reserved", 3}})
    for (int i = 0; i < count; ++i)
      nodes += std::string("---\nkind: Node\nmetadata: {name: ") + tier + std::to_string(i) +
               ", labels: {tier: " + tier + "}}\nstatus: {allocatable: {\"nvidia.com/gpu\": \"8\"}}\n";
  const fleet::Fleet f = import_text(kKueue + flavors + nodes);
  CHECK(f.nodes.size() == 5);
  const fleet::Queue &a = queue(f, "team-a"), &b = queue(f, "team-b"), &all = queue(f, "all");
  REQUIRE(a.pools.size() == 2);
  CHECK(a.guaranteed == 0);
  CHECK(a.pools[0].pool == "spot");
  CHECK(a.pools[0].guaranteed == 8);
  CHECK(a.pools[0].borrow == 4);
  CHECK(a.pools[1].pool == "reserved");
  CHECK(a.pools[1].guaranteed == 16);
  CHECK(a.pools[1].borrow == 0);
  REQUIRE(b.pools.size() == 1);
  CHECK(b.pools[0].lend == 2);
  REQUIRE(all.pools.size() == 2);
  CHECK(all.pools[0].guaranteed + all.pools[1].guaranteed == 32);
  // Without the nodes nobody knows where a flavor is.
  const ImportedFleet added_up = import_fleet({{"in.txt", kKueue + flavors}}, {.nodes = 4});
  CHECK(queue(fleet_of(added_up), "team-a").guaranteed == 24);
  CHECK(std::any_of(added_up.notes.begin(), added_up.notes.end(),
                    [](const std::string& n) { return n.find("added up") != std::string::npos; }));
}

TEST_CASE("quotas by pool come back from the manifests that are written of them") {
  const fleet::Fleet before = fleet::parse_fleet(R"({
    "schema": "rehearse/fleet/v1", "name": "pools",
    "pools": [{"name": "old", "gpus": 8, "nodes": 2}, {"name": "new", "gpus": 8, "nodes": 3}],
    "queues": [{"name": "lab"},
               {"name": "red", "parent": "lab",
                "pools": [{"pool": "new", "guaranteed": 16, "borrow": 4}, {"pool": "old", "guaranteed": 4, "lend": 1}]},
               {"name": "blue", "parent": "lab",
                "pools": [{"pool": "old", "guaranteed": 8}, {"pool": "new", "guaranteed": 4}]}],
    "policy": {"quota": "borrowing"},
    "jobs": [{"name": "wide", "queue": "red", "gpus": 16, "pod_gpus": 8, "duration": "1h"},
             {"name": "small", "queue": "blue", "gpus": 2, "duration": "1h"}]})",
                                                 "made up", {}, catalogue());
  fleet::check_fleet(before);
  const auto back = [&before](const char* target, const std::string& label) {
    std::vector<FleetFile> files;
    for (const ExportedFile& f : fleet_exporters().at(target).value(before).files) files.push_back({f.name, f.text});
    std::string nodes;
    for (const fleet::Node& n : before.nodes)
      nodes += "---\nkind: Node\nmetadata: {name: " + n.name + ", labels: {" + label + ": " + n.pool +
               "}}\nstatus: {allocatable: {\"nvidia.com/gpu\": \"8\"}}\n";
    files.push_back({"nodes.yaml", nodes});
    return fleet_of(import_fleet(files, {}));
  };
  const fleet::Fleet kueue = back("kueue", "pool");
  for (const char* name : {"red", "blue"}) {
    const fleet::Queue &was = queue(before, name), &is = queue(kueue, name);
    CAPTURE(name);
    REQUIRE(is.pools.size() == was.pools.size());
    for (std::size_t p = 0; p < was.pools.size(); ++p) {
      CHECK(is.pools[p].pool == was.pools[p].pool);
      CHECK(is.pools[p].guaranteed == was.pools[p].guaranteed);
      CHECK(is.pools[p].borrow == was.pools[p].borrow);
      CHECK(is.pools[p].lend == was.pools[p].lend);
    }
  }
  CHECK(kueue.jobs[0].queue == "red");
  const fleet::Fleet kai = back("kai", "kai.scheduler/node-pool");
  REQUIRE(queue(kai, "red-new").pools.size() == 1);
  CHECK(queue(kai, "red-new").pools[0].pool == "new");
  CHECK(queue(kai, "red-new").pools[0].guaranteed == 16);
  CHECK(queue(kai, "red-new").pools[0].limit == 20);
  CHECK(queue(kai, "blue-old").pools[0].guaranteed == 8);
  CHECK(kai.jobs[0].queue == "red-new");
  CHECK(kai.jobs[1].queue == "blue-old");
}
