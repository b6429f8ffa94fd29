#include "core/estimate/walk/whole_passes.hpp"

#include <algorithm>

#include "core/base/index.hpp"
#include "core/play/player/closed_body.hpp"
#include "core/price/body_play.hpp"
#include "core/program/body.hpp"

namespace rehearse {

namespace {

/// Tasks of one or two bodies in the order in which the host issues them.
class PassPlay {
 public:
  PassPlay(const Program& p, const CostModel& cost, const PriceOfTask& calls)
      : p_(p), cost_(cost), calls_(calls), host_(static_cast<StreamId>(p.streams.size())) {}

  struct Issued {
    const WholeBodies::Call& call;
    const Body& body;
    double stretch;              ///< Of its kernels, where launches hold them up.
    std::vector<int> of_task{};  ///< Index into tasks_.
  };
  [[nodiscard]] Issued begin(const WholeBodies::Call& call, double stretch) const {
    return {call, nth(p_.bodies, call.body), stretch};
  }

  void issue(Issued& on, std::size_t until) {
    while (on.of_task.size() < until) {
      const std::size_t v = on.of_task.size();
      const Task& task = on.body.graph[v];
      BodyTask t;
      t.stream = task.stream;
      for (const std::size_t before : on.body.graph.before(v)) t.after.push_back(on.of_task[before]);
      if (gate_ >= 0) t.after.push_back(gate_);
      const bool runs = p_.exprs.evaluate(task.predicate, on.call.at) != 0;
      if (runs) price(static_cast<int>(v), on, t);
      on.of_task.push_back(static_cast<int>(tasks_.size()));
      tasks_.push_back(std::move(t));
      if (runs && task.host_wait) let_host_wait(cost_.launch_overhead(p_, on.call.rank));
    }
  }

  /// With the spans of tasks as they were issued.
  [[nodiscard]] PricedBody run() const {
    PricedBody out = play_body(tasks_);
    for (const auto& [category, added] : added_) {
      out.breakdown[category] -= added;
      out.breakdown[TimeCategory::launch] += added;
    }
    return out;
  }

  /// Seconds at the end in which no collective runs.
  [[nodiscard]] Seconds quiet_at_end(const PricedBody& played) const {
    Seconds last{0};
    for (const PricedBody::TaskSpan& s : played.spans)
      if (const BodyTask& t = nth(tasks_, s.task); !t.computes && t.stream != host_) last = max(last, s.end);
    return played.duration - last;
  }

  /// When the tasks of one call begin and end.
  [[nodiscard]] std::pair<Seconds, Seconds> span_of(const Issued& call, const PricedBody& played) const {
    std::vector<char> own(tasks_.size(), 0);
    for (const int t : call.of_task) nth(own, t) = 1;
    std::pair<Seconds, Seconds> out{played.duration, Seconds{0}};
    for (const PricedBody::TaskSpan& s : played.spans) {
      if (nth(own, s.task) == 0 || s.end <= s.begin) continue;
      out.first = min(out.first, s.begin);
      out.second = max(out.second, s.end);
    }
    return out;
  }

 private:
  void price(int v, const Issued& on, BodyTask& t) {
    const Task& task = on.body.graph[static_cast<std::size_t>(v)];
    if (std::holds_alternative<CollectiveTask>(task.kind)) {
      const CallPrice price = calls_(on.call, v);
      t.priced.time = Seconds{price.seconds};
      t.priced.category = category_of_stream(p_, task.stream);
      t.load = price.load;
      return;
    }
    t.priced = cost_.price(p_, task, on.body, on.call.rank, on.call.at);
    t.computes = true;
    const Seconds added = t.priced.time * (on.stretch - 1);
    t.priced.time += added;
    added_[t.priced.category] += added;
  }

  /// What is issued later waits for the task issued last, and for a launch, which nothing hides.
  void let_host_wait(Seconds launch) {
    BodyTask t;
    t.stream = host_;
    t.after = {static_cast<int>(tasks_.size()) - 1};
    t.priced.time = launch;
    t.priced.category = TimeCategory::launch;
    gate_ = static_cast<int>(tasks_.size());
    tasks_.push_back(std::move(t));
  }

