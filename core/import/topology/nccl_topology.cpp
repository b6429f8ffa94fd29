#include <algorithm>
#include <charconv>
#include <map>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/base/error.hpp"
#include "core/base/index.hpp"
#include "core/import/topology/nccl_xml.hpp"

namespace rehearse {
namespace {

constexpr int kNcclTopologyMostDevices = 1024;  ///< GPUs, or NICs, of one machine file.
constexpr int kMostCpus = 256;

/// Where an element is and what it says, for errors.
struct At {
  const std::string& origin;
  const XmlElement& element;
  [[noreturn]] void fail(const std::string& what, const std::string& hint = {}) const {
    throw Error(ErrorKind::usage, fmt::format("<{}>: {}", element.name, what),
                fmt::format("{}:{}", origin, element.line), hint);
  }
  [[nodiscard]] int integer(const std::string& attribute, int low, int high, int fallback) const {
    if (!element.has(attribute)) return fallback;
    const std::string text = element.text(attribute);
    int value = 0;
    const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (failed != std::errc{} || end != text.data() + text.size() || value < low || value > high)
      fail(fmt::format("{}=\"{}\" is no whole number from {} to {}", attribute, text, low, high));
    return value;
  }
};

/// The class of a PCI device as a number: "0x030200".
unsigned class_of(const XmlElement& pci) {
  return static_cast<unsigned>(std::strtoul(pci.text("class", "0").c_str(), nullptr, 16));
}
bool is_gpu_class(const XmlElement& pci) { return class_of(pci) >> 16 == 0x03; }

/// "32.0 GT/s PCIe" and a width, as NCCL reads them (graph/topo.cc): an unknown speed counts as generation 3, no width
/// as 16 lanes.
MachineDraft::Slot slot_of(const At& at) {
  const double speed = std::strtod(at.element.text("link_speed").c_str(), nullptr);
  constexpr std::pair<double, int> kSpeeds[] = {{2.5, 1}, {5, 2}, {8, 3}, {16, 4}, {32, 5}, {64, 6}};
  MachineDraft::Slot slot{3, at.integer("link_width", 0, 32, 0)};
  for (const auto& [transfers, generation] : kSpeeds)
    if (speed == transfers) slot.generation = generation;
  if (slot.lanes == 0 || slot.lanes > 16) slot.lanes = 16;
  return slot;
}

/// "00000000,0000ffff,ffffffff" as a list of cores: "0-47".
std::string cores_of(const std::string& mask) {
  std::vector<bool> bits;
  for (auto it = mask.rbegin(); it != mask.rend(); ++it) {
    if (*it == ',') continue;
    const int digit = std::isxdigit(static_cast<unsigned char>(*it)) ? std::stoi(std::string(1, *it), nullptr, 16) : 0;
    for (int b = 0; b < 4; ++b) bits.push_back((digit >> b & 1) != 0);
  }
  bits.push_back(false);
  std::vector<std::string> ranges;
  for (std::size_t i = 0; i < bits.size(); ++i) {
    if (!bits[i]) continue;
    const std::size_t first = i;
    while (bits[i + 1]) ++i;
    ranges.push_back(i == first ? std::to_string(i) : fmt::format("{}-{}", first, i));
  }
  return fmt::format("{}", fmt::join(ranges, ","));
}

/// NCCL's rule for the link between two CPUs (graph/topo.cc), as entries of interconnects.json.
std::string socket_link_of(const std::string& vendor, int family, int model) {
  if (vendor == "amd") return "xgmi_rome";
  if (vendor == "arm") return "clink_grace";
  if (vendor == "power") return "xbus_power9";
  if (family == 6 && model >= 0xCF) return "upi_emerald_rapids";
  if (family == 6 && model >= 0x8F) return "upi_sapphire_rapids";
  if (family == 6 && model >= 0x55) return "upi_skylake";
  return "qpi_broadwell";
}

/// Elements for which `test` holds, `element` among them.
template <class Test>
int count(const XmlElement& element, const Test& test) {
  int found = test(element) ? 1 : 0;
  for (const auto& child : element.children) found += count(child, test);
  return found;
}

class Reader {
 public:
  Reader(const XmlElement& system, const std::string& origin, const ImportOptions& options, const GpuSpec& gpu)
      : system_(system), origin_(origin), options_(options), gpu_(gpu) {}

