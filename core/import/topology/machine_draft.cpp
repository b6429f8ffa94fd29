#include "core/import/topology/machine_draft.hpp"

#include <algorithm>
#include <map>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/base/index.hpp"

namespace rehearse {
namespace {

using nlohmann::ordered_json;
using Parent = MachineDraft::Parent;
using Slot = MachineDraft::Slot;

constexpr const char* kSource = "import";

/// "62.5GB/s" with as many digits as it takes.
std::string rate_text_machine_draft(BytesPerSecond rate) {
  for (int digits = 1; digits <= 15; ++digits) {
    std::string text = to_string(rate, digits);
    std::erase(text, ' ');
    if (parse<BytesPerSecond>(text) == rate) return text;
  }
  return fmt::format("{}B/s", rate.value());
}

Slot most_common(const std::vector<MachineDraft::Device>& devices, Slot fallback) {
  std::map<std::pair<int, int>, int> count;
  for (const auto& d : devices) ++count[{d.slot.generation, d.slot.lanes}];
  int most = 0;
  for (const auto& [slot, n] : count)
    if (n > most) most = n, fallback = {slot.first, slot.second};
  return fallback;
}

ordered_json slot_json(Slot slot) { return {{"generation", slot.generation}, {"lanes", slot.lanes}}; }

class Writer {
 public:
  explicit Writer(const MachineDraft& draft)
      : draft_(draft), gpu_slot_(most_common(draft.gpus, {3, 16})), nic_slot_(most_common(draft.nics, gpu_slot_)) {}

  ordered_json file() {
    ordered_json out{
        {"schema", "rehearse/machine/v1"}, {"name", draft_.name}, {"gpu", draft_.gpu}, {"gpus", draft_.gpus.size()}};
    out["gpudirect_rdma"] = draft_.gpudirect_rdma;
    if (draft_.peer_to_peer) out["peer_to_peer"] = *draft_.peer_to_peer;
    out["nvls"] = draft_.nvls;
    out["cpu"] = {{"model", draft_.cpu_model}, {"vendor", draft_.cpu_vendor}, {"sockets", draft_.cpus.size()}};
    if (draft_.cpus.size() > 1) out["cpu"]["socket_link"] = draft_.socket_link;
    out["cpu"]["source"] = kSource;
    out["pcie"] = slot_json(gpu_slot_);
    out["pcie"]["source"] = kSource;
    if (!draft_.nics.empty()) out["nic"] = nic();
    out["wiring"] = wiring();
    if (!draft_.notes.empty()) out["notes"] = draft_.notes;
    out["sources"][kSource] = {{"text", draft_.source}, {"evidence", "published"}};
    return out;
  }

 private:
  ordered_json nic() const {
    ordered_json out{
        {"name", draft_.nic_name}, {"rate", rate_text_machine_draft(draft_.nic_rate)}, {"count", draft_.nics.size()}};
    bool named = std::all_of(draft_.nics.begin(), draft_.nics.end(), [](const auto& n) { return !n.device.empty(); });
    for (const auto& n : draft_.nics)
      if (named) out[draft_.nic_devices_are_names ? "names" : "devices"].push_back(n.device);
    if (!(nic_slot_ == gpu_slot_)) out["pcie"] = slot_json(nic_slot_);
    out["source"] = kSource;
    return out;
  }

  [[nodiscard]] std::string name_of(const Parent& p) const {
    return fmt::format("{}{}", p.is_switch ? "PLX" : "CPU", p.index);
  }
  [[nodiscard]] std::string nic_name(std::size_t i) const {
    return draft_.nic_devices_are_names ? draft_.nics[i].device : fmt::format("NIC{}", i);
  }

  void add_children(ordered_json& owner, const Parent& parent) {
    auto here = [&](const Parent& p) { return p.is_switch == parent.is_switch && p.index == parent.index; };
    for (std::size_t i = 0; i < draft_.gpus.size(); ++i)
      if (here(draft_.gpus[i].parent) && draft_.gpus[i].slot == gpu_slot_) owner["gpus"].push_back(i);
    for (std::size_t i = 0; i < draft_.nics.size(); ++i)
      if (here(draft_.nics[i].parent) && draft_.nics[i].slot == nic_slot_) owner["nics"].push_back(i);
  }

  ordered_json wiring() {
    ordered_json out = ordered_json::object();
    for (const auto& p : draft_.nvlink_pairs) out["nvlink_pairs"].push_back({p.a, p.b, p.count});
    add_nvswitch(out);
    for (std::size_t i = 0; i < draft_.switches.size(); ++i) {
      ordered_json entry{{"under", name_of(draft_.switches[i].parent)}};
      add_children(entry, {true, static_cast<int>(i)});
      if (!(draft_.switches[i].uplink == gpu_slot_)) entry["uplink"] = slot_json(draft_.switches[i].uplink);
      out["pcie_switches"].push_back(std::move(entry));
    }
    for (std::size_t i = 0; i < draft_.cpus.size(); ++i) out["cpus"].push_back(cpu(static_cast<int>(i)));
    add_links(out);
    out["source"] = kSource;
    return out;
  }

