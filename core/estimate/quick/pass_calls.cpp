#include "core/estimate/quick/pass_calls.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <utility>

#include "core/base/index.hpp"
#include "core/program/body.hpp"
#include "core/program/rank_kinds.hpp"

namespace rehearse {

namespace {

constexpr StreamId kKernels = 0;

class CallReader {
 public:
  CallReader(const Program& p, const StagePasses& passes, const Stage& stage, EstimatePrices& prices,
             std::vector<EventId>& needed)
      : p_(p),
        numbers_(passes),
        stage_(stage),
        prices_(prices),
        needed_(needed),
        role_(nth(p.roles, stage.role)),
        parts_(p.bodies.size()),
        ends_(static_cast<std::size_t>(role_.events)),
        users_(static_cast<std::size_t>(role_.events)),
        sides_(side_streams(p)) {}

  StageCalls run() {
    find_blocks();
    for (int i = 0; i < stage_.tail; ++i) {
      const PassPart::Kind kind = this->kind(i);
      if (kind == PassPart::Kind::pass && nth(block_of_entry_, i).pass >= next_.pass)
        next_ = {nth(block_of_entry_, i).pass, nth(block_of_entry_, i).block + 1};
      else if (kind == PassPart::Kind::call)
        read(i);
    }
    out_.complete = out_.complete && (p_.roles.size() == 1 || alike());
    for (const auto& direction : out_.passes) {
      for (const auto& chunk : direction)
        for (std::size_t m = 1; m + 1 < chunk.size(); ++m) out_.each = out_.each || !chunk[m].all.empty();
    }
    return std::move(out_);
  }

 private:
  /// Passes are alike, in whatever order they come, where each gives back what it gathers; but for what the first
  /// gathers for the whole step.
  [[nodiscard]] bool alike() const {
    for (std::size_t pass = 0; pass < out_.passes.size(); ++pass) {
      for (const auto& chunk : out_.passes[pass]) {
        if (chunk.empty()) continue;
        const auto last = chunk.end() - (pass == 0 || chunk.size() < 2 ? 0 : 1);
        const auto gives_back = [](const PassCalls& of) {
          return std::accumulate(of.all.begin(), of.all.end(), 0.0, add_gathered) == 0;
        };
        if (!std::all_of(chunk.begin() + 1, last, gives_back)) return false;
      }
    }
    return true;
  }
  /// What blocks keep comes back in every pass.
  static double add_gathered(double sum, const PassCall& c) {
    if (c.needed < 0 && c.memory.has_tasks) return sum;
    return sum + c.memory.end - nth(c.memory.curve->at_end, MemoryCategory::activations);
  }

  struct Block {
    int pass = -1, block = -1;
    [[nodiscard]] bool after(const Block& o) const { return std::pair(pass, block) > std::pair(o.pass, o.block); }
  };
  struct PassOf {
    Pass pass;
    int chunk, microbatch;
    int number = 0;  ///< Of its kind.
    int order = 0;   ///< Of the stage; two that run interleaved share one.
    int blocks = 0;
    bool paired = false;
    [[nodiscard]] bool is(const PassOf& o) const {
      return pass == o.pass && chunk == o.chunk && microbatch == o.microbatch;
    }
  };

  PassPart::Kind kind(int entry) {
    const int body = nth(role_.step, entry).body;
    auto& known = nth(parts_, body);
    if (!known) known = part_of(nth(p_.bodies, body));
    return known->kind;
  }

