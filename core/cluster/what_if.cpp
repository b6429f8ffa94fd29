#include <string_view>

#include <fmt/format.h>

#include "core/base/error.hpp"
#include "core/cluster/cluster_impl.hpp"

namespace rehearse {

namespace {

/// '*' stands for any text.
bool matches(std::string_view pattern, std::string_view text) {
  const std::size_t star = pattern.find('*');
  if (star == std::string_view::npos) return pattern == text;
  if (text.substr(0, star) != pattern.substr(0, star)) return false;
  const std::string_view rest = pattern.substr(star + 1);
  for (std::size_t at = star; at <= text.size(); ++at)
    if (matches(rest, text.substr(at))) return true;
  return false;
}

}  // namespace

int Cluster::scale_links(const std::string& name, double factor) {
  int found = 0;
  for (LinkId l = 0; l < link_count(); ++l) {
    if (!matches(name, link(l).name)) continue;
    ++found;
    if (factor == 1) continue;
    double& scale = impl_->scaled.try_emplace(l, 1.0).first->second;
    scale *= factor;
    if (scale == 1) impl_->scaled.erase(l);
  }
  return found;
}

void Cluster::fail_nic(NodeId node, int nic) {
  if (node < 0 || node >= node_count())
    throw Error(ErrorKind::usage, fmt::format("no node {}", node), {},
                fmt::format("nodes are 0 to {}", node_count() - 1));
  const MachineSpec& m = machine(node);
  if (nic < 0 || nic >= m.nics)
    throw Error(ErrorKind::usage, fmt::format("no NIC {} on node {}", nic, node), {},
                m.nics > 0 ? fmt::format("its NICs are 0 to {}", m.nics - 1) : "the machine has none");
  impl_->failed_nics.emplace(node, nic);
  const DeviceId first = first_device(node);
  (void)impl_->sender(impl_->place(first));
}

int Cluster::Impl::sender(const Place& place) const {
  if (failed_nics.empty()) return place.local;
  const int gpus = place.block->machine->gpus;
  for (int distance = 0; distance < gpus; ++distance)
    for (const int other : {place.local - distance, place.local + distance})
      if (other >= 0 && other < gpus && !failed_nics.contains({place.node, place.block->routes.nic_of(other)}))
        return other;
  throw Error(ErrorKind::infeasible, fmt::format("node {} has no NIC left", place.node), {},
              "fail another node's, or fewer");
}

}  // namespace rehearse
