#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "core/base/error.hpp"
#include "core/fleet/quota.hpp"

namespace rehearse::fleet {

Amounts amounts_of(const Holding& held) {
  Amounts out;
  for (const Slice& s : held.slices) out.gpu_milli += s.milli;
  for (const Holding::Host& h : held.hosts) out.cpu_milli += h.cpu_milli, out.memory_mib += h.memory_mib;
  return out;
}

void QuotaTree::use(int node, const Amounts& amounts) {
  for (int n = node; n >= 0; n = (*this)[n].parent) {
    (*this)[n].used += amounts.gpu_milli;
    (*this)[n].held += amounts;
  }
}

void QuotaTree::ask(int node, std::int64_t milli) {
  for (int n = node; n >= 0; n = (*this)[n].parent) (*this)[n].asked += milli;
}

QuotaTree make_quota_tree(const std::vector<Queue>& queues, const Amounts& capacity) {
  QuotaTree tree;
  tree.capacity = capacity;
  tree.nodes.resize(queues.size() + 1);
  tree[0].settings.name = "the cluster";
  tree[0].settings.limit = static_cast<double>(capacity.gpu_milli) / kWholeGpu;
  std::map<std::string, int> index;
  std::vector<std::string> names;
  for (std::size_t q = 0; q < queues.size(); ++q) {
    index[queues[q].name] = static_cast<int>(q) + 1;
    names.push_back(queues[q].name);
  }
  for (std::size_t q = 0; q < queues.size(); ++q) {
    QuotaTree::Node& n = tree.nodes[q + 1];
    n.settings = queues[q];
    const std::string& parent = queues[q].parent;
    if (!parent.empty() && !index.contains(parent)) {
      Error e = unknown_name("queue", parent, names);
      e.where = queues[q].where + "/parent";
      throw e;
    }
    n.parent = parent.empty() ? 0 : index[parent];
    tree[n.parent].children.push_back(static_cast<int>(q) + 1);
  }
  for (std::size_t q = 1; q < tree.nodes.size(); ++q) {
    std::size_t steps = 0;
    for (int n = static_cast<int>(q); n != 0; n = tree[n].parent)
      if (++steps > queues.size())
        refuse_at(tree.nodes[q].settings.where + "/parent",
                  fmt::format("queue '{}' is above itself", tree.nodes[q].settings.name),
                  "parents form a tree: let one of the circle have none");
  }
  return tree;
}

}  // namespace rehearse::fleet
