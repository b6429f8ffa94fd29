// The machines and clusters under topologies/ as the collective model sees them.

#include <map>

#include "core/cluster/make_cluster.hpp"
#include "core/collective/collective.hpp"
#include "core/collective/nccl/nccl_search.hpp"
#include "recorded.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/source_path.hpp"

using namespace rehearse;

namespace {

const Catalogue& catalogue_catalogue() {
  static const Catalogue c(rehearse::testing::source_path("topologies"));
  return c;
}

}  // namespace

TEST_CASE("Shipped machines give the searches recorded from NCCL for them") {
  const std::map<std::string, std::vector<std::string>> shipped{{"dgx1v", {"dgx1v", "dgx1v_16gb"}},
                                                                {"dgx_a100", {"dgx_a100_40gb", "dgx_a100_80gb"}},
                                                                {"dgx_h100", {"dgx_h100", "dgx_h200"}},
                                                                {"dgx_b200", {"dgx_b200"}}};
  const std::vector<int> all{0, 1, 2, 3, 4, 5, 6, 7};
  int compared = 0;
  for (const auto& c : recorded::configurations()) {
    const auto at = shipped.find(c.machine);
    if (at == shipped.end()) continue;
    for (const auto& id : at->second) {
      INFO(id << ", " << c.shape.nodes << " nodes");
      const auto machine = catalogue_catalogue().machine(id);
      const auto got = nccl::search_node(*machine, *catalogue_catalogue().gpu(machine->gpu), all, c.shape.nodes > 1);
      CHECK((nccl::cpu_vendor_of(*machine) == c.shape.cpu));
      for (const auto& [a, b] : {std::pair(got.ring, c.shape.search.ring), std::pair(got.tree, c.shape.search.tree),
                                 std::pair(got.nvls, c.shape.search.nvls)}) {
        CHECK(a.channels == b.channels);
        if (b.channels == 0) continue;
        CHECK(a.intra.value() == Approx(b.intra.value()));
        CHECK(a.inter.value() == Approx(b.inter.value()));
        CHECK((a.intra_path == nccl::PathClass::nvlink));
      }
      CHECK((got.tree_pattern == c.shape.search.tree_pattern));
      ++compared;
    }
  }
  CHECK(compared == 28);
}

TEST_CASE("On shipped clusters no plan of a whole group beats a wire of a node or a NIC") {
  for (const auto& id : catalogue_catalogue().names(Catalogue::Kind::cluster)) {
    const auto cluster = make_cluster(catalogue_catalogue(), id);
    const CollectiveModel model(cluster);
    for (const int nodes : {1, 2, 16})
      for (const int per_node : {1, 2, 8})
        for (const auto op : {CollectiveOp::all_reduce, CollectiveOp::all_gather, CollectiveOp::all_to_all}) {
          std::vector<DeviceId> group;
          for (int n = 0; n < std::min(nodes, cluster.node_count()); ++n)
            for (int g = 0; g < std::min(per_node, cluster.machine(n).gpus); ++g)
              group.push_back(cluster.first_device(n) + g);
          if (group.size() < 2 || nodes > cluster.node_count()) continue;
          const auto choice = model.choose(op, Bytes{1e9}, group);
          const auto plan = model.plan(op, Bytes{1e9}, group);
          INFO(id << " " << nodes << " x " << per_node << " " << name_of(op) << " " << choice.algorithm);
          Bytes busiest;
          for (const auto& e : plan.edges) busiest = max(busiest, e.bytes);
          CHECK((plan.latency + busiest / plan.rate_cap).value() == Approx(choice.time.value()));
          std::map<LinkId, double> load;
          for (const auto& e : plan.edges)
            for (const LinkId l : cluster.route(e.src, e.dst).links)
              load[l] += e.bytes / busiest * plan.rate_cap.value();
          double worst = 0;
          LinkId where = 0;
          for (const auto& [l, rate] : load)
            if (const double share = rate / cluster.link_rate(l).value(); share > worst) worst = share, where = l;
          INFO(cluster.link(where).name << " at " << worst);
          CHECK(worst <= 1 + 1e-9);
        }
  }
}

TEST_CASE(
    "NCCL's mark of no path is no rate: on every shipped machine large calls reach a fair share of PCIe at least") {
  int marked = 0;
  for (const auto& id : catalogue_catalogue().names(Catalogue::Kind::machine)) {
    const auto machine = catalogue_catalogue().machine(id);
    const auto gpu = catalogue_catalogue().gpu(machine->gpu);
    std::vector<int> locals;
    for (int g = 0; g < std::min(machine->gpus, 8); ++g) locals.push_back(g);
    if (locals.size() < 2) continue;
    const auto found = nccl::search_node(*machine, *gpu, locals, false);
    marked += found.ring.intra == nccl::kNoPath;
    const Cluster cluster(id, {{machine, gpu, 1}}, *catalogue_catalogue().network("single_switch"));
    const CollectiveModel model(cluster);
    for (const auto op : {CollectiveOp::all_gather, CollectiveOp::all_reduce, CollectiveOp::all_to_all}) {
      INFO(id << " " << name_of(op));
      CHECK(model.choose(op, Bytes{256e6}, locals).bandwidth.value() > 1.5e9);
    }
  }
  CHECK(marked > 0);
}