  void add_nvswitch(ordered_json& out) const {
    std::map<int, std::vector<int>> gpus_by_links;
    for (std::size_t i = 0; i < draft_.nvswitch_links.size(); ++i)
      if (draft_.nvswitch_links[i] > 0) gpus_by_links[draft_.nvswitch_links[i]].push_back(static_cast<int>(i));
    if (gpus_by_links.empty()) return;
    // One vertex for all chips: GPUs with as many links as most are listed, the others follow among the links.
    auto most = gpus_by_links.rbegin();
    ordered_json entry{{"chips", draft_.nvswitch_chips}, {"links_per_gpu", most->first}};
    if (most->second.size() < draft_.gpus.size()) entry["gpus"] = most->second;
    out["nvswitches"].push_back(std::move(entry));
    for (const auto& [links, gpus] : gpus_by_links)
      for (int gpu : gpus)
        if (links != most->first)
          out["links"].push_back(
              {{"a", fmt::format("GPU{}", gpu)}, {"b", "NVSwitch0"}, {"kind", "nvlink"}, {"count", links}});
  }

  ordered_json cpu(int index) {
    const auto& cpu = nth(draft_.cpus, index);
    ordered_json entry{{"numa", cpu.numa}};
    if (!cpu.cores.empty()) entry["cores"] = cpu.cores;
    add_children(entry, {false, index});
    std::map<int, std::vector<std::string>> bridges;
    auto note = [&](const Parent& parent, int bridge, const std::string& name) {
      if (!parent.is_switch && parent.index == index && bridge >= 0) bridges[bridge].push_back(name);
    };
    for (std::size_t i = 0; i < draft_.gpus.size(); ++i)
      note(draft_.gpus[i].parent, draft_.gpus[i].host_bridge, fmt::format("GPU{}", i));
    for (std::size_t i = 0; i < draft_.switches.size(); ++i)
      note(draft_.switches[i].parent, draft_.switches[i].host_bridge, fmt::format("PLX{}", i));
    for (std::size_t i = 0; i < draft_.nics.size(); ++i)
      note(draft_.nics[i].parent, draft_.nics[i].host_bridge, nic_name(i));
    for (const auto& [bridge, names] : bridges)
      if (names.size() > 1) entry["host_bridges"].push_back(names);
    return entry;
  }

  void add_links(ordered_json& out) const {
    auto add = [&out](const std::string& a, const std::string& b, Slot slot) {
      out["links"].push_back(
          {{"a", a}, {"b", b}, {"kind", "pcie"}, {"generation", slot.generation}, {"lanes", slot.lanes}});
    };
    for (std::size_t i = 0; i < draft_.gpus.size(); ++i)
      if (!(draft_.gpus[i].slot == gpu_slot_))
        add(fmt::format("GPU{}", i), name_of(draft_.gpus[i].parent), draft_.gpus[i].slot);
    for (std::size_t i = 0; i < draft_.nics.size(); ++i)
      if (!(draft_.nics[i].slot == nic_slot_)) add(nic_name(i), name_of(draft_.nics[i].parent), draft_.nics[i].slot);
    for (auto [a, b] : draft_.switch_links) add(fmt::format("PLX{}", a), fmt::format("PLX{}", b), gpu_slot_);
    for (const auto& c : draft_.c2c)
      out["links"].push_back({{"a", fmt::format("GPU{}", c.gpu)},
                              {"b", fmt::format("CPU{}", c.cpu)},
                              {"kind", "c2c"},
                              {"rate", rate_text_machine_draft(c.rate)}});
  }

  const MachineDraft& draft_;
  Slot gpu_slot_, nic_slot_;
};

}  // namespace

std::string machine_json(const MachineDraft& draft) { return Writer(draft).file().dump(2) + "\n"; }

std::string cluster_json(const std::string& name, const std::string& machine_file, int nodes,
                         const std::string& network, const std::string& source) {
  const ordered_json out{
      {"schema", "rehearse/cluster/v1"},
      {"name", name},
      {"parts", ordered_json::array({{{"machine", machine_file}, {"nodes", nodes}, {"source", kSource}}})},
      {"network", network},
      {"sources", {{kSource, {{"text", source}, {"evidence", "published"}}}}}};
  return out.dump(2) + "\n";
}

}  // namespace rehearse
