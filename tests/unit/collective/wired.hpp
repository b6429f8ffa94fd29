#pragma once
// Made-up machines and what NCCL 2.28.9's search found on them, as recorded in data/.

#include <string>
#include <vector>

#include "core/collective/nccl/nccl_search.hpp"
#include "core/hardware/specs.hpp"

namespace wired {

struct Run {
  std::vector<int> gpus;
  bool leaves_node = false;
  rehearse::nccl::NodeSearch result;
};

struct Case {
  std::string name, change;  ///< Of real machines: which, and what was taken away.
  rehearse::MachineSpec machine;
  rehearse::GpuSpec gpu;
  std::vector<Run> runs;
};

/// A file of data/.
std::vector<Case> cases(const std::string& file);

/// Everything that the tuning table reads is equal: channels, speeds, classes, pattern, sameness, parts.
bool same(const rehearse::nccl::NodeSearch& a, const rehearse::nccl::NodeSearch& b);
std::string show(const rehearse::nccl::NodeSearch& s);

/// The same hardware under other numbers: GPU i becomes `gpus[i]`, NIC i `nics[i]`; names and the order of vertices and
/// links change.
rehearse::MachineSpec renumbered(const rehearse::MachineSpec& m, const std::vector<int>& gpus,
                                 const std::vector<int>& nics);

}  // namespace wired
