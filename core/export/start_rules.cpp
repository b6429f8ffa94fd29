#include "core/export/start_rules.hpp"

#include <algorithm>
#include <limits>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace rehearse::exporting {

void refuse_what_cannot_start(const std::string& software, const std::vector<StartRule>& rules,
                              const ExportInput& input) {
  std::vector<std::string> reasons;
  for (const StartRule& r : rules)
    if (r.broken(input)) reasons.push_back(fmt::format("{} ({})", r.what, r.source));
  if (reasons.empty()) return;
  throw Error(ErrorKind::usage, fmt::format("{} cannot do {}", software, fmt::join(reasons, "; ")),
              input.scenario.origin, "change the plan with --set; torchrun, slurm and kubernetes take any");
}

int least_capability(const ExportInput& input) {
  int out = std::numeric_limits<int>::max();
  for (const Cluster::Part& p : input.cluster.parts()) out = std::min(out, p.gpu->compute_capability);
  return out;
}

}  // namespace rehearse::exporting