  MachineDraft run() {
    if (count(system_, [](const XmlElement& e) { return e.name == "gpu"; }) == 0) refuse_without_gpus();
    for (const XmlElement& cpu : system_.children)
      if (cpu.name == "cpu") read_cpu(cpu);
    if (found_gpus_.empty()) at(system_).fail("a <gpu> outside <cpu> and <pci>");
    order_gpus();
    keep_fastest_nics();
    for (const auto& found : found_gpus_) read_nvlinks(found);
    place_nvlinks();
    add_notes();
    return std::move(draft_);
  }

 private:
  struct FoundGpu {
    int dev;
    std::string busid;
    MachineDraft::Device device;
    const XmlElement* element;
  };
  struct FoundNic {
    int dev;
    double speed;  ///< Mb/s.
    bool gdr;
    MachineDraft::Device device;
  };

  [[nodiscard]] At at(const XmlElement& element) const { return {origin_, element}; }

  [[noreturn]] void refuse_without_gpus() const {
    const int classes = count(system_, [](const XmlElement& e) { return e.name == "pci" && is_gpu_class(e); });
    at(system_).fail(classes > 0
                         ? fmt::format("a template without GPUs: {} PCI devices of class GPU, but no <gpu>", classes)
                         : "no <gpu>: a template without GPUs",
                     "NCCL fills such templates in at run time: run it once with NCCL_TOPO_DUMP_FILE=topology.xml and "
                     "import that file");
  }
  void read_cpu(const XmlElement& cpu) {
    if (static_cast<int>(draft_.cpus.size()) == kMostCpus) at(cpu).fail(fmt::format("more than {} CPUs", kMostCpus));
    const int index = static_cast<int>(draft_.cpus.size());
    draft_.cpus.push_back({std::max(0, at(cpu).integer("numaid", -1, 4095, index)), cores_of(cpu.text("affinity"))});
    if (index == 0) read_cpu_model(cpu);
    for (const XmlElement& child : cpu.children) {
      if (child.name == "pci") read_pci(child, {false, index});
      if (child.name == "nic") read_nic(child, {false, index}, {gpu_.pcie.generation, 16});
    }
  }

  void read_cpu_model(const XmlElement& cpu) {
    static const std::map<std::string, std::string> kVendors{
        {"GenuineIntel", "intel"}, {"AuthenticAMD", "amd"}, {"CentaurHauls", "zhaoxin"}, {"  Shanghai  ", "zhaoxin"}};
    const std::string arch = cpu.text("arch"), vendor = cpu.text("vendor");
    if (arch == "arm64")
      draft_.cpu_vendor = "arm";
    else if (arch == "ppc64")
      draft_.cpu_vendor = "power";
    else if (const auto it = kVendors.find(vendor); it != kVendors.end())
      draft_.cpu_vendor = it->second;
    else
      at(cpu).fail(vendor.empty() ? "the vendor of the CPU is not stated"
                                  : fmt::format("unknown vendor '{}' of the CPU", vendor),
                   "a template? import what NCCL_TOPO_DUMP_FILE writes");
    const int family = at(cpu).integer("familyid", 0, 100'000, 0), model = at(cpu).integer("modelid", 0, 100'000, 0);
    draft_.cpu_model = fmt::format("{} family {} model {}", vendor.empty() ? arch : vendor, family, model);
    draft_.socket_link = socket_link_of(draft_.cpu_vendor, family, model);
  }

