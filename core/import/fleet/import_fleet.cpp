#include "core/import/fleet/import_fleet.hpp"

#include "core/base/error.hpp"
#include "core/config/json_text.hpp"
#include "core/fleet/read_fleet.hpp"
#include "core/import/fleet/fleet_draft.hpp"

namespace rehearse {

using namespace fleet_import;

ImportedFleet import_fleet(const std::vector<FleetFile>& files, const FleetImportOptions& options) {
  Draft draft;
  std::vector<FleetFile> manifests;
  for (const FleetFile& f : files) {
    if (!is_utf8(f.text)) throw Error(ErrorKind::usage, "the file is not UTF-8 text", f.path);
    if (is_sacct(f.text))
      read_sacct(f, draft);
    else
      manifests.push_back(f);
  }
  read_manifests(manifests, options, draft);
  if (options.nodes > 0) {
    ordered_json pool{{"nodes", options.nodes}};
    if (options.machine.empty())
      pool["gpus"] = options.gpus_per_node;
    else
      pool["machine"] = options.machine;
    draft.pools = {pool};
  }
  const std::string where = files.empty() ? "import fleet" : files.front().path;
  if (draft.pools.empty())
    throw Error(ErrorKind::usage, "says nothing of the cluster's nodes", where,
                "--nodes 16 --gpus 8, or --nodes 16 --machine dgx_h100; or give 'kubectl get nodes -o yaml', too");
  if (draft.jobs.empty()) draft.notes.emplace_back("no job was found: add \"jobs\", a \"table\" or \"generate\"");
  ordered_json out{{"schema", fleet::kFleetSchema}, {"pools", draft.pools}};
  if (!draft.queues.empty()) out["queues"] = draft.queues;
  if (!draft.quota.empty() && !draft.queues.empty()) out["policy"] = {{"quota", draft.quota}};
  out["jobs"] = draft.jobs;
  return {out.dump(2) + "\n", std::move(draft.notes)};
}

}  // namespace rehearse
