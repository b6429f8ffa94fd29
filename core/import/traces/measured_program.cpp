#include "core/import/traces/measured_program.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/base/error.hpp"
#include "core/base/index.hpp"
#include "core/program/body.hpp"
#include "core/strategy/workload.hpp"

namespace rehearse {

namespace {

/// Ranks as digits: interval i has `extent[i]` values and a stride of the product of those before.
struct Intervals {
  std::vector<int> boundary{1};  ///< Strides, and the number of ranks at the end; each divides the next.
  std::vector<int> extent;       ///< Of the traced job.
  int grown = -1;                ///< The one that data parallelism changes; -1 for none.
  int grown_extent = 1;
};

Intervals intervals_of(const MeasuredWorkload& w) {
  Intervals out;
  std::set<int> bounds{1, w.world_size};
  const GroupShape* replicas = nullptr;
  for (const GroupShape& g : w.groups) {
    bounds.insert(g.stride);
    bounds.insert(g.stride * g.size);
    if (g.data_parallel) replicas = &g;
  }
  out.boundary.assign(bounds.begin(), bounds.end());
  for (std::size_t i = 1; i < out.boundary.size(); ++i) {
    if (out.boundary[i] % out.boundary[i - 1] != 0 || out.boundary[i] > w.world_size)
      throw Error(ErrorKind::usage,
                  fmt::format("groups of strides and sizes {} don't divide {} ranks into a mesh",
                              fmt::join(out.boundary, ", "), w.world_size),
                  "groups", "name the job's own groups in the file: stride and size of each");
    out.extent.push_back(out.boundary[i] / out.boundary[i - 1]);
  }
  if (w.data_parallel == 0) return out;
  if (replicas == nullptr)
    throw Error(ErrorKind::usage, "none of the groups is marked data_parallel", "data_parallel",
                "mark one in the file: \"data_parallel\": true");
  // The outermost interval of the data-parallel groups takes the change.
  const auto end =
      std::find(out.boundary.begin(), out.boundary.end(), replicas->stride * replicas->size) - out.boundary.begin();
  if (replicas->size > 1)
    out.grown = static_cast<int>(end) - 1;
  else
    throw Error(ErrorKind::usage, "the traced job has one replica", "data_parallel",
                "trace two or more, so that the calls between them are known");
  const int inner = replicas->size / nth(out.extent, out.grown);
  if (w.data_parallel % inner != 0)
    throw Error(ErrorKind::usage,
                fmt::format("data_parallel({}) is no multiple of {}, the part of it that lies inside other groups",
                            w.data_parallel, inner),
                "data_parallel");
  out.grown_extent = w.data_parallel / inner;
  return out;
}

/// Their times are of the traced job's cluster and hold its bubbles.
void refuse_messages(const MeasuredWorkload& w) {
  if (w.calls_measured || w.messages_measured) return;
  for (const MeasuredRank& rank : w.ranks) {
    const auto messages = std::count_if(rank.operations.begin(), rank.operations.end(), [](const MeasuredOperation& o) {
      return is_message(o) && !is_priced_message(o);
    });
    if (messages > 0) {
      throw Error(ErrorKind::usage,
                  fmt::format("rank {} sends or receives {} messages whose other end is not traced: they cannot be "
                              "priced on a cluster",
                              rank.rank, messages),
                  "messages",
                  "--set messages=measured lets them last as traced, waiting for the peer included, which is right on "
                  "the traced cluster only; else simulate the plan from a scenario and set the trace beside it: "
                  "rehearse compare TRACE SCENARIO");
    }
  }
}

class Maker {
 public:
  explicit Maker(const MeasuredWorkload& w)
      : w_(w), intervals_(intervals_of(w)), times_(std::make_shared<TaskTimes>()) {}

  MeasuredProgram run() {
    Program& p = out_.program;
    p.name = w_.name;
    make_mesh();
    p.binding_sets.emplace_back();
    choose_roles();
    make_edges();
    for (const MeasuredRank& rank : w_.ranks) make_role(rank);
    out_.times = std::move(times_);
    return std::move(out_);
  }

 private:
  [[nodiscard]] int extent(std::size_t i) const {
    return static_cast<int>(i) == intervals_.grown ? intervals_.grown_extent : intervals_.extent[i];
  }