  void read_pci(const XmlElement& pci, const MachineDraft::Parent& parent) {
    const MachineDraft::Slot slot = slot_of(at(pci));
    if (!busids_.insert(pci.text("busid")).second)
      at(pci).fail(fmt::format("two devices have busid '{}'", pci.text("busid")));
    bool device = false;
    for (const XmlElement& child : pci.children) {
      if (child.name == "gpu") read_gpu(child, pci, parent, slot), device = true;
      if (child.name == "nic") read_nic(child, parent, slot), device = true;
    }
    const bool bridge = class_of(pci) >> 8 == 0x0604 || std::any_of(pci.children.begin(), pci.children.end(),
                                                                    [](const auto& c) { return c.name == "pci"; });
    if (device || !bridge) return;
    if (static_cast<int>(draft_.switches.size()) == kNcclTopologyMostDevices)
      at(pci).fail(fmt::format("more than {} PCIe switches", kNcclTopologyMostDevices));
    const int index = static_cast<int>(draft_.switches.size());
    switch_at_[pci.text("busid")] = index;
    draft_.switches.push_back({parent, slot, -1});
    if (slot.generation == 1 && slot.lanes == 1) virtual_switches_.push_back(pci.text("busid"));
    for (const XmlElement& child : pci.children) {
      if (child.name == "pci") read_pci(child, {true, index});
      if (child.name == "pcilink")
        if (const auto other = switch_at_.find(child.text("target")); other != switch_at_.end()) {
          if (other->second == index) at(child).fail("a switch linked to itself");
          draft_.switch_links.emplace_back(other->second, index);
        }
    }
  }