  /// Numbers blocks and passes, and notes which events they end with and wait for.
  void find_blocks() {
    std::map<std::pair<Pass, int>, int> seen;
    for (int i = 0; i < stage_.tail; ++i) {
      const Entry& e = nth(role_.step, i);
      block_of_entry_.emplace_back();
      if (kind(i) != PassPart::Kind::pass) continue;
      const StagePasses::Place at = numbers_.of(e, nth(p_.bodies, e.body).phase);
      PassOf pass{at.pass, at.chunk, e.microbatch};
      // One of the last two, which may run interleaved.
      const auto is = [&](const PassOf& other) { return other.is(pass); };
      auto known = std::find_if(passes_.end() - std::min<std::ptrdiff_t>(2, std::ssize(passes_)), passes_.end(), is);
      if (known == passes_.end()) {
        pass.number = seen[{pass.pass, pass.chunk}]++;
        const bool second = e.interleave >= 0 && e.interleave < i;
        pass.order = passes_.empty() ? 0 : passes_.back().order + (second ? 0 : 1);
        passes_.push_back(pass);
        known = passes_.end() - 1;
      }
      known->paired = known->paired || e.interleave >= 0;
      known->blocks = std::max(known->blocks, at.block + 1);
      const Block here{static_cast<int>(known - passes_.begin()), at.block};
      block_of_entry_.back() = here;
      if (e.record >= 0) nth(ends_, e.record) = here;
      for (std::int32_t w = 0; w < e.wait_count; ++w) {
        const Wait& wait = nth(role_.waits, e.first_wait + w);
        if (wait.steps_back == 0 && nth(users_, wait.event).pass < 0) nth(users_, wait.event) = here;
      }
    }
    for (const PassOf& pass : passes_) {
      (void)list_of(pass);
      auto& paired = out_.paired[static_cast<std::size_t>(pass.pass)];
      paired.resize(nth(out_.passes, pass.pass).size());
      nth(paired, pass.chunk).resize(nth(nth(out_.passes, pass.pass), pass.chunk).size());
      nth(paired, pass.chunk)[static_cast<std::size_t>(pass.number)] = pass.paired;
    }
    find_second_gathers();
  }

  /// A call without tasks that waits for one event: storage given back by it, before its use.
  [[nodiscard]] bool gives_back_unused(const Entry& e) const {
    return nth(p_.bodies, e.body).graph.size() == 0 && e.stream == kKernels && e.wait_count == 1 && e.record >= 0;
  }

  [[nodiscard]] EventId only_wait(const Entry& e) const {
    const Wait* wait = e.wait_count == 1 ? &nth(role_.waits, e.first_wait) : nullptr;
    return wait != nullptr && wait->steps_back == 0 ? wait->event : -1;
  }

  /// What is gathered, given back and gathered again for a block is one call: its last gather's user is the first's.
  void find_second_gathers() {
    std::map<EventId, EventId> gathered;  // By the event with which it is given back.
    for (int i = 0; i < stage_.tail; ++i) {
      const Entry& e = nth(role_.step, i);
      if (kind(i) != PassPart::Kind::call) continue;
      const EventId after = only_wait(e);
      if (after >= 0 && gives_back_unused(e)) gathered[e.record] = after;
      if (const auto at = gathered.find(after); at != gathered.end() && e.record >= 0)
        nth(users_, at->second) = nth(users_, e.record);
    }
  }

  /// A call of no task that holds and frees nothing ends with the last block that it waits for.
  bool does_nothing(const Entry& e) {
    const BindingSet& bindings = nth(p_.binding_sets, e.bindings);
    const auto holds = [](const Binding& b) { return b.allocate || b.release; };
    if (nth(p_.bodies, e.body).graph.size() > 0 || std::any_of(bindings.begin(), bindings.end(), holds)) return false;
    Block latest;
    for (std::int32_t w = 0; w < e.wait_count; ++w) {
      const Wait& wait = nth(role_.waits, e.first_wait + w);
      const Block from = wait.steps_back > 0 ? Block{} : nth(ends_, wait.event);
      if (from.pass < 0) return false;
      if (from.after(latest)) latest = from;
    }
    if (e.record >= 0) nth(ends_, e.record) = latest;
    return true;
  }

  /// Makes `e` a part of the call that it waits for, where it gives back or gathers again what that one gathered. False
  /// where there is no such call.
  bool joins_call(const Entry& e) {
    const auto at = call_that_ends_.find(only_wait(e));
    if (at == call_that_ends_.end()) return false;
    const bool unused = gives_back_unused(e);
    if (!unused && !at->second.given_back) return false;
    PassCall& call = nth(at->second.list->all, at->second.index);
    if (call.tasks.size() + 1 >= kMostCallTasks) {
      out_.complete = false;
      return true;
    }
    PassCall more;
    add_memory(e, more);
    const auto all = static_cast<std::uint32_t>((std::uint64_t{1} << call.tasks.size()) - 1);
    if (unused) {
      call.tasks.push_back({-1, 0, {}, all});
    } else {
      const auto before = static_cast<int>(call.tasks.size());
      for (CallTask t : tasks_of(e.body)) {
        t.after = t.after == 0 ? all : t.after << before;
        call.tasks.push_back(t);
      }
      // Its storage is what was given back.
      out_.complete =
          out_.complete && more.memory.end == -at->second.given_back_bytes && more.memory.peak <= more.memory.end;
    }
    out_.complete = out_.complete && call.tasks.size() <= kMostCallTasks && !e.host_wait && e.mark_count == 0;
    out_.ends.push_back({e.record, sides_of(call.tasks)});
    call_that_ends_[e.record] = {at->second.list, at->second.index, unused, more.memory.end};
    return true;
  }