  void make_mesh() {
    // Axes only tell the intervals apart here. tp and the expert axes are left out: back ends treat them apart.
    constexpr Axis kAxes[] = {Axis::dp_shard, Axis::cp, Axis::pp, Axis::dp_replicate, Axis::tile_h, Axis::tile_w};
    if (intervals_.extent.size() > std::size(kAxes))
      throw Error(ErrorKind::usage, fmt::format("{} kinds of groups are too many", intervals_.extent.size()), "groups");
    Island island;
    for (std::size_t i = 0; i < intervals_.extent.size(); ++i) island.order.push_back({kAxes[i], extent(i)});
    out_.program.mesh = Mesh({island}, Join::none);
    for (const GroupShape& g : w_.groups) {
      GroupSpec spec;
      spec.name = fmt::format("{} ranks {} apart", g.size, g.stride);
      for (std::size_t i = 0; i < intervals_.extent.size(); ++i)
        if (intervals_.boundary[i] >= g.stride && intervals_.boundary[i] < g.stride * g.size)
          spec.axes.insert(kAxes[i]);
      out_.program.groups.push_back(std::move(spec));
    }
    for (int r = 0; r < out_.program.mesh.ranks(); ++r) out_.program.device_of_rank.push_back(r);
  }

  /// Digits of a rank of the new mesh, brought into the traced job's range.
  [[nodiscard]] std::vector<int> traced_digits(int rank) const {
    std::vector<int> out;
    for (std::size_t i = 0; i < intervals_.extent.size(); ++i) {
      out.push_back(rank % extent(i) % intervals_.extent[i]);
      rank /= extent(i);
    }
    return out;
  }
  [[nodiscard]] std::vector<int> digits(int rank) const {
    std::vector<int> out;
    for (const int e : intervals_.extent) {
      out.push_back(rank % e);
      rank /= e;
    }
    return out;
  }

  [[nodiscard]] bool moves(const MeasuredOperation& o) const {
    return !w_.calls_measured && !w_.messages_measured && is_priced_message(o);
  }

  /// Messages of one pair of streams are a kind of their own, so that each kind comes in order.
  void make_edges() {
    std::vector<double> largest;
    for (const MeasuredRank& rank : w_.ranks) {
      for (const MeasuredOperation& o : rank.operations) {
        if (!moves(o)) continue;
        largest.resize(std::max(largest.size(), static_cast<std::size_t>(o.edge) + 1));
        nth(largest, o.edge) = std::max(nth(largest, o.edge), o.bytes.value());
      }
    }
    for (std::size_t e = 0; e < largest.size(); ++e)
      out_.program.edges.push_back({fmt::format("messages {}", e), tensor(largest[e])});
  }

  void choose_roles() {
    Program& p = out_.program;
    for (int r = 0; r < p.mesh.ranks(); ++r) {
      const std::vector<int> wanted = traced_digits(r);
      int best = 0, most = -1;
      for (std::size_t k = 0; k < w_.ranks.size(); ++k) {
        const std::vector<int> has = digits(w_.ranks[k].rank);
        int equal = 0;
        for (std::size_t i = 0; i < has.size(); ++i) equal += has[i] == wanted[i] ? 1 : 0;
        if (equal > most) best = static_cast<int>(k), most = equal;
      }
      p.role_of_rank.push_back(best);
    }
    if (static_cast<int>(w_.ranks.size()) < p.mesh.ranks())
      out_.notes.push_back(fmt::format("{} of {} ranks were traced; the others do as the traced rank nearest to them",
                                       w_.ranks.size(), p.mesh.ranks()));
    if (agree()) return;
    if (std::any_of(w_.ranks.begin(), w_.ranks.end(), [&](const MeasuredRank& r) {
          return std::any_of(r.operations.begin(), r.operations.end(),
                             [&](const MeasuredOperation& o) { return moves(o); });
        }))
      throw Error(ErrorKind::usage, "the traced ranks of one group do not make the same calls, and stages differ",
                  "ranks", "trace a rank of each stage, or every rank; --set messages=measured plays them as traced");
    std::fill(p.role_of_rank.begin(), p.role_of_rank.end(), 0);
    out_.notes.push_back(fmt::format(
        "the traced ranks of one group do not make the same calls: every rank does as rank {}", w_.ranks.front().rank));
  }

  [[nodiscard]] bool priced(const MeasuredOperation& o) const {
    static const std::set<std::string> kOps{"all_reduce", "all_gather", "reduce_scatter",
                                            "broadcast",  "reduce",     "all_to_all"};
    return !w_.calls_measured && o.sized && o.bytes > Bytes{0} && o.group >= 0 && nth(w_.groups, o.group).size > 1 &&
           kOps.contains(o.call);
  }

