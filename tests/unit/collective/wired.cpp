#include "wired.hpp"
#include "tests/support/source_path.hpp"

#include <algorithm>
#include <cmath>
#include <fstream>

#include <nlohmann/json.hpp>

namespace wired {
namespace {

using namespace rehearse;
using namespace rehearse::nccl;
using nlohmann::json;
using WiredKind = MachineSpec::VertexKind;
using WiredLinkKind = MachineSpec::LinkKind;

double brick(int cc) { return cc >= 100 ? 40.1 : cc >= 90 ? 20.6 : cc == 86 ? 12 : cc >= 70 ? 20 : 18; }

/// Parents in the file: a PCIe switch by its number, CPU c as -(c + 1).
class WiredBuilder {
 public:
  explicit WiredBuilder(const json& j) : j_(j) {}

  MachineSpec run() {
    m_.id = m_.name = "made up";
    m_.gpus = int(j_.at("gpus").size());
    m_.nics = int(j_.at("nics").size());
    m_.cpu_vendor = j_.at("cpu");
    m_.sockets = j_.at("cpus");
    m_.nic = {"nic", BytesPerSecond{j_.at("nic").get<double>() * 1e9}};
    m_.peer_to_peer = j_.at("p2p").get<int>() != 0;
    m_.gpudirect_rdma = j_.at("gdr").get<int>() != 0;
    m_.nvls = j_.at("nvls").get<int>() != 0;
    for (int i = 0; i < m_.gpus; ++i) add(WiredKind::gpu, "GPU", i);
    for (int i = 0; i < m_.sockets; ++i) cpus_.push_back(add(WiredKind::cpu, "CPU", i));
    for (int i = 0; i < int(j_.at("plx").size()); ++i) switches_.push_back(add(WiredKind::pcie_switch, "PLX", i));
    for (std::size_t i = 0; i < switches_.size(); ++i) hang(switches_[i], j_.at("plx")[i]);
    for (int i = 0; i < m_.gpus; ++i) hang(i, j_.at("gpus")[std::size_t(i)]);
    for (int i = 0; i < m_.nics; ++i) hang(add(WiredKind::nic, "NIC", i), j_.at("nics")[std::size_t(i)]);
    for (std::size_t a = 0; a < cpus_.size(); ++a)
      for (std::size_t b = a + 1; b < cpus_.size(); ++b)
        link(cpus_[a], cpus_[b], WiredLinkKind::socket, 1, j_.at("socket"));
    const double per_link = brick(j_.at("cc"));
    for (const auto& row : j_.at("nvl")) link(row[0], row[1], WiredLinkKind::nvlink, row[2], per_link);
    if (!j_.at("nvs").empty()) {
      const int nvswitch = add(WiredKind::nvswitch, "NVSwitch", 0);
      for (int i = 0; i < m_.gpus; ++i)
        if (const int count = j_.at("nvs")[std::size_t(i)]; count > 0)
          link(i, nvswitch, WiredLinkKind::nvlink, count, per_link);
    }
    for (const auto& row : j_.at("c2c")) link(row[0], cpus_[row[1].get<std::size_t>()], WiredLinkKind::c2c, 1, row[2]);
    return m_;
  }

 private:
  int add(WiredKind kind, const char* name, int index) {
    m_.vertices.push_back({kind, name + std::to_string(index), index});
    return int(m_.vertices.size()) - 1;
  }
  void link(int a, int b, WiredLinkKind kind, int count, double per_link) {
    const BytesPerSecond rate{per_link * count * 1e9};
    m_.links.push_back({a, b, kind, count, rate, rate, {}});
  }
  void hang(int v, const json& row) {
    const int parent = row[0];
    link(v, parent < 0 ? cpus_[std::size_t(-parent - 1)] : switches_[std::size_t(parent)], WiredLinkKind::pcie, 1,
         row[1]);
  }

  const json& j_;
  MachineSpec m_;
  std::vector<int> cpus_, switches_;
};

GraphResult graph_wired(const json& j) {
  return {j[0],
          BytesPerSecond{j[1].get<double>() * 1e9},
          BytesPerSecond{j[2].get<double>() * 1e9},
          static_cast<PathClass>(j[3].get<int>()),
          static_cast<PathClass>(j[4].get<int>()),
          j[5].get<int>() != 0};
}

bool same(const GraphResult& a, const GraphResult& b) {
  if (a.channels == 0 || b.channels == 0) return a.channels == b.channels;
  const auto near = [](BytesPerSecond x, BytesPerSecond y) {
    return std::abs(x.value() - y.value()) <= 1e-4 * y.value();
  };
  return a.channels == b.channels && near(a.intra, b.intra) && near(a.inter, b.inter) && a.intra_path == b.intra_path &&
         a.inter_path == b.inter_path && a.same_channels == b.same_channels;
}

std::string show(const GraphResult& g) {
  return std::to_string(g.channels) + " x " + std::to_string(g.intra.value() / 1e9) + "/" +
         std::to_string(g.inter.value() / 1e9) + " class " + std::to_string(int(g.intra_path)) + "/" +
         std::to_string(int(g.inter_path)) + (g.same_channels ? " same" : "");
}

}  // namespace

std::vector<Case> cases(const std::string& file) {
  std::ifstream in(rehearse::testing::source_path("tests/unit/collective/data/") + file);
  const json data = json::parse(in);
  std::vector<Case> out;
  for (const auto& j : data.at("machines")) {
    Case c;
    c.name = j.value("name", "made up");
    c.change = j.value("change", "");
    c.machine = WiredBuilder(j).run();
    c.gpu.compute_capability = j.at("cc");
    for (const auto& row : j.at("runs")) {
      Run run;
      for (const char digit : row[0].get<std::string>())
        run.gpus.push_back(digit <= '9' ? digit - '0' : digit - 'a' + 10);
      run.leaves_node = row[1].get<int>() != 0;
      run.result.parts = row[2];
      run.result.ring = graph_wired(row[3]);
      run.result.tree = graph_wired(row[4]);
      run.result.tree_pattern = static_cast<TreePattern>(row[4][6].get<int>());
      run.result.nvls = graph_wired(row[5]);
      c.runs.push_back(std::move(run));
    }
    out.push_back(std::move(c));
  }
  return out;
}

bool same(const NodeSearch& a, const NodeSearch& b) {
  return same(a.ring, b.ring) && same(a.tree, b.tree) && same(a.nvls, b.nvls) && a.tree_pattern == b.tree_pattern &&
         a.parts == b.parts;
}

std::string show(const NodeSearch& s) {
  return "ring " + show(s.ring) + ", tree " + show(s.tree) + (s.tree_pattern == TreePattern::chain ? " chain" : "") +
         ", nvls " + show(s.nvls) + ", parts " + std::to_string(s.parts);
}

MachineSpec renumbered(const MachineSpec& m, const std::vector<int>& gpus, const std::vector<int>& nics) {
  MachineSpec out = m;
  out.id = out.name = "another name";
  const int last = int(m.vertices.size()) - 1;
  std::reverse(out.vertices.begin(), out.vertices.end());
  for (auto& v : out.vertices) {
    v.name = "vertex " + v.name;
    if (v.kind == WiredKind::gpu) v.index = gpus[std::size_t(v.index)];
    if (v.kind == WiredKind::nic) v.index = nics[std::size_t(v.index)];
  }
  std::reverse(out.links.begin(), out.links.end());
  for (auto& l : out.links) {
    l.a = last - l.a;
    l.b = last - l.b;
  }
  return out;
}

}  // namespace wired
