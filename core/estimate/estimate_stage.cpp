#include "core/estimate/estimate_stage.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include "core/base/error.hpp"
#include "core/base/index.hpp"
#include "core/config/settings/strategy.hpp"
#include "core/program/body.hpp"

namespace rehearse {

PassPart part_of(const Body& body) {
  PassPart out;
  for (const auto v : body.graph.vertices()) {
    const Task& task = body.graph[v];
    if (const auto* m = std::get_if<P2pTask>(&task.kind))
      return {m->direction == P2pTask::Direction::send ? PassPart::Kind::send : PassPart::Kind::receive,
              static_cast<int>(v)};
    if (std::holds_alternative<InputTask>(task.kind)) return {PassPart::Kind::input, -1};
    const bool trains = body.phase == Phase::forward || body.phase == Phase::recompute ||
                        body.phase == Phase::input_grad || body.phase == Phase::weight_grad;
    if (trains) out.kind = PassPart::Kind::pass;
  }
  return out;
}

namespace {

using Part = PassPart::Kind;

class StageReader {
 public:
  /// `deferring`: microbatches that leave weight gradients to the drain.
  StageReader(const Program& p, EstimatePrices& prices, std::vector<std::optional<PassPart>>& parts, Stage& stage,
              int deferring)
      : p_(p), prices_(prices), parts_(parts), stage_(stage), deferring_(deferring), role_(nth(p.roles, stage.role)) {}

  void run() {
    for (const Slot& s : stage_.order) {
      if ((s.pass != Pass::forward && s.pass != Pass::backward) || s.copy != 0)
        throw Error(ErrorKind::unavailable, "the closed form knows schedules of whole forward and backward passes only",
                    "strategy.schedule", "use 'rehearse simulate'");
      stage_.chunks.try_emplace(s.chunk);
      (s.pass == Pass::forward ? first_ : last_)[s.chunk] = s.microbatch;
    }
    for (auto s = stage_.order.rbegin(); s != stage_.order.rend(); ++s)
      if (s->pass == Pass::forward) first_[s->chunk] = s->microbatch;
    find_tail();
    find_deferred();
    read_forwards();
    read_backwards();
  }

 private:
  [[nodiscard]] const PassPart& part(const Entry& e) {
    auto& known = nth(parts_, e.body);
    if (!known) known = part_of(nth(p_.bodies, e.body));
    return *known;
  }
  [[nodiscard]] bool is_forward(const Entry& e) const { return nth(p_.bodies, e.body).phase == Phase::forward; }
  [[nodiscard]] bool runs(const Entry& e) const {
    return p_.exprs.evaluate(e.predicate, prices_.context(stage_.role)) != 0;
  }

  void find_tail() {
    auto i = role_.step.size();
    while (i > 0 && part(role_.step[i - 1]).kind == Part::call) --i;
    stage_.tail = static_cast<int>(i);
  }

  /// Weight halves that stand behind the last pass, where the stage has any.
  void find_deferred() {
    passes_end_ = stage_.tail;
    if (deferring_ == 0 || stage_.tail == 0 || !is_weight_half(nth(role_.step, stage_.tail - 1))) return;
    passes_end_ -= deferring_;
    const Entry& one = nth(role_.step, passes_end_);
    stage_.deferred = {one.chunk, deferring_, prices_.work(one.body, stage_.role), {}};
  }
  [[nodiscard]] bool is_weight_half(const Entry& e) const { return nth(p_.bodies, e.body).phase == Phase::weight_grad; }

  /// From the front, until every chunk's first forward was seen whole.
  void read_forwards() {
    std::size_t seen = 0;
    for (int i = 0; i < stage_.tail; ++i) {
      const Entry& e = nth(role_.step, i);
      if (part(e).kind == Part::pass && !same_pass(e)) {
        if (seen == stage_.chunks.size()) return;
        seen += is_forward(e) && e.microbatch == first_.at(e.chunk);
      }
      read(e, true, first_);
    }
  }

  /// The last backward of every chunk, from where the first of them begins.
  void read_backwards() {
    std::map<int, bool> before;
    int i = passes_end_;
    while (i > 0 && before.size() < stage_.chunks.size()) {
      const Entry& e = nth(role_.step, --i);
      if (part(e).kind == Part::pass && !is_forward(e) && e.microbatch != last_.at(e.chunk)) before[e.chunk] = true;
    }
    pass_ = received_ = nullptr;
    for (; i < passes_end_; ++i) read(nth(role_.step, i), false, last_);
  }

  [[nodiscard]] bool same_pass(const Entry& e) const {
    return pass_ != nullptr && pass_->chunk == e.chunk && pass_->microbatch == e.microbatch &&
           is_forward(*pass_) == is_forward(e);
  }