  PassCalls& list_of(const PassOf& pass) {
    const auto at = [](auto& list, int i) -> auto& {
      if (list.size() <= static_cast<std::size_t>(i)) list.resize(static_cast<std::size_t>(i) + 1);
      return nth(list, i);
    };
    return at(at(nth(out_.passes, pass.pass), pass.chunk), pass.number);
  }

  /// Whether later blocks find storage that the call makes.
  [[nodiscard]] bool makes_storage(const Entry& e) const {
    const BindingSet& bindings = nth(p_.binding_sets, e.bindings);
    return std::any_of(bindings.begin(), bindings.end(), [this](const Binding& b) {
      return b.allocate && nth(p_.tensors, b.tensor).space == MemorySpace::device;
    });
  }

  [[nodiscard]] static std::uint32_t sides_of(const std::vector<CallTask>& tasks) {
    std::uint32_t out = 0;
    for (const CallTask& t : tasks)
      if (t.side >= 0) out |= std::uint32_t{1} << t.side;
    return out;
  }

  void read(int index) {
    const Entry& e = nth(role_.step, index);
    if (does_nothing(e) || joins_call(e)) return;
    PassCall call;
    const Block user = e.record >= 0 ? nth(users_, e.record) : Block{};
    Block owner = next_;  // The pass, and the block before which the call stands.
    if (user.pass >= 0 && makes_storage(e)) {
      if (user.pass != next_.pass) owner = {user.pass, 0};
      if (skips(e, owner)) return;
      out_.complete = out_.complete && (user.pass == next_.pass || comes_next(user));
      call.needed = user.block;
    } else {
      if (skips(e, owner)) return;
      call.behind = true;
      call.holds = user.pass >= 0;
      // Nobody later than the next block waits for it.
      const bool next = user.pass == next_.pass ? user.block == next_.block : comes_next(user) && user.block == 0;
      out_.complete = out_.complete && next_.block > 0 && (!call.holds || next);
    }
    if (owner.pass < 0) {
      out_.complete = false;
      return;
    }
    call.at = owner.block;
    PassCalls& list = list_of(nth(passes_, owner.pass));
    find_begin(e, owner.pass, list, call);
    call.tasks = tasks_of(e.body);
    call.copies = !call.tasks.empty() && call.tasks.back().side >= 0 &&
                  p_.role_of(nth(sides_, call.tasks.back().side)) != StreamRole::communication;
    add_memory(e, call);
    out_.of_blocks = out_.of_blocks || nth(call.memory.curve->at_end, MemoryCategory::activations) != 0;
    if (e.record >= 0) {
      out_.ends.push_back({e.record, sides_of(call.tasks)});
      ended_by_[e.record] = {&list, list.all.size(), call.holds};
      if (call.needed >= 0) call_that_ends_[e.record] = {&list, list.all.size(), false, 0};
    }
    list.all.push_back(std::move(call));
  }

  [[nodiscard]] int order_of(const Block& b) const { return nth(passes_, b.pass).order; }
  [[nodiscard]] bool comes_next(const Block& b) const {
    return b.pass >= 0 && order_of(b) == (next_.pass < 0 ? 0 : order_of(next_) + 1);
  }

  /// Calls of interleaved passes are as those of others.
  bool skips(const Entry& e, const Block& owner) {
    if (owner.pass < 0 || !nth(passes_, owner.pass).paired) return false;
    if (e.record >= 0) {
      std::uint32_t sides = 0;
      for (const CallTask& t : tasks_of(e.body))
        if (t.side >= 0) sides |= std::uint32_t{1} << t.side;
      out_.ends.push_back({e.record, sides});
      ended_by_[e.record] = {nullptr, 0, true};
    }
    return true;
  }