  /// Whether all members of each group make the same calls on it.
  [[nodiscard]] bool agree() const {
    const Program& p = out_.program;
    std::vector<std::map<int, std::vector<std::string>>> calls(w_.ranks.size());
    for (std::size_t k = 0; k < w_.ranks.size(); ++k)
      for (const MeasuredOperation& o : w_.ranks[k].operations)
        if (priced(o)) calls[k][o.group].push_back(o.call);
    for (std::size_t g = 0; g < p.groups.size(); ++g) {
      for (int r = 0; r < p.mesh.ranks(); ++r) {
        const int first = p.mesh.members(p.groups[g], r, p.exprs).front();
        const auto of = [&](int rank) -> const std::vector<std::string>& {
          static const std::vector<std::string> kNone;
          const auto& all = nth(calls, nth(p.role_of_rank, rank));
          const auto at = all.find(static_cast<int>(g));
          return at == all.end() ? kNone : at->second;
        };
        if (of(r) != of(first)) return false;
      }
    }
    return true;
  }

  StreamId stream(const MeasuredRank& rank, int index) {
    Program& p = out_.program;
    const bool calls = std::any_of(rank.operations.begin(), rank.operations.end(),
                                   [&](const MeasuredOperation& o) { return o.stream == index && !o.call.empty(); });
    bool replicas = false;
    for (const MeasuredOperation& o : rank.operations)
      replicas |= o.stream == index && o.group >= 0 && nth(w_.groups, o.group).data_parallel;
    // Ranks' streams are matched by place, and by what they do: the first computes.
    Stream made{"compute"};
    const bool messages = std::any_of(rank.operations.begin(), rank.operations.end(),
                                      [&](const MeasuredOperation& o) { return o.stream == index && moves(o); });
    if (index > 0 && messages)
      made = {fmt::format("pp.{}", index), StreamRole::communication, AxisSet{Axis::pp}};
    else if (index > 0 && calls)
      made = {fmt::format("{}.{}", replicas ? "dp" : "tp", index), StreamRole::communication,
              replicas ? AxisSet{Axis::dp_replicate, Axis::dp_shard} : AxisSet{Axis::tp}};
    else if (index > 0)
      made = {fmt::format("copy.{}", index), StreamRole::copy};
    const auto at = std::find(p.streams.begin(), p.streams.end(), made);
    if (at != p.streams.end()) return static_cast<StreamId>(at - p.streams.begin());
    p.streams.push_back(std::move(made));
    return static_cast<StreamId>(p.streams.size() - 1);
  }

  int tensor(double bytes) {
    const auto elements = static_cast<std::int64_t>(std::max(1.0, bytes));
    const auto [at, fresh] = tensors_.try_emplace(elements, static_cast<int>(out_.program.tensors.size()));
    if (fresh) {
      Tensor t;
      t.name = fmt::format("message of {} B", elements);
      t.shape = {out_.program.exprs.constant(elements)};
      t.dtype = DType::uint8;
      t.category = MemoryCategory::communication;
      out_.program.tensors.push_back(std::move(t));
    }
    return at->second;
  }

  void timed(Body& body, const std::string& name, StreamId stream, Seconds time, TimeCategory category) {
    if (!(time > Seconds{0})) return;
    Task task;
    task.name = fmt::format("{}: {}", name, name_of(category));
    task.kind = ComputeTask{};
    task.stream = stream;
    (*times_)[task.name] = {time, category};
    body.graph.add(std::move(task));
  }

  void operand(Body& body, Task& task, double bytes, Access access) {
    task.operands.push_back({static_cast<int>(body.formals.size()), access});
    body.formals.push_back({"message", tensor(bytes), false});
  }

  void call(Body& body, const MeasuredOperation& o, StreamId stream) {
    Task task;
    task.name = o.call;
    task.stream = stream;
    CollectiveTask kind;
    kind.op = parse_collective_op(o.call);
    kind.group = o.group;
    const double bytes = o.bytes.value(), part = bytes / nth(w_.groups, o.group).size;
    if (kind.op == CollectiveOp::broadcast || kind.op == CollectiveOp::reduce) kind.root = 0;
    if (kind.op == CollectiveOp::all_gather)
      operand(body, task, part, Access::read), operand(body, task, bytes, Access::write);
    else if (kind.op == CollectiveOp::reduce_scatter)
      operand(body, task, bytes, Access::read), operand(body, task, part, Access::write);
    else if (kind.op == CollectiveOp::all_to_all)
      operand(body, task, bytes, Access::read), operand(body, task, bytes, Access::write);
    else
      operand(body, task, bytes, Access::update);
    task.kind = kind;
    body.graph.add(std::move(task));
  }