  void read_gpu(const XmlElement& gpu, const XmlElement& pci, const MachineDraft::Parent& parent,
                MachineDraft::Slot slot) {
    if (static_cast<int>(found_gpus_.size()) == kNcclTopologyMostDevices)
      at(gpu).fail(fmt::format("more than {} GPUs", kNcclTopologyMostDevices));
    const int sm = at(gpu).integer("sm", 0, 10'000, 0);
    if (gpu_.compute_capability != 0 && sm != 0 && sm / 10 != gpu_.compute_capability / 10)
      at(gpu).fail(fmt::format("compute capability {}.{}, but a {} has {}.{}", sm / 10, sm % 10, gpu_.name,
                               gpu_.compute_capability / 10, gpu_.compute_capability % 10),
                   "is --gpu the right model?");
    found_gpus_.push_back({at(gpu).integer("dev", 0, 100'000, static_cast<int>(found_gpus_.size())),
                           pci.text("busid"),
                           {parent, slot, -1, {}},
                           &gpu});
  }

  void read_nic(const XmlElement& nic, const MachineDraft::Parent& parent, MachineDraft::Slot slot) {
    for (const XmlElement& net : nic.children) {
      if (net.name != "net") continue;
      if (static_cast<int>(found_nics_.size()) == kNcclTopologyMostDevices)
        at(net).fail(fmt::format("more than {} NICs", kNcclTopologyMostDevices));
      const int speed = at(net).integer("speed", 1, 100'000'000, 10'000);
      found_nics_.push_back({at(net).integer("dev", 0, 100'000, static_cast<int>(found_nics_.size())),
                             static_cast<double>(speed),
                             net.text("gdr", "0") == "1",
                             {parent, slot, -1, net.text("name")}});
    }
  }

  void order_gpus() {
    std::stable_sort(found_gpus_.begin(), found_gpus_.end(),
                     [](const auto& a, const auto& b) { return a.dev < b.dev; });
    for (std::size_t i = 0; i < found_gpus_.size(); ++i) {
      if (i > 0 && found_gpus_[i].dev == found_gpus_[i - 1].dev)
        at(*found_gpus_[i].element).fail(fmt::format("two GPUs have dev {}", found_gpus_[i].dev));
      index_of_[found_gpus_[i].busid] = static_cast<int>(i);
      draft_.gpus.push_back(found_gpus_[i].device);
    }
  }

  /// A machine has NICs of one speed: the fastest stay.
  void keep_fastest_nics() {
    std::stable_sort(found_nics_.begin(), found_nics_.end(),
                     [](const auto& a, const auto& b) { return a.dev < b.dev; });
    double fastest = 0;
    for (const auto& nic : found_nics_) fastest = std::max(fastest, nic.speed);
    std::vector<std::string> left_out;
    draft_.gpudirect_rdma = true;
    for (const auto& nic : found_nics_) {
      if (nic.speed < fastest) {
        left_out.push_back(nic.device.device);
        continue;
      }
      draft_.gpudirect_rdma = draft_.gpudirect_rdma && nic.gdr;
      draft_.nics.push_back(nic.device);
    }
    draft_.nic_rate = BytesPerSecond{fastest * 1e6 / 8};
    draft_.nic_name = fmt::format("NIC of {:g} Gb/s", fastest / 1000);
    if (!left_out.empty())
      draft_.notes.push_back(
          fmt::format("NICs slower than {:g} Gb/s are left out: {}.", fastest / 1000, fmt::join(left_out, ", ")));
  }

  void read_nvlinks(const FoundGpu& gpu) {
    const int me = index_of_.at(gpu.busid);
    for (const XmlElement& link : gpu.element->children) {
      if (link.name == "c2c") {
        const int count = at(link).integer("count", 1, 1024, 1), rate = at(link).integer("bw", 1, 100'000'000, 1);
        draft_.c2c.push_back({me, cpu_of(gpu.device.parent), BytesPerSecond{1e6 * rate * count}});
      }
      if (link.name != "nvlink") continue;
      const int count = at(link).integer("count", 1, 1024, 1);
      const auto kind = std::strtoul(link.text("tclass", "0").c_str(), nullptr, 16);
      if (kind >> 8 == 0x0680) {
        switch_links_[me] += count;
        chips_.insert(link.text("target"));
      } else if (const auto other = index_of_.find(link.text("target")); other == index_of_.end()) {
        at(link).fail(fmt::format("an NVLink to '{}', which is no GPU of this file", link.text("target")),
                      "a part of a topology? import the whole file");
      } else if (other->second == me) {
        to_themselves_.push_back(fmt::format("GPU{}", me));
      } else {
        add_pair(link, std::minmax(me, other->second), count);
      }
    }
  }

  void add_pair(const XmlElement& link, std::pair<int, int> pair, int count) {
    const auto [known, fresh] = pairs_.emplace(pair, count);
    if (!fresh && known->second != count)
      at(link).fail(fmt::format("GPU{} and GPU{} state {} and {} NVLinks to each other", pair.first, pair.second,
                                known->second, count));
  }

  void add_notes() {
    if (!to_themselves_.empty())
      draft_.notes.push_back(fmt::format("NVLinks from a GPU to itself carry nothing and are left out: {}.",
                                         fmt::join(to_themselves_, ", ")));
    if (!virtual_switches_.empty())
      draft_.notes.push_back(fmt::format(
          "Uplinks stated as PCIe 1 x1, usual for virtual switches, are taken as they stand, as NCCL does: {}.",
          fmt::join(virtual_switches_, ", ")));
  }

  [[nodiscard]] int cpu_of(MachineDraft::Parent p) const {
    while (p.is_switch) p = nth(draft_.switches, p.index).parent;
    return p.index;
  }

  void place_nvlinks() {
    using Nvlinks = ImportOptions::Nvlinks;
    const bool named = !pairs_.empty() || !switch_links_.empty() || !to_themselves_.empty();
    if (!named && gpu_.nvlink && options_.nvlinks == Nvlinks::as_stated && draft_.gpus.size() > 1)
      at(system_).fail(
          fmt::format("no NVLink is named, but a {} has {}: a template that NCCL completes at run time", gpu_.name,
                      gpu_.nvlink->links),
          "give --nvlinks switch (all go to NVSwitches) or --nvlinks none; or import what NCCL_TOPO_DUMP_FILE writes");
    if (options_.nvlinks == Nvlinks::none) return;
    for (const auto& [pair, count] : pairs_) draft_.nvlink_pairs.push_back({pair.first, pair.second, count});
    if (!named && options_.nvlinks == Nvlinks::to_switch) {
      if (!gpu_.nvlink) at(system_).fail(fmt::format("--nvlinks switch, but a {} has no NVLink", gpu_.name));
      draft_.nvswitch_links.assign(draft_.gpus.size(), gpu_.nvlink->links);
      draft_.notes.push_back("NVLinks are not in the file: all are taken to go to NVSwitches, as --nvlinks says.");
    }
    if (switch_links_.empty()) return;
    draft_.nvswitch_links.assign(draft_.gpus.size(), 0);
    for (const auto& [gpu, count] : switch_links_) nth(draft_.nvswitch_links, gpu) = count;
    draft_.nvswitch_chips = static_cast<int>(chips_.size());
  }

  const XmlElement& system_;
  const std::string& origin_;
  const ImportOptions& options_;
  const GpuSpec& gpu_;
  MachineDraft draft_;
  std::vector<FoundGpu> found_gpus_;
  std::vector<FoundNic> found_nics_;
  std::set<std::string> busids_, chips_;
  std::map<std::string, int> index_of_, switch_at_;
  std::map<int, int> switch_links_;
  std::map<std::pair<int, int>, int> pairs_;
  std::vector<std::string> virtual_switches_, to_themselves_;
};

/// AMD's RCCL writes the same element names with another meaning.
void refuse_amd(const XmlElement& system, const std::string& origin) {
  const int links = count(system, [](const XmlElement& e) { return e.name == "xgmi"; });
  const int gpus = count(system, [](const XmlElement& e) { return e.name == "gpu" && e.has("gcn"); });
  if (links == 0 && gpus == 0 && system.text("version") != "2") return;
  At{origin, system}.fail(fmt::format("a topology of AMD's RCCL (version {}): {} AMD GPUs, {} xgmi links",
                                      system.text("version", "1"), gpus, links),
                          "AMD GPUs and xgmi are not in the catalogue");
}

void collect_devices(const XmlElement& element, std::set<std::string>& ids) {
  const bool gpu =
      std::any_of(element.children.begin(), element.children.end(), [](const auto& c) { return c.name == "gpu"; });
  if (element.name == "pci" && gpu && element.has("device")) ids.insert(element.text("device"));
  for (const auto& child : element.children) collect_devices(child, ids);
}

}  // namespace

std::string gpu_of_nccl_topology(const XmlElement& system, const std::string& origin, const ImportOptions& options,
                                 const Catalogue& catalogue) {
  refuse_amd(system, origin);
  if (!options.gpu.empty()) return options.gpu;
  std::set<std::string> ids;
  collect_devices(system, ids);
  for (const std::string& id : catalogue.names(Catalogue::Kind::gpu))
    for (const std::string& known : catalogue.gpu(id)->pci_devices)
      if (ids.contains(known)) return id;
  return {};
}

MachineDraft draft_of_nccl_topology(const XmlElement& system, const std::string& origin, const ImportOptions& options,
                                    const Catalogue& catalogue) {
  const std::string model = gpu_of_nccl_topology(system, origin, options, catalogue);
  static const GpuSpec kUnknown;
  const auto spec = model.empty() ? nullptr : catalogue.gpu(model);
  MachineDraft draft = Reader(system, origin, options, spec ? *spec : kUnknown).run();
  if (model.empty()) {
    std::set<std::string> ids;
    collect_devices(system, ids);
    throw Error(ErrorKind::usage,
                ids.empty() ? "the file does not say which GPU model this is"
                            : fmt::format("no GPU here has the PCI device id {}", fmt::join(ids, ", ")),
                origin, "give its model: --gpu ID, one of 'rehearse list gpus'");
  }
  draft.gpu = model;
  draft.nvls = !draft.nvswitch_links.empty() && spec->compute_capability >= 90;
  return draft;
}

}  // namespace rehearse