  void find_begin(const Entry& e, int pass, const PassCalls& list, PassCall& call) {
    Block latest;
    for (std::int32_t w = 0; w < e.wait_count; ++w) {
      const Wait& wait = nth(role_.waits, e.first_wait + w);
      const Block from = wait.steps_back > 0 ? Block{} : nth(ends_, wait.event);
      if (from.after(latest)) latest = from;
    }
    for (std::int32_t w = 0; w < e.wait_count; ++w) {
      const Wait& wait = nth(role_.waits, e.first_wait + w);
      if (wait.steps_back > 0) {
        call.need = static_cast<int>(needed_.size());
        needed_.push_back(wait.event);
        continue;
      }
      const Block from = nth(ends_, wait.event);
      if (const auto other = ended_by_.find(wait.event); other != ended_by_.end()) {
        follow(other->second, nth(users_, wait.event), pass, latest, list, call);
        continue;
      }
      int after = PassCall::kNothing;
      if (from.pass == pass)
        after = from.block;
      else if (from.pass >= 0 && order_of(from) + 1 == nth(passes_, pass).order)
        after = from.block + 1 - nth(passes_, from.pass).blocks + PassCall::kBegin;
      out_.complete = out_.complete && after > PassCall::kNothing;
      call.after = std::max(call.after, after);
    }
    if (nth(p_.bodies, e.body).graph.size() == 0) out_.complete = out_.complete && e.wait_count == 0;
    out_.complete = out_.complete && !e.host_wait && e.mark_count == 0 && e.graph < 0;
  }

  struct InList {
    const PassCalls* list;
    std::size_t index;
    bool holds;
  };
  /// After a call that came before: one of the same pass, one that its first block waits for, or one that a block has
  /// waited for which the call comes after anyway.
  void follow(const InList& other, const Block& user, int pass, const Block& latest, const PassCalls& list,
              PassCall& call) {
    if (other.list == &list && call.follows < static_cast<int>(other.index))
      call.follows = static_cast<int>(other.index);
    else if (other.holds && user.pass == pass && user.block == 0)
      call.gated = true;
    else if (user.pass < 0 || user.after(latest))
      out_.complete = false;
  }

  /// Calls of one body are alike but for their storage.
  const std::vector<CallTask>& tasks_of(int number) {
    const auto [at, fresh] = tasks_.try_emplace(number);
    std::vector<CallTask>& out = at->second;
    if (!fresh) return out;
    const Body& body = nth(p_.bodies, number);
    const auto computes = [&](auto v) { return std::holds_alternative<ComputeTask>(body.graph[v].kind); };
    const auto all = body.graph.vertices();
    const double stretch = std::any_of(all.begin(), all.end(), computes) ? prices_.stretch(number, stage_.role) : 1.0;
    std::vector<int> of_task;
    for (const auto v : body.graph.vertices()) {
      const Task& task = body.graph[v];
      CallTask t;
      for (const std::size_t before : body.graph.before(v))
        if (of_task[before] >= 0) t.after |= std::uint32_t{1} << of_task[before];
      of_task.push_back(-1);
      if (p_.exprs.evaluate(task.predicate, prices_.context(stage_.role)) == 0) continue;
      const auto side = side_of(task.stream);
      if (!side || task.host_wait) {
        out_.complete = false;
        continue;
      }
      t.side = *side;
      if (std::holds_alternative<CollectiveTask>(task.kind)) {
        const Transfer transfer = prices_.collective(number, static_cast<int>(v), stage_.role);
        t.seconds = transfer.seconds;
        t.load = transfer.load;
      } else {
        const ComputeWork work = prices_.task(number, static_cast<int>(v), stage_.role);
        t.seconds = work.seconds * stretch;
        if (t.side < 0) out_.kernels += work.breakdown;
      }
      if (out.empty() || !joins(out, t)) out.push_back(t);
      of_task.back() = static_cast<int>(out.size()) - 1;
      if (out.size() == kMostCallTasks) {
        out_.complete = false;
        break;
      }
    }
    return out;
  }

  /// Whether the task only follows the last one on its stream, of which it then is a part.
  static bool joins(std::vector<CallTask>& tasks, const CallTask& t) {
    CallTask& last = tasks.back();
    if (t.side < 0 || t.side != last.side) return false;
    for (std::size_t i = 0; i < tasks.size(); ++i)
      if ((t.after >> i & 1) != 0 && tasks[i].side != t.side && (last.after >> i & 1) == 0) return false;
    if (const double all = last.seconds + t.seconds; all > 0)
      last.load = {(last.load.sm_share * last.seconds + t.load.sm_share * t.seconds) / all,
                   (last.load.hbm_share * last.seconds + t.load.hbm_share * t.seconds) / all};
    last.seconds += t.seconds;
    return true;
  }

