// From a matrix of path classes to wiring that has it.

#include <algorithm>
#include <numeric>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/base/error.hpp"
#include "core/import/topology/nvidia_smi.hpp"

namespace rehearse {
namespace {

using Cell = TopologyMatrix::Cell;

/// Classes of an equivalence, grown pair by pair.
class Sets {
 public:
  explicit Sets(std::size_t n) : parent_(n) { std::iota(parent_.begin(), parent_.end(), std::size_t{0}); }
  std::size_t find(std::size_t i) { return parent_[i] == i ? i : parent_[i] = find(parent_[i]); }
  void join(std::size_t a, std::size_t b) { parent_[std::max(find(a), find(b))] = std::min(find(a), find(b)); }
  /// Members of every class, in the order of their first.
  std::vector<std::vector<std::size_t>> classes() {
    std::map<std::size_t, std::vector<std::size_t>> by_root;
    for (std::size_t i = 0; i < parent_.size(); ++i) by_root[find(i)].push_back(i);
    std::vector<std::vector<std::size_t>> out;
    for (auto& [root, members] : by_root) out.push_back(std::move(members));
    return out;
  }

 private:
  std::vector<std::size_t> parent_;
};

class Inference {
 public:
  Inference(const SmiTopology& smi, const GpuSpec& gpu, std::string origin)
      : smi_(smi), m_(smi.matrix), gpu_(gpu), origin_(std::move(origin)) {}

  MachineDraft run() {
    slot_ = {gpu_.pcie.generation, gpu_.pcie.lanes};
    for (std::size_t i = 0; i < m_.devices.size(); ++i) {
      auto& list = m_.devices[i].is_nic ? draft_.nics : draft_.gpus;
      place_.push_back(list.size());
      std::string name =
          m_.devices[i].is_nic && !m_.devices[i].name.starts_with("NIC") ? m_.devices[i].name : m_.devices[i].device;
      draft_.nic_devices_are_names =
          draft_.nic_devices_are_names || (m_.devices[i].is_nic && !m_.devices[i].name.starts_with("NIC"));
      list.push_back({{}, slot_, -1, name});
    }
    check_names();
    add_nvlinks();
    for (const auto& members : cpu_classes()) add_cpu(members);
    return std::move(draft_);
  }

 private:
  [[nodiscard]] bool is(std::size_t a, std::size_t b, std::initializer_list<PathType> types) const {
    return std::find(types.begin(), types.end(), m_.cells[a][b].type) != types.end();
  }

  /// GPU<i> stands at place i, and NIC<i> likewise: else the file's names would not be the machine's.
  void check_names() const {
    for (std::size_t i = 0; i < m_.devices.size(); ++i) {
      const auto& d = m_.devices[i];
      if (draft_.nic_devices_are_names && d.is_nic) continue;
      const std::string wanted = fmt::format("{}{}", d.is_nic ? "NIC" : "GPU", place_[i]);
      if (d.name != wanted)
        throw Error(ErrorKind::usage, fmt::format("{} stands where {} belongs", d.name, wanted), origin_,
                    "a part of a matrix? give the whole output");
    }
  }

  void add_nvlinks() {
    const auto gpus = draft_.gpus.size();
    const int own = gpu_.nvlink ? gpu_.nvlink->links : 0;
    bool all_full = gpus > 2;
    int most = 0;
    for (std::size_t a = 0; a < gpus; ++a) {
      int sum = 0;
      for (std::size_t b = 0; b < gpus; ++b) {
        if (a == b) continue;
        all_full = all_full && m_.cells[a][b].nvlinks == own;
        sum += m_.cells[a][b].nvlinks;
        if (m_.cells[a][b].nvlinks > own)
          throw Error(ErrorKind::usage,
                      fmt::format("{} and {} share {} NVLinks; a {} has {}", m_.devices[a].name, m_.devices[b].name,
                                  m_.cells[a][b].nvlinks, gpu_.name, own),
                      origin_, "is --gpu the right model?");
      }
      most = std::max(most, sum);
    }
    if (most == 0) return ask_for_nvlinks(own);
    note_gpus_without();
    if (!all_full && most <= own) {
      for (std::size_t a = 0; a < gpus; ++a)
        for (std::size_t b = a + 1; b < gpus; ++b)
          if (int n = m_.cells[a][b].nvlinks; n > 0)
            draft_.nvlink_pairs.push_back({static_cast<int>(a), static_cast<int>(b), n});
      return;
    }
    for (std::size_t a = 0; a < gpus; ++a) {
      int links = 0;
      for (std::size_t b = 0; b < gpus; ++b) links = std::max(links, m_.cells[a][b].nvlinks);
      draft_.nvswitch_links.push_back(links);
    }
    draft_.notes.push_back(
        "NVLinks of all GPUs meet in NVSwitches, taken as one vertex: no GPU has links for so many peers of its own.");
  }

  /// GPUs without NVLinks among others that have them.
  void note_gpus_without() {
    std::vector<std::string> names;
    for (std::size_t a = 0; a < draft_.gpus.size(); ++a)
      if (std::all_of(m_.cells[a].begin(), m_.cells[a].end(), [](const Cell& c) { return c.nvlinks == 0; }))
        names.push_back(m_.devices[a].name);
    if (!names.empty())
      draft_.notes.push_back(
          fmt::format("Other GPUs share NVLinks, {} none: no bridge, or the links are not up "
                      "(`nvidia-smi nvlink --status`).",
                      fmt::join(names, ", ")));
  }

