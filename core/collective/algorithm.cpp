#include "core/collective/algorithm.hpp"

#include <algorithm>
#include <cctype>

namespace rehearse {

namespace {

Registry<std::shared_ptr<const CollectiveAlgorithm>> with_nccl() {
  Registry<std::shared_ptr<const CollectiveAlgorithm>> out("algorithm");
  const auto add = [&](const char* name, const char* summary) { out.add({name, summary, {}, nullptr}); };
  add("Ring", "NCCL: pieces go around rings of all ranks");
  add("Tree", "NCCL: sums go up and results down two trees of nodes, along a chain inside each node");
  add("CollNetDirect", "NCCL: switches of the network reduce (SHARP), GPUs of a node exchange directly");
  add("CollNetChain", "NCCL: switches of the network reduce (SHARP), along a chain inside each node");
  add("NVLS", "NCCL: the node's NVSwitch reduces and multicasts");
  add("NVLSTree", "NCCL: NVSwitches inside nodes, trees between them");
  add("PAT", "NCCL: gathers and scatters between nodes in a logarithmic number of steps");
  return out;
}

bool alike(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](unsigned char x, unsigned char y) { return std::tolower(x) == std::tolower(y); });
}

}  // namespace

Registry<std::shared_ptr<const CollectiveAlgorithm>>& collective_algorithms() {
  static Registry<std::shared_ptr<const CollectiveAlgorithm>> registry = with_nccl();
  return registry;
}

const CollectiveAlgorithm* find_algorithm(std::string_view name) {
  for (const auto& entry : collective_algorithms().entries())
    if (alike(entry.name, name)) return entry.value.get();
  return nullptr;
}

}  // namespace rehearse