  /// Adds `e` where it belongs to a pass of the direction and of the chunk's microbatch in `wanted`. A message received
  /// belongs to the pass that follows, one sent and a call to the pass before.
  void read(const Entry& e, bool forward, const std::map<int, int>& wanted) {
    const Part kind = part(e).kind;
    if (!runs(e)) return;
    if (kind == Part::receive) received_ = &e;
    if (kind == Part::pass) pass_ = &e;
    const Entry* incoming = kind == Part::pass ? std::exchange(received_, nullptr) : nullptr;
    const Entry* owner = kind == Part::input ? &e : pass_;
    if (kind == Part::receive || owner == nullptr || owner->microbatch != wanted.at(owner->chunk)) return;
    if (kind != Part::input && is_forward(*owner) != forward) return;
    StagePass& pass = stage_.chunks.at(owner->chunk)[forward ? 0 : 1];
    if (incoming != nullptr) add_receive(*incoming, pass);
    if (kind == Part::pass) add_pass(e, pass);
    if (kind == Part::send) add_send(e, pass);
    if (kind == Part::call) add_call(e, pass);
    if (kind == Part::input && forward)
      pass.inputs.push_back({pass.work.seconds, prices_.work(e.body, stage_.role).seconds});
  }

  void add_pass(const Entry& e, StagePass& pass) {
    for (std::int32_t w = 0; w < e.wait_count; ++w) {
      const Wait& wait = nth(role_.waits, e.first_wait + w);
      if (wait.steps_back > 0) pass.needs.push_back({pass.work.seconds, wait.event});
    }
    pass.work.append(prices_.work(e.body, stage_.role));
    if (e.chunk == stage_.deferred.chunk && !is_forward(e) && !is_weight_half(e))
      stage_.deferred.backward.append(prices_.work(e.body, stage_.role));
    if (!prices_.closed(e.body, stage_.role)) pass.unpacks_in_line = true;
  }

  void add_send(const Entry& e, StagePass& pass) {
    const Body& body = nth(p_.bodies, e.body);
    const auto& message = std::get<P2pTask>(nth(body.graph, part(e).task).kind);
    const auto peers = p_.mesh.members(nth(p_.groups, message.group), prices_.rank_of(stage_.role), p_.exprs);
    const auto position = static_cast<std::size_t>(p_.exprs.evaluate(message.peer, prices_.context(stage_.role)));
    pass.peer = nth(p_.role_of_rank, peers.at(position));
    pass.message = prices_.message(e.body, part(e).task, stage_.role, pass.peer);
    for (const auto v : body.graph.vertices())
      if (std::holds_alternative<ComputeTask>(body.graph[v].kind))
        pass.prepare.append(prices_.task(e.body, static_cast<int>(v), stage_.role));
  }

  void add_receive(const Entry& e, StagePass& pass) {
    const Body& body = nth(p_.bodies, e.body);
    pass.receives = true;
    for (const auto v : body.graph.vertices())
      if (std::holds_alternative<CollectiveTask>(body.graph[v].kind))
        pass.unpack = prices_.collective(e.body, static_cast<int>(v), stage_.role);
  }

  void add_call(const Entry& e, StagePass& pass) {
    const Body& body = nth(p_.bodies, e.body);
    for (const auto v : body.graph.vertices())
      if (std::holds_alternative<CollectiveTask>(body.graph[v].kind))
        pass.calls.push_back({pass.work.seconds, prices_.collective(e.body, static_cast<int>(v), stage_.role),
                              category_of_stream(p_, body.graph[v].stream), e.record});
  }

  const Program& p_;
  EstimatePrices& prices_;
  std::vector<std::optional<PassPart>>& parts_;
  Stage& stage_;
  int deferring_;
  const Role& role_;
  const Entry* pass_ = nullptr;      ///< The pass read last ...
  const Entry* received_ = nullptr;  ///< ... and the message received since.
  int passes_end_ = 0;               ///< First entry after the last pass.
  std::map<int, int> first_, last_;  ///< First forward's and last backward's microbatch by chunk.
};

}  // namespace

std::vector<Stage> price_stages(const Program& program, const StrategySettings& settings, EstimatePrices& prices) {
  const Schedule& schedule = *schedules().at(settings.schedule).value;
  const PipelineShape shape{settings.pp, settings.virtual_stages, program.microbatches};
  std::vector<std::optional<PassPart>> parts(program.bodies.size());
  std::vector<Stage> out(program.roles.size());
  for (std::size_t s = 0; s < out.size(); ++s) {
    out[s].role = static_cast<int>(s);
    out[s].order = schedule.order(static_cast<int>(s), shape);
    StageReader(program, prices, parts, out[s], std::min(settings.deferred_head_gradients, program.microbatches)).run();
  }
  for (const Stage& from : out) {
    for (const auto& [chunk, passes] : from.chunks) {
      for (const int direction : {0, 1}) {
        const StagePass& pass = nth(passes, direction);
        if (pass.peer < 0) continue;
        const int next = direction == 0 ? chunk + 1 : chunk - 1;
        nth(nth(out, pass.peer).chunks.at(next), direction).incoming_seconds = pass.message.seconds;
      }
    }
  }
  return out;
}

}  // namespace rehearse
