#pragma once
// What manifests of every target share. Private to this folder.

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "core/export/fleet/fleet_export.hpp"

namespace rehearse::manifests {

using nlohmann::ordered_json;

/// As names of Kubernetes objects are: lower case, digits and dashes, at most 63, beginning and ending with a letter or
/// digit (RFC 1123).
[[nodiscard]] std::string object_name(const std::string& name);

/// The name of each queue as an object. Throws Error (usage) where two would be called the same.
[[nodiscard]] std::vector<std::string> queue_names(const fleet::Fleet& fleet);

/// The queues as a manifest has them for GPUs of one pool, or of all where quotas are over all pools.
struct PoolQueues {
  std::string pool;  ///< Its name as an object; empty: all.
  double gpus = 0;   ///< That it has.
  std::vector<fleet::Queue> queues;
  /// By queue: the most that it may hold beyond its own; infinite where nothing says so. 0 where the fleet's quota
  /// lends nothing to anybody, whatever the queue states.
  std::vector<double> borrowing;
  std::vector<bool> stated;  ///< By queue: whether it has a quota here.
};
[[nodiscard]] std::vector<PoolQueues> queues_by_pool(const fleet::Fleet& fleet);

/// Says how the pools' nodes are told apart, by a label and the pool's name.
void add_pool_note(const std::string& label, Exported& out);

/// GPUs as a Kubernetes quantity: "8", "500m".
[[nodiscard]] std::string quantity(double gpus);

/// `kind: List` of them.
[[nodiscard]] ExportedFile list_file(const std::string& name, const ordered_json& items);

/// A batch/v1 Job with a pod for each part of the job that stands in one node; `node_gpus`: of the cluster's largest
/// node. Its image is a placeholder.
[[nodiscard]] ordered_json job_object(const fleet::Job& job, int node_gpus);
[[nodiscard]] int largest_node(const fleet::Fleet& fleet);

/// Parts of the fleet that no target has a word for.
void add_left_out(const fleet::Fleet& fleet, Exported& out);

}  // namespace rehearse::manifests
