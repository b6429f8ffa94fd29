#include "core/estimate/estimate_prices.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <set>

#include "core/base/index.hpp"
#include "core/estimate/walk/rank_leaders.hpp"
#include "core/play/player/actors.hpp"
#include "core/play/player/closed_body.hpp"
#include "core/program/body.hpp"

namespace rehearse {

namespace {

bool in_one_node(const Cluster& cluster, const std::vector<DeviceId>& group) {
  return std::all_of(group.begin(), group.end(),
                     [&](DeviceId d) { return cluster.node_of(d) == cluster.node_of(group.front()); });
}

/// Distance between neighbours where they are evenly spaced, else 0.
int even_stride(const std::vector<DeviceId>& group) {
  const int stride = group[1] - group[0];
  for (std::size_t i = 2; i < group.size(); ++i)
    if (group[i] - group[i - 1] != stride) return 0;
  return std::max(0, stride);
}

/// Ranks between neighbours along `axis` in a mesh of one island.
int stride_of(const Mesh& mesh, Axis axis) {
  int stride = 1;
  for (const AxisExtent& e : mesh.islands().front().order) {
    if (e.axis == axis) break;
    stride *= e.extent;
  }
  return stride;
}

/// Calls in which several stages take part; their members are no property of one role.
bool spans_stages(const GroupSpec& group) { return group.axes.contains(Axis::pp); }

}  // namespace

void ComputeWork::append(const ComputeWork& next) {
  const double total = seconds + next.seconds;
  if (total > 0) {
    sm_sensitivity = (sm_sensitivity * seconds + next.sm_sensitivity * next.seconds) / total;
    hbm_sensitivity = (hbm_sensitivity * seconds + next.hbm_sensitivity * next.seconds) / total;
  }
  trailing = next.trailing < next.seconds ? next.trailing : trailing + next.seconds;
  seconds = total;
  breakdown += next.breakdown;
}

EstimatePrices::EstimatePrices(const Program& program, const CostModel& cost)
    : p_(program),
      cost_(cost),
      prices_(program, cost),
      passes_(program, cost, prices_),
      first_rank_(program.roles.size(), -1),
      ranks_of_role_(program.roles.size()),
      stage_matters_(program.bodies.size(), -1) {
  RankLeaders leaders(p_, mattering_axes(p_));
  std::vector<std::pair<int, RankLeaders::Standing>> best(program.roles.size());
  for (int r = 0; r < p_.mesh.ranks(); ++r) {
    const auto role = static_cast<std::size_t>(nth(p_.role_of_rank, r));
    const std::pair here{neighbours(r), leaders.standing(r)};
    const bool before =
        here.first > best[role].first || (here.first == best[role].first && here.second.before(best[role].second));
    if (first_rank_[role] >= 0 && !before) continue;
    first_rank_[role] = r;
    best[role] = here;
  }
  for (const int r : first_rank_) contexts_.push_back(p_.mesh.context(r));
  decide_lanes();
  const int apart = lanes_ > 1 ? stride_of(p_.mesh, Axis::tp) : 1;
  for (int r = 0; r < p_.mesh.ranks(); ++r)
    if (lanes_ == 1 || r / apart % lanes_ == 0) nth(ranks_of_role_, nth(p_.role_of_rank, r)).push_back(r);
  sort_roles();
}

/// Sides on which a rank's tile has a neighbour: those with most hold most, and the others wait for them.
int EstimatePrices::neighbours(int rank) const {
  const ExprContext at = p_.mesh.context(rank);
  int n = 0;
  for (const Axis axis : {Axis::tile_h, Axis::tile_w}) {
    const auto a = static_cast<std::size_t>(axis);
    n += (at.coord[a] > 0 ? 1 : 0) + (at.coord[a] + 1 < at.extent[a] ? 1 : 0);
  }
  return n;
}

/// As the back ends fold: the flows of a tensor-parallel group leave its node side by side.
void EstimatePrices::decide_lanes() {
  const GroupSpec tp{"tp", View::dense, {Axis::tp}, {}, ExprPool::kZero, false};
  if (p_.mesh.islands().size() != 1 || p_.mesh.islands().front().extent(Axis::tp) == 1 || tp_coordinate_matters(p_))
    return;
  int stride = 0;
  for (const int r : first_rank_) {
    std::vector<DeviceId> group;
    for (const int m : p_.mesh.members(tp, r, p_.exprs)) group.push_back(nth(p_.device_of_rank, m));
    const int own = in_one_node(cost_.cluster(), group) ? even_stride(group) : 0;
    if (own == 0 || (stride != 0 && own != stride)) return;
    stride = own;
  }
  lanes_ = p_.mesh.islands().front().extent(Axis::tp);
  stride_ = stride;
  prices_.set_lanes(lanes_, stride_);
}

std::vector<DeviceId> EstimatePrices::devices(int group, int rank) const {
  std::vector<DeviceId> out;
  for (const int m : p_.mesh.members(nth(p_.groups, group), rank, p_.exprs)) out.push_back(nth(p_.device_of_rank, m));
  return out;
}

/// Roles on equal GPUs whose groups lie alike, as seen from where they are, share their prices.
void EstimatePrices::sort_roles() {
  const Cluster& cluster = cost_.cluster();
  std::map<std::pair<std::string, std::vector<int>>, int> classes;
  for (const int r : first_rank_) {
    const DeviceId me = nth(p_.device_of_rank, r);
    std::vector<int> places{cluster.local_index(me)};
    for (std::size_t g = 0; g < p_.groups.size(); ++g) {
      if (spans_stages(p_.groups[g])) continue;
      for (const DeviceId d : devices(static_cast<int>(g), r)) places.push_back(d - me);
      places.push_back(-1);
    }
    class_of_role_.push_back(
        classes.try_emplace({cluster.gpu(me).id, std::move(places)}, static_cast<int>(classes.size())).first->second);
  }
}

bool EstimatePrices::stage_matters(const Body& body) const {
  const auto depends = [&](ExprId id) { return p_.exprs.depends_on(id, Var::coord, static_cast<int>(Axis::pp)); };
  for (const Formal& f : body.formals) {
    const Tensor& t = nth(p_.tensors, f.like);
    if (std::any_of(t.shape.begin(), t.shape.end(), depends)) return true;
    if (std::any_of(t.layout.begin(), t.layout.end(), [](const auto& l) { return l.first == Axis::pp; })) return true;
  }
  for (const auto v : body.graph.vertices()) {
    const Task& task = body.graph[v];
    const auto* c = std::get_if<ComputeTask>(&task.kind);
    const auto* collective = std::get_if<CollectiveTask>(&task.kind);
    if (depends(task.predicate) || (c != nullptr && std::any_of(c->dims.begin(), c->dims.end(), depends))) return true;
    if (collective != nullptr && spans_stages(nth(p_.groups, collective->group))) return true;
  }
  return false;
}

/// Bodies that do the same on every stage are priced per class of roles, others per role (numbered below zero).
int EstimatePrices::variant(int body, int role) {
  signed char& known = nth(stage_matters_, body);
  if (known < 0) known = stage_matters(nth(p_.bodies, body)) ? 1 : 0;
  return known == 1 ? -1 - role : nth(class_of_role_, role);
}

bool EstimatePrices::closed(int body, int role) {
  const auto [at, fresh] = closed_.try_emplace({body, variant(body, role)}, false);
  if (fresh) at->second = is_closed(p_, cost_.cluster(), nth(p_.bodies, body), rank_of(role));
  return at->second;
}

const ComputeWork& EstimatePrices::work(int body, int role) {
  const auto key = std::pair(body, variant(body, role));
  if (const auto at = works_.find(key); at != works_.end()) return at->second;
  ComputeWork out;
  if (closed(body, role)) {
    const PricedBody priced = cost_.price_body(p_, nth(p_.bodies, body), rank_of(role), context(role));
    out = {priced.duration.value(), priced.sm_sensitivity, priced.hbm_sensitivity, priced.duration.value(),
           priced.breakdown};
  } else {
    out = play(body, role);
  }
  return works_.emplace(key, out).first->second;
}

double EstimatePrices::stretch(int body, int role) {
  return launch_stretch(p_, cost_, nth(p_.bodies, body), rank_of(role), context(role), CostModel::kOncePerKernel);
}

void EstimatePrices::set_microbatch(int number) {
  for (ExprContext& at : contexts_) at.microbatch = number;
  works_.clear();
}

ComputeWork EstimatePrices::play(int body, int role) {
  const auto [played, quiet] = play_alone(p_, cost_, call(body, role, context(role)), stretch(body, role),
                                          [&](const WholeBodies::Call&, int task) {
                                            const Transfer& t = collective(body, task, role);
                                            return CallPrice{t.seconds, t.wait, t.load};
                                          });
  return {played.duration.value(), played.sm_sensitivity, played.hbm_sensitivity, quiet.value(), played.breakdown};
}

ComputeWork EstimatePrices::task(int body, int task, int role) {
  const Body& b = nth(p_.bodies, body);
  const PricedTask t = cost_.price(p_, nth(b.graph, task), b, rank_of(role), context(role));
  ComputeWork out{t.time.value(), t.sm_sensitivity, t.hbm_sensitivity, t.time.value(), {}};
  out.breakdown[t.category] = t.time;
  return out;
}

const Transfer& EstimatePrices::collective(int body, int task, int role) {
  const Key key{body, task, variant(body, role)};
  if (const auto at = collectives_.find(key); at != collectives_.end()) return at->second;
  const Body& b = nth(p_.bodies, body);
  return collectives_.emplace(key, price_collective(nth(b.graph, task), b, role)).first->second;
}

/// A member of each of the groups of the ranks of a role that lie differently on their nodes.
const std::vector<EstimatePrices::Instance>& EstimatePrices::instances(int group, int role) {
  const auto [at, fresh] = instances_.try_emplace({group, role});
  std::vector<Instance>& out = at->second;
  if (!fresh) return out;
  const Cluster& cluster = cost_.cluster();
  std::vector<char> covered(static_cast<std::size_t>(cluster.device_count()), 0);
  std::set<std::vector<int>> seen;
  for (const int rank : nth(ranks_of_role_, role)) {
    if (nth(covered, nth(p_.device_of_rank, rank)) != 0) continue;
    const std::vector<DeviceId> members = devices(group, rank);
    std::vector<int> places;
    for (const DeviceId d : members) {
      nth(covered, d) = 1;
      places.push_back(cluster.node_of(d) - cluster.node_of(members.front()));
      places.push_back(cluster.local_index(d));
    }
    if (members.size() > 1 && seen.insert(std::move(places)).second)
      out.push_back({rank, in_one_node(cluster, members)});
  }
  return out;
}

bool EstimatePrices::groups_alike(int body, int role) {
  const Body& of = nth(p_.bodies, body);
  for (const auto v : of.graph.vertices()) {
    const auto* c = std::get_if<CollectiveTask>(&of.graph[v].kind);
    if (c == nullptr) continue;
    const std::vector<Instance>& all = instances(c->group, role);
    for (const Instance& i : all)
      if (i.inside != all.front().inside) return false;
  }
  return true;
}

/// Calls of a body that are alike, as those of a ring are, share a price.
Transfer EstimatePrices::price_collective(const Task& task, const Body& body, int role) {
  const auto& c = std::get<CollectiveTask>(task.kind);
  const Bytes bytes = CostModel::collective_bytes(p_, task, body, context(role));
  const auto [at, fresh] = calls_.try_emplace({c.op, c.group, role, bytes.value(), c.packed, c.direct});
  if (fresh) at->second = price_call(c, bytes, role);
  return at->second;
}

/// The slowest of the role's groups: they meet in the next call that spans them.
Transfer EstimatePrices::price_call(const CollectiveTask& c, Bytes bytes, int role) {
  Transfer slowest;
  double fastest = std::numeric_limits<double>::infinity();
  for (const auto& [rank, inside] : instances(c.group, role)) {
    const CallPrice& price =
        prices_.call({c.op, c.group, rank, bytes.value(), CallOptions{.packed = c.packed, .direct = c.direct}});
    if (price.seconds > slowest.seconds) slowest = {price.seconds, price.load, 0};
    fastest = std::min(fastest, price.seconds);
  }
  unlike_ |= slowest.seconds > fastest * 1.01;
  return slowest;
}

EstimatePrices::Ends EstimatePrices::ends(int role, int to) const {
  const Cluster& cluster = cost_.cluster();
  const auto& senders = nth(ranks_of_role_, role);
  const auto& receivers = nth(ranks_of_role_, to);
  Ends out;
  std::set<std::array<int, 3>> seen;
  for (std::size_t i = 0; i < std::min(senders.size(), receivers.size()); ++i) {
    const DeviceId src = nth(p_.device_of_rank, senders[i]), dst = nth(p_.device_of_rank, receivers[i]);
    const int apart = cluster.node_of(src) == cluster.node_of(dst) ? 0 : 1;
    if (seen.insert({apart, cluster.local_index(src), cluster.local_index(dst)}).second) out.emplace_back(src, dst);
  }
  return out;
}

}  // namespace rehearse
