#pragma once
// Jobs, queues and nodes as other schedulers state them, as a fleet's file (rehearse/fleet/v1).
//
//   const ImportedFleet f = import_fleet({{"jobs.txt", text}}, {.nodes = 16, .gpus_per_node = 8});

#include <string>
#include <vector>

#include "core/base/units.hpp"

namespace rehearse {

struct FleetFile {
  std::string path;  ///< For messages.
  std::string text;
};

struct FleetImportOptions {
  /// The cluster, where the files do not say which nodes there are. Default: 0, as they say.
  int nodes = 0;
  int gpus_per_node = 8;
  std::string machine{};  ///< In place of gpus_per_node: of the catalogue. Default: empty.
  /// Of jobs that do not say how long they take: manifests say it by activeDeadlineSeconds alone. Default: an hour.
  Seconds duration{3600};
};

struct ImportedFleet {
  std::string json;  ///< rehearse/fleet/v1; ends in a newline.
  std::vector<std::string> notes;
};

/// Takes, told by what they begin with:
///   - what `sacct --parsable2` prints, with at least JobID, Submit, Elapsed (or ElapsedRaw) and AllocTRES (or
///   ReqTRES):
///     a job for each allocation with GPUs that ran, its account as queue, its time limit as estimate;
///   - Kubernetes manifests, YAML or JSON, several to a file: Nodes; Jobs, JobSets and TrainJobs; Kueue's
///   ClusterQueues,
///     LocalQueues, Cohorts and ResourceFlavors (kueue.x-k8s.io, v1beta1 and v1beta2): quotas are by pool where the
///     nodes have the labels of several flavors, else added up;
///     KAI's Queues (scheduling.run.ai/v2), those of a node pool as quotas of that pool.
/// Throws Error (usage) with file and line for what cannot be read, and where nodes or jobs are missing.
[[nodiscard]] ImportedFleet import_fleet(const std::vector<FleetFile>& files, const FleetImportOptions& options);

}  // namespace rehearse
