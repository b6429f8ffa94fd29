#include "core/collective/nccl/pcie_tree.hpp"

#include <algorithm>
#include <deque>
#include <numeric>
#include <utility>

namespace rehearse::nccl {
namespace {

using PcieTreeKind = MachineSpec::VertexKind;
using PcieTreeLinkKind = MachineSpec::LinkKind;

class Planter {
 public:
  explicit Planter(const MachineSpec& m) : m_(m), lowest_(m.vertices.size()) {
    out_.children.resize(m.vertices.size());
    out_.host.resize(m.vertices.size());
  }

  PcieTree run() {
    hang();
    for (const int cpu : out_.roots) sort_below(cpu);
    std::stable_sort(out_.roots.begin(), out_.roots.end(), [&](int a, int b) { return lowest(a) < lowest(b); });
    number_hosts();
    return std::move(out_);
  }

 private:
  using Rank = std::pair<int, int>;  // lowest GPU, lowest NIC
  static constexpr int kNone = std::numeric_limits<int>::max();

  [[nodiscard]] const Rank& lowest(int v) const { return lowest_[std::size_t(v)]; }
  [[nodiscard]] PcieTreeKind kind(int v) const { return m_.vertices[std::size_t(v)].kind; }

  void hang() {
    std::vector<bool> seen(m_.vertices.size(), false);
    std::deque<int> queue;
    for (int v = 0; v < int(m_.vertices.size()); ++v)
      if (kind(v) == PcieTreeKind::cpu) {
        seen[std::size_t(v)] = true;
        out_.roots.push_back(v);
        queue.push_back(v);
      }
    for (; !queue.empty(); queue.pop_front()) {
      for (int l = 0; l < int(m_.links.size()); ++l) {
        const auto& link = m_.links[std::size_t(l)];
        if (link.kind != PcieTreeLinkKind::pcie || (link.a != queue.front() && link.b != queue.front())) continue;
        const int below = link.a == queue.front() ? link.b : link.a;
        if (seen[std::size_t(below)]) continue;
        seen[std::size_t(below)] = true;
        out_.children[std::size_t(queue.front())].push_back({below, l});
        queue.push_back(below);
      }
    }
  }

  void sort_below(int v) {
    Rank best{kNone, kNone};
    const int index = m_.vertices[std::size_t(v)].index;
    if (kind(v) == PcieTreeKind::gpu) best.first = index;
    if (kind(v) == PcieTreeKind::nic) best.second = index;
    auto& children = out_.children[std::size_t(v)];
    for (const auto& c : children) {
      sort_below(c.vertex);
      best = {std::min(best.first, lowest(c.vertex).first), std::min(best.second, lowest(c.vertex).second)};
    }
    std::stable_sort(children.begin(), children.end(),
                     [&](const auto& a, const auto& b) { return lowest(a.vertex) < lowest(b.vertex); });
    lowest_[std::size_t(v)] = best;
  }

  void number_hosts() {
    std::vector<int> group(m_.vertices.size());
    std::iota(group.begin(), group.end(), 0);
    const auto root = [&](int v) {
      while (group[std::size_t(v)] != v) v = group[std::size_t(v)];
      return v;
    };
    for (const auto& l : m_.links)
      if (l.kind != PcieTreeLinkKind::nvlink) group[std::size_t(root(l.a))] = root(l.b);
    std::vector<int> numbers(m_.vertices.size(), -1);
    out_.hosts = 0;
    const auto number = [&](int v) {
      int& n = numbers[std::size_t(root(v))];
      if (n < 0) n = out_.hosts++;
      return n;
    };
    for (const int cpu : out_.roots) number(cpu);
    const int with_cpu = out_.hosts;
    for (int v = 0; v < int(m_.vertices.size()); ++v) out_.host[std::size_t(v)] = number(v);
    out_.hosts = std::max(with_cpu, 1);
  }

  const MachineSpec& m_;
  PcieTree out_;
  std::vector<Rank> lowest_;
};

}  // namespace

PcieTree pcie_tree_of(const MachineSpec& machine) { return Planter(machine).run(); }

}  // namespace rehearse::nccl