  const Program& p_;
  const CostModel& cost_;
  const PriceOfTask& calls_;
  StreamId host_;  ///< No stream of the Program's.
  std::vector<BodyTask> tasks_;
  std::map<TimeCategory, Seconds> added_;  ///< By launches to kernels.
  int gate_ = -1;                          ///< The launch after the host's last wait.
};

}  // namespace

PlayedPass play_alone(const Program& program, const CostModel& cost, const WholeBodies::Call& call, double stretch,
                      const PriceOfTask& calls) {
  PassPlay play(program, cost, calls);
  PassPlay::Issued issued = play.begin(call, stretch);
  play.issue(issued, issued.body.graph.size());
  PlayedPass out{play.run(), {}};
  out.quiet_at_end = play.quiet_at_end(out.body);
  return out;
}

WholePasses::WholePasses(const Program& program, const CostModel& cost, CallPrices& calls)
    : p_(program),
      cost_(cost),
      price_of_task_([&program, &calls](const Call& call, int v) {
        const Body& body = nth(program.bodies, call.body);
        const Task& task = body.graph[static_cast<std::size_t>(v)];
        const auto& c = std::get<CollectiveTask>(task.kind);
        const Bytes bytes = CostModel::collective_bytes(program, task, body, call.at);
        return calls.call(
            {c.op, c.group, call.rank, bytes.value(), CallOptions{.packed = c.packed, .direct = c.direct}});
      }),
      meets_others_(program.groups.size(), 0),
      used_(program.groups.size(), 0) {}

WholePasses::Key WholePasses::key_of(const Call& c) {
  const auto [matters, unknown] = stage_matters_.try_emplace(c.body, false);
  if (unknown) matters->second = stage_matters(nth(p_.bodies, c.body));
  Key key{c.body, matters->second ? -1 - c.rank : class_, {}, c.launches};
  if (c.varies) std::get<2>(key) = {c.at.layer, c.at.chunk, c.at.microbatch, c.at.pass, c.at.copy, c.at.step};
  return key;
}

double WholePasses::stretch(const Call& c) {
  const auto [at, fresh] = stretches_.try_emplace(key_of(c), 1.0);
  if (fresh) at->second = launch_stretch(p_, cost_, nth(p_.bodies, c.body), c.rank, c.at, c.launches);
  return at->second;
}

const PricedBody* WholePasses::price(const Call& c) {
  if (!whole(c.body, c.rank)) return nullptr;
  const auto [at, fresh] = prices_.try_emplace(key_of(c));
  if (!fresh) return &at->second;
  const Body& body = nth(p_.bodies, c.body);
  if (is_closed(p_, cost_.cluster(), body, c.rank)) {
    at->second = cost_.price_body(p_, body, c.rank, c.at, c.launches);
  } else {
    PassPlay play(p_, cost_, price_of_task_);
    PassPlay::Issued issued = play.begin(c, stretch(c));
    play.issue(issued, body.graph.size());
    at->second = play.run();
  }
  at->second.spans.clear();
  return &at->second;
}

const WholeBodies::Pair* WholePasses::price_pair(const Call& first, const Call& second) {
  if (!whole(first.body, first.rank) || !whole(second.body, second.rank)) return nullptr;
  const auto [at, fresh] = pairs_.try_emplace({key_of(first), key_of(second)});
  if (!fresh) return &at->second;
  PassPlay play(p_, cost_, price_of_task_);
  PassPlay::Issued a = play.begin(first, stretch(first)), b = play.begin(second, stretch(second));
  const auto left = [](const PassPlay::Issued& on) { return on.of_task.size() < on.body.graph.size(); };
  for (std::size_t segment = 0; left(a) || left(b); ++segment) {
    play.issue(b, end_of_segment(b.body, segment));
    play.issue(a, end_of_segment(a.body, segment));
  }
  Pair& out = at->second;
  out.both = play.run();
  std::tie(out.begin[0], out.end[0]) = play.span_of(a, out.both);
  std::tie(out.begin[1], out.end[1]) = play.span_of(b, out.both);
  out.both.spans.clear();
  return &out;
}

bool WholePasses::whole(int body, int rank) {
  const auto [at, fresh] = whole_.try_emplace({body, class_}, false);
  if (fresh) at->second = find_whole(nth(p_.bodies, body), rank);
  return at->second;
}

/// Kernels on the compute stream, and calls along axes that passes wait for, of ranks of the same kind.
bool WholePasses::find_whole(const Body& body, int rank) {
  if (is_closed(p_, cost_.cluster(), body, rank)) return true;
  bool computes = false;
  for (const auto v : body.graph.vertices()) {
    const Task& task = body.graph[v];
    computes = computes || (std::holds_alternative<ComputeTask>(task.kind) && task.stream == 0);
    if (std::holds_alternative<ComputeTask>(task.kind)) continue;
    const auto* c = std::get_if<CollectiveTask>(&task.kind);
    if (c == nullptr || category_of_stream(p_, task.stream) == TimeCategory::exposed_dp) return false;
    if (nth(meets_others_, c->group) != 0) return false;
    nth(used_, c->group) = 1;
  }
  return computes;
}

/// Whether what the body does may differ between stages.
bool WholePasses::stage_matters(const Body& body) const {
  const auto depends = [&](ExprId id) { return p_.exprs.depends_on(id, Var::coord, static_cast<int>(Axis::pp)); };
  for (const Formal& f : body.formals) {
    const Tensor& t = nth(p_.tensors, f.like);
    if (std::any_of(t.shape.begin(), t.shape.end(), depends)) return true;
    if (std::any_of(t.layout.begin(), t.layout.end(), [](const auto& l) { return l.first == Axis::pp; })) return true;
  }
  const auto tasks = body.graph.vertices();
  return std::any_of(tasks.begin(), tasks.end(), [&](const auto v) {
    const Task& task = body.graph[v];
    const auto* c = std::get_if<ComputeTask>(&task.kind);
    const auto* g = std::get_if<CollectiveTask>(&task.kind);
    return depends(task.predicate) || (c != nullptr && std::any_of(c->dims.begin(), c->dims.end(), depends)) ||
           (g != nullptr && nth(p_.groups, g->group).axes.contains(Axis::pp));
  });
}

}  // namespace rehearse