  /// A card may have no bridge; a module without its links is another model, or its switches don't work.
  void ask_for_nvlinks(int own) {
    if (own > 0 && draft_.gpus.size() > 1)
      draft_.notes.push_back(fmt::format(
          "No GPUs share NVLinks, and a {} has {}: is --gpu the right model? Else no bridge joins the "
          "cards, or the links are not up (`nvidia-smi nvlink --status`; NVSwitches need nv-fabricmanager).",
          gpu_.name, own));
  }

  /// Devices with a path inside one CPU share it. Where NVLink hides a pair's path, equal CPU affinity decides, unless
  /// it would join what is SYS apart.
  std::vector<std::vector<std::size_t>> cpu_classes() {
    Sets sets(m_.devices.size());
    const auto n = m_.devices.size();
    for (std::size_t a = 0; a < n; ++a)
      for (std::size_t b = a + 1; b < n; ++b)
        if (is(a, b, {PathType::pix, PathType::pxb, PathType::phb, PathType::node})) sets.join(a, b);
    auto apart = [&](std::size_t a, std::size_t b) {
      for (std::size_t i = 0; i < n; ++i)
        for (std::size_t j = 0; j < n; ++j)
          if (sets.find(i) == sets.find(a) && sets.find(j) == sets.find(b) && is(i, j, {PathType::sys})) return true;
      return false;
    };
    for (std::size_t a = 0; a < n; ++a)
      for (std::size_t b = a + 1; b < n; ++b) {
        if (!is(a, b, {PathType::nvlink}) || sets.find(a) == sets.find(b)) continue;
        const auto &x = m_.devices[a], &y = m_.devices[b];
        if (x.cores == y.cores && x.numa == y.numa && !apart(a, b)) sets.join(a, b);
      }
    return sets.classes();
  }

  void add_cpu(const std::vector<std::size_t>& members) {
    MachineDraft::Cpu cpu{static_cast<int>(draft_.cpus.size()), {}};
    for (std::size_t d : members)
      if (!m_.devices[d].is_nic) {
        cpu.cores = m_.devices[d].cores;
        if (smi_.has_numa && m_.devices[d].numa >= 0) cpu.numa = m_.devices[d].numa;
        break;
      }
    const int index = static_cast<int>(draft_.cpus.size());
    draft_.cpus.push_back(cpu);

    // Trees of switches: what PIX and PXB join. PHB joins trees below one host bridge.
    Sets trees(m_.devices.size()), bridges(m_.devices.size());
    for (std::size_t a : members)
      for (std::size_t b : members) {
        if (is(a, b, {PathType::pix, PathType::pxb})) trees.join(a, b), bridges.join(a, b);
        if (is(a, b, {PathType::phb})) bridges.join(a, b);
      }
    std::map<std::size_t, std::vector<std::size_t>> by_tree;
    for (std::size_t d : members) by_tree[trees.find(d)].push_back(d);
    std::map<std::size_t, int> bridge_of;
    for (std::size_t d : members) bridge_of.emplace(bridges.find(d), static_cast<int>(bridge_of.size()));
    for (const auto& [root, tree] : by_tree) add_tree(tree, index, bridge_of.at(bridges.find(root)));
  }

  void add_tree(const std::vector<std::size_t>& members, int cpu, int bridge) {
    if (members.size() == 1) {
      device(members[0]).parent = {false, cpu};
      device(members[0]).host_bridge = bridge;
      return;
    }
    Sets leaves(m_.devices.size());
    for (std::size_t a : members)
      for (std::size_t b : members)
        if (is(a, b, {PathType::pix})) leaves.join(a, b);
    std::map<std::size_t, std::vector<std::size_t>> by_leaf;
    for (std::size_t d : members) by_leaf[leaves.find(d)].push_back(d);
    MachineDraft::Parent above{false, cpu};
    if (by_leaf.size() > 1) {
      above = {true, static_cast<int>(draft_.switches.size())};
      draft_.switches.push_back({{false, cpu}, slot_, bridge});
    }
    for (const auto& [root, leaf] : by_leaf) {
      const MachineDraft::Parent here{true, static_cast<int>(draft_.switches.size())};
      draft_.switches.push_back({above, slot_, above.is_switch ? -1 : bridge});
      for (std::size_t d : leaf) device(d).parent = here;
    }
  }

  MachineDraft::Device& device(std::size_t d) { return (m_.devices[d].is_nic ? draft_.nics : draft_.gpus)[place_[d]]; }

  const SmiTopology& smi_;
  const TopologyMatrix& m_;
  const GpuSpec& gpu_;
  std::string origin_;
  MachineDraft::Slot slot_;
  MachineDraft draft_;
  std::vector<std::size_t> place_;  ///< Index among the GPUs, or among the NICs.
};

}  // namespace

MachineDraft draft_of(const SmiTopology& smi, const GpuSpec& gpu, const std::string& origin) {
  return Inference(smi, gpu, origin).run();
}

}  // namespace rehearse