  void message(Body& body, const MeasuredOperation& o, StreamId stream) {
    const GroupShape& stages = nth(w_.groups, o.group);
    Task task;
    task.name = o.call;
    task.stream = stream;
    P2pTask kind;
    kind.direction = o.call == "send" ? P2pTask::Direction::send : P2pTask::Direction::receive;
    kind.group = o.group;
    kind.peer = out_.program.exprs.constant(o.peer / stages.stride % stages.size);
    kind.edge = o.edge;
    task.kind = kind;
    operand(body, task, o.bytes.value(), o.call == "send" ? Access::read : Access::write);
    body.graph.add(std::move(task));
  }

  void make_role(const MeasuredRank& rank) {
    Program& p = out_.program;
    Role role;
    role.name = fmt::format("rank {}", rank.rank);
    std::vector<StreamId> streams;
    for (std::size_t s = 0; s < std::max<std::size_t>(1, rank.streams.size()); ++s)
      streams.push_back(stream(rank, static_cast<int>(s)));
    constexpr std::size_t kMostStreams = 16;  // Of one rank, as back ends keep books.
    if (p.streams.size() > kMostStreams)
      throw Error(ErrorKind::usage,
                  fmt::format("rank {} works on {} streams; up to {} can be played", rank.rank, rank.streams.size(),
                              kMostStreams),
                  "ranks");
    std::set<int> awaited;
    for (const MeasuredOperation& o : rank.operations) awaited.insert(o.after.begin(), o.after.end());
    std::map<int, EventId> event_of;
    std::map<std::tuple<int, int, bool>, int> messages_of;  // Of one kind, with one peer, one way.
    for (std::size_t i = 0; i < rank.operations.size(); ++i) {
      const MeasuredOperation& o = rank.operations[i];
      const StreamId where = nth(streams, o.stream);
      Body body;
      body.name = o.call.empty() ? "kernels" : o.call;
      const std::string name = fmt::format("{}, operation {}", role.name, i);
      timed(body, name, where, o.delay, TimeCategory::launch);
      for (const auto& [category, time] : o.work)
        timed(body, category == TimeCategory::launch ? name + ", between kernels" : name, where,
              category == TimeCategory::launch ? time : time * w_.kernel_scale, category);
      if (moves(o))
        message(body, o, where);
      else if (!o.call.empty() && priced(o))
        call(body, o, where);
      else if (!o.call.empty())
        timed(body, name + ", " + o.call, where, o.measured,
              o.call == "send" || o.call == "receive" ? TimeCategory::exposed_pp : TimeCategory::exposed_dp);
      if (body.graph.size() == 0 && !awaited.contains(static_cast<int>(i)) && o.after.empty()) continue;
      // Something has to carry the events.
      if (body.graph.size() == 0) timed(body, name, where, Seconds{1e-12}, TimeCategory::launch);
      Entry e;
      e.body = static_cast<std::int32_t>(p.bodies.size());
      e.stream = where;
      if (moves(o)) e.microbatch = messages_of[{o.edge, o.peer, o.call == "send"}]++;
      e.first_wait = static_cast<std::int32_t>(role.waits.size());
      for (const int a : o.after)
        if (const auto at = event_of.find(a); at != event_of.end()) role.waits.push_back({at->second});
      e.wait_count = static_cast<std::int32_t>(role.waits.size()) - e.first_wait;
      if (awaited.contains(static_cast<int>(i))) e.record = event_of[static_cast<int>(i)] = role.events++;
      p.bodies.push_back(std::move(body));
      role.step.push_back(e);
    }
    p.roles.push_back(std::move(role));
  }

  const MeasuredWorkload& w_;
  Intervals intervals_;
  MeasuredProgram out_;
  std::shared_ptr<TaskTimes> times_;
  std::map<std::int64_t, int> tensors_;
};

}  // namespace

MeasuredProgram measured_program(const MeasuredWorkload& workload) {
  refuse_messages(workload);
  return Maker(workload).run();
}

}  // namespace rehearse