  /// Of a task; nothing where a lane keeps no such stream.
  [[nodiscard]] std::optional<int> side_of(StreamId stream) const {
    if (stream == kKernels) return -1;
    const auto at = std::find(sides_.begin(), sides_.end(), stream);
    if (at == sides_.end() || at - sides_.begin() >= kSides) return {};
    return static_cast<int>(at - sides_.begin());
  }

  void add_memory(const Entry& e, PassCall& call) {
    ExprContext at = prices_.context(stage_.role);
    at.tables = &p_.tables;
    at.microbatches = p_.microbatches;
    at.layer = e.layer;
    at.chunk = e.chunk;
    at.microbatch = e.microbatch;
    const Body& body = nth(p_.bodies, e.body);
    const BindingSet& bindings = nth(p_.binding_sets, e.bindings);
    const auto [varies, unknown] = varies_.try_emplace({e.body, e.bindings}, false);
    if (unknown) varies->second = memory_varies_by_call(p_, body, bindings);
    const auto [known, fresh] = memory_.try_emplace({e.body, e.bindings, varies->second ? e.layer : -1});
    if (fresh) known->second = {e.stream == kKernels, body.graph.size() > 0, body_curve(p_, at, body, bindings)};
    call.memory = known->second;
    out_.complete = out_.complete && call.memory.curve->later.empty();
  }

  const Program& p_;
  const StagePasses& numbers_;
  const Stage& stage_;
  EstimatePrices& prices_;
  std::vector<EventId>& needed_;
  const Role& role_;
  std::vector<std::optional<PassPart>> parts_;
  std::vector<Block> block_of_entry_, ends_, users_;  ///< The last two by event.
  std::vector<PassOf> passes_;
  std::vector<StreamId> sides_;
  std::map<int, std::vector<CallTask>> tasks_;  ///< By body.
  std::map<std::pair<int, int>, bool> varies_;  ///< By body and bindings.
  std::map<std::array<int, 3>, MemoryCall> memory_;
  struct Gathered {
    PassCalls* list;
    std::size_t index;
    bool given_back;  ///< Its storage, and so many bytes.
    double given_back_bytes;
  };
  std::map<EventId, Gathered> call_that_ends_;
  std::map<EventId, InList> ended_by_;  ///< By the event with which a call ends.
  Block next_;                          ///< The pass at hand and its next block.
  StageCalls out_;
};

}  // namespace

StageCalls read_calls(const Program& program, const StagePasses& passes, const Stage& stage, EstimatePrices& prices,
                      std::vector<EventId>& needed) {
  return CallReader(program, passes, stage, prices, needed).run();
}

PassCalls part_of(const PassCalls& calls, int base, int count) {
  PassCalls out;
  std::vector<int> renumbered(calls.all.size(), -1);
  for (std::size_t i = 0; i < calls.all.size(); ++i) {
    const PassCall& from = calls.all[i];
    if (from.owner() < base || from.owner() >= base + count) continue;
    renumbered[i] = static_cast<int>(out.all.size());
    PassCall call = from;
    if (call.follows >= 0) call.follows = nth(renumbered, call.follows);
    call.at = std::max(call.at - base, 0);
    if (call.needed >= 0) call.needed -= base;
    // What follows a block of another pass follows the pass before this one.
    if (base > 0 && (call.after >= 0 || call.after == PassCall::kNothing))
      call.after = std::max(call.after - base, PassCall::kBegin);
    out.add(std::move(call));
  }
  return out;
}

void PassCalls::add(PassCall call) {
  timed_at.push_back(call.tasks.empty() ? -1 : static_cast<int>(timed.size()));
  if (!call.tasks.empty()) {
    const int follows = call.follows < 0 ? -1 : nth(timed_at, call.follows);
    timed.push_back({call.at, call.after, call.needed, call.need, follows, call.holds, call.gated, call.copies,
                     static_cast<std::uint32_t>(tasks.size()), static_cast<std::uint32_t>(call.tasks.size())});
    tasks.insert(tasks.end(), call.tasks.begin(), call.tasks.end());
    const bool before = call.after == PassCall::kEarly || call.after == PassCall::kNothing;
    for (const CallTask& t : call.tasks) {
      const std::uint32_t side = t.side < 0 ? 0U : 1U << static_cast<unsigned>(t.side);
      sides |= side;
      early |= before ? side : 0U;
    }
    asks_early = asks_early || call.after == PassCall::kEarly;
    asks_before = asks_before || call.need >= 0;
  }
  all.push_back(std::move(call));
}

}  // namespace rehearse
