#include "gpu_backend/execute/plan.hpp"

#include <algorithm>
#include <array>
#include <set>
#include <stdexcept>

#include <fmt/format.h>

#include "core/base/error.hpp"
#include "core/base/index.hpp"
#include "core/program/body.hpp"
#include "gpu_backend/execute/bounds.hpp"

namespace rehearse {

namespace {

/// Tensor, layer, chunk, microbatch, pass; -1 or 0 where the tensor has no such instances.
using Instance = std::array<int, 5>;

[[noreturn]] void gap(const std::string& what) {
  throw Error(ErrorKind::unavailable, what + " cannot be executed yet", "program",
              "'rehearse simulate' plays it; 'rehearse list strategies' says what runs for real");
}

void merge(std::vector<int>& to, const std::vector<int>& from) {
  for (const int i : from)
    if (std::find(to.begin(), to.end(), i) == to.end()) to.push_back(i);
}

}  // namespace

class PlanBuilder {
 public:
  PlanBuilder(RankPlan& plan)
      : plan_(plan), p_(plan.program()), role_(plan.role()), self_(p_.mesh.context(plan.rank())) {
    self_.microbatches = role_.microbatches > 0 ? role_.microbatches : p_.microbatches;
    self_.tables = &p_.tables;
  }

  void build() {
    if (!role_.prologue.empty() || !role_.epilogue.empty()) gap("work before the first or after the last step");
    for (const Role::Persistent& t : role_.persistent)
      if (tensor(t.tensor).alias_of < 0)
        live_[instance(t.tensor, {}, t.layer)] = make_slot(t.tensor, t.layer, self_, true);
    events_.resize(static_cast<std::size_t>(role_.events));
    for (const Entry& e : role_.step) add(e);
    if (!plan_.step_.empty())
      plan_.step_.back().frees.insert(plan_.step_.back().frees.end(), beside_.begin(), beside_.end());
    for (auto& [instruction, event] : later_) merge(nth(plan_.step_, instruction).after_previous, nth(events_, event));
  }

 private:
  [[nodiscard]] const Tensor& tensor(int id) const { return nth(p_.tensors, id); }

  struct Where {
    int layer = 0, chunk = 0, microbatch = 0, pass = 0;
  };
  [[nodiscard]] Instance instance(int id, const InstanceRef& r, const Where& w) const {
    const Tensor& t = tensor(id);
    return {id, t.per_layer ? w.layer + r.layer_delta : -1, t.per_chunk ? w.chunk + r.chunk_delta : 0,
            t.per_microbatch ? w.microbatch + r.microbatch_delta : 0, t.per_pass ? w.pass + r.pass_delta : 0};
  }
  [[nodiscard]] Instance instance(int id, const InstanceRef& r, int layer) const {
    return instance(id, r, Where{layer, 0, 0, 0});
  }

  int make_slot(int id, int layer, const ExprContext& at, bool persistent) {
    const Held* h = plan_.held_by(id, at);
    plan_.slots_.push_back({id, tensor(id).per_layer ? layer : -1, h->elements(),
                            static_cast<double>(h->elements()) * size_of(tensor(id).dtype), persistent});
    return static_cast<int>(plan_.slots_.size()) - 1;
  }

  /// A formal of the entry at hand: whose storage it uses, and from where on.
  struct Bound {
    const Binding* binding = nullptr;
    int tensor = 0, layer = 0;
    int base = -1;  ///< Formal whose storage it is, where that is of this body; else `slot`.
    int slot = -1;
    std::int64_t first = 0;
    int inside = -1;                    ///< Tensor of whose storage it is the part without halos.
    int first_use = -1, last_use = -1;  ///< Instructions.
  };

  void add(const Entry& e) {
    // Interleaved entries run one after the other: the same values, without the overlap.
    const Body& body = nth(p_.bodies, e.body);
    ExprContext at = self_;
    at.layer = e.layer, at.chunk = e.chunk, at.microbatch = e.microbatch, at.copy = e.copy, at.pass = e.pass;
    const std::vector<int> waits = waits_of(e, -1);
    if (!runs(e.predicate, at)) {
      if (e.record >= 0) nth(events_, e.record) = waits;
      return;
    }
    const auto first = static_cast<int>(plan_.step_.size());
    add_tasks(e, body, at, waits);
    bind(e, body, at, first);
    free_buffers(e, body);
  }

  /// What the entry gave back of buffers of communication is in use until the compute issued beside it is done
  /// (core/program/liveness).
  void free_buffers(const Entry& e, const Body& body) {
    if (plan_.step_.empty()) return;
    std::vector<int>& frees = plan_.step_.back().frees;
    const auto free_all = [&frees](std::vector<int>& slots) {
      frees.insert(frees.end(), slots.begin(), slots.end());
      slots.clear();
    };
    if (e.stream == kCompute)
      free_all(given_back_);
    else
      beside_.insert(beside_.end(), given_back_.begin(), given_back_.end());
    given_back_.clear();
    if (e.stream == kCompute && body.graph.size() > 0) free_all(beside_);
  }

  [[nodiscard]] bool runs(ExprId predicate, const ExprContext& at) const {
    if (p_.exprs.depends_on(predicate, Var::step)) gap("a predicate of the step");
    return p_.exprs.evaluate(predicate, at) != 0;
  }

  /// Instructions that the waits of an entry for `task` (-1: for every stream's first) stand for.
  std::vector<int> waits_of(const Entry& e, int task) {
    std::vector<int> out;
    for (int w = 0; w < e.wait_count; ++w) {
      const Wait& wait = nth(role_.waits, e.first_wait + w);
      if (wait.task == task && wait.steps_back == 0) merge(out, nth(events_, wait.event));
    }
    return out;
  }
  void wait_for_previous(const Entry& e, int task, int instruction) {
    for (int w = 0; w < e.wait_count; ++w) {
      const Wait& wait = nth(role_.waits, e.first_wait + w);
      if (wait.steps_back > 1) gap("a wait for an event of two steps before");
      if (wait.task == task && wait.steps_back == 1) later_.emplace_back(instruction, wait.event);
    }
  }

  /// Appends the tasks that run, with what each comes after. A skipped task stands for what it would have waited for.
  void add_tasks(const Entry& e, const Body& body, const ExprContext& at, const std::vector<int>& waits) {
    const std::size_t n = body.graph.size();
    std::vector<std::vector<int>> stands_for(n);
    std::map<StreamId, int> last;
    std::set<StreamId> begun;
    for (std::size_t v = 0; v < n; ++v) {
      const Task& task = body.graph[v];
      std::vector<int> after = waits_of(e, static_cast<int>(v));
      const bool opens = begun.insert(task.stream).second;
      if (opens) merge(after, waits);
      for (const std::size_t before : body.graph.before(v)) merge(after, stands_for[before]);
      if (!runs(task.predicate, at)) {
        if (opens) begun.erase(task.stream);
        stands_for[v] = std::move(after);
        continue;
      }
      Instruction next;
      next.entry = &e, next.body = &body, next.task = &task, next.task_number = static_cast<int>(v), next.at = at;
      next.after = std::move(after);
      const auto number = static_cast<int>(plan_.step_.size());
      plan_.step_.push_back(std::move(next));
      if (opens) wait_for_previous(e, -1, number);
      wait_for_previous(e, static_cast<int>(v), number);
      stands_for[v] = {number};
      last[task.stream] = number;
    }
    if (e.record >= 0) {
      std::vector<int>& done = nth(events_, e.record);
      for (const auto& [stream, number] : last) done.push_back(number);
      if (last.empty()) done = waits;
    }
    for (int m = 0; m < e.mark_count; ++m) {
      const Mark& mark = nth(role_.marks, e.first_mark + m);
      nth(events_, mark.event) = nth(stands_for, mark.task);
    }
  }

  void bind(const Entry& e, const Body& body, const ExprContext& at, int first) {
    std::vector<Bound> formals = resolve(e, body, at);
    find_uses(formals, first);
    for (std::size_t f = 0; f < formals.size(); ++f) allocate(body, e, at, formals[f], body.formals[f].name);
    for (auto i = static_cast<std::size_t>(first); i < plan_.step_.size(); ++i) {
      Instruction& in = plan_.step_[i];
      for (const Operand& o : in.task->operands) {
        const Bound& b = nth(formals, o.formal);
        const Bound& base = nth(formals, root(formals, o.formal));
        in.operands.push_back({base.slot,
                               first_element(formals, o.formal),
                               b.tensor,
                               b.layer,
                               plan_.held_by(b.tensor, at),
                               o.access,
                               {}});
        if (b.inside >= 0)
          take_inside(in, b.inside, at);
        else
          check_room(in, in.operands.back());
      }
      if (const CollectiveTask* c = counted(*in.task)) bind_values(in, *c, formals, at);
    }
    for (Bound& b : formals) release(e, b);
  }

  /// Messages carry what a rank owns of a tensor with halos: all others work on whole storage.
  void take_inside(Instruction& in, int base, const ExprContext& at) {
    PlannedOperand& o = in.operands.back();
    if (!std::holds_alternative<P2pTask>(in.task->kind))
      gap("a view that is not contiguous ('" + tensor(o.tensor).name + "')");
    o.within = common(*plan_.held_by(base, at), *o.held);
  }

  /// The task, where it is a collective whose counts only the data decides.
  [[nodiscard]] static const CollectiveTask* counted(const Task& task) {
    const auto* c = std::get_if<CollectiveTask>(&task.kind);
    return c != nullptr && c->variable_counts && c->op != CollectiveOp::halo_exchange ? c : nullptr;
  }
  [[nodiscard]] bool asks_for(const CollectiveTask& c, int dim) const {
    return p_.exprs.depends_on(c.count_to_peer, Var::dynamic, dim) ||
           p_.exprs.depends_on(c.count_from_peer, Var::dynamic, dim);
  }
  /// Formal that holds a tensor, or -1.
  [[nodiscard]] static int holder_of(const std::vector<Bound>& formals, int tensor) {
    for (std::size_t f = 0; f < formals.size(); ++f)
      if (formals[f].tensor == tensor) return static_cast<int>(f);
    return -1;
  }

  /// The tensors that hold what a task's counts ask for; some formal of the body is each of them.
  void bind_values(Instruction& in, const CollectiveTask& c, const std::vector<Bound>& formals, const ExprContext& at) {
    for (std::size_t d = 0; d < p_.dynamic_dims.size(); ++d) {
      in.values.push_back({-1, 0, p_.dynamic_dims[d].source, 0, nullptr, Access::read, {}});
      if (!asks_for(c, static_cast<int>(d))) continue;
      if (const int f = holder_of(formals, p_.dynamic_dims[d].source); f >= 0) {
        const Bound& b = nth(formals, f);
        in.values.back() = {b.slot, 0, b.tensor, b.layer, plan_.held_by(b.tensor, at), Access::read, {}};
      }
      if (in.values.back().slot < 0)
        throw std::logic_error(
            fmt::format("{}/{}: nothing holds '{}'", in.body->name, in.task->name, p_.dynamic_dims[d].name));
    }
  }

  /// An operand that reaches beyond its storage is a mistake of the plan.
  void check_room(const Instruction& in, const PlannedOperand& o) const {
    if (o.slot < 0)
      throw std::logic_error(fmt::format("rank {}: {}/{}: '{}' has no storage", plan_.rank(), in.body->name,
                                         in.task->name, tensor(o.tensor).name));
    const StorageSlot& s = nth(plan_.slots_, o.slot);
    const double end = static_cast<double>(o.first + o.held->elements()) * size_of(tensor(o.tensor).dtype);
    if (o.first < 0 || end > s.bytes)
      throw std::logic_error(fmt::format("rank {}: {}/{}: '{}' ends at byte {} of '{}', which has {}", plan_.rank(),
                                         in.body->name, in.task->name, tensor(o.tensor).name, end,
                                         tensor(s.tensor).name, s.bytes));
  }

  [[nodiscard]] static int root(const std::vector<Bound>& formals, int f) {
    while (nth(formals, f).base >= 0) f = nth(formals, f).base;
    return f;
  }
  [[nodiscard]] static std::int64_t first_element(const std::vector<Bound>& formals, int f) {
    std::int64_t first = 0;
    for (; f >= 0; f = nth(formals, f).base) first += nth(formals, f).first;
    return first;
  }

  std::vector<Bound> resolve(const Entry& e, const Body& body, const ExprContext& at) {
    const BindingSet& set = nth(p_.binding_sets, e.bindings);
    const Where where{e.layer, e.chunk, e.microbatch, e.pass};
    std::vector<Bound> out(body.formals.size());
    std::size_t next = 0;
    for (std::size_t f = 0; f < out.size(); ++f) {
      if (body.formals[f].bound) out[f].binding = &set.at(next++);
      out[f].tensor = out[f].binding != nullptr ? out[f].binding->tensor : body.formals[f].like;
      out[f].layer = e.layer + (out[f].binding != nullptr ? out[f].binding->instance.layer_delta : 0);
    }
    for (std::size_t f = 0; f < out.size(); ++f) {
      if (tensor(out[f].tensor).alias_of >= 0)
        resolve_view(out, f, where, at);
      else if (out[f].binding != nullptr && !out[f].binding->allocate)
        out[f].slot = find(instance(out[f].tensor, out[f].binding->instance, where), body.formals[f].name);
    }
    return out;
  }

  /// A view uses the storage of a formal of this body where one is its base, else of an instance that lives.
  void resolve_view(std::vector<Bound>& formals, std::size_t f, const Where& where, const ExprContext& at) {
    const Tensor& view = tensor(formals[f].tensor);
    InstanceRef r = view.alias_instance;
    if (formals[f].binding != nullptr) {
      const InstanceRef& own = formals[f].binding->instance;
      r.layer_delta += own.layer_delta, r.chunk_delta += own.chunk_delta, r.microbatch_delta += own.microbatch_delta,
          r.pass_delta += own.pass_delta;
    }
    if (plan_.held_by(view.alias_of, at)->haloed() && !plan_.held_by(formals[f].tensor, at)->haloed())
      formals[f].inside = view.alias_of;
    formals[f].first = p_.exprs.evaluate(view.alias_offset, at);
    if (view.alias_dim >= 0) formals[f].first *= elements_apart(view, at);
    for (std::size_t b = 0; b < formals.size(); ++b) {
      const Binding* binding = formals[b].binding;
      if (formals[b].tensor != view.alias_of || b == f) continue;
      if (binding == nullptr ||
          instance(view.alias_of, binding->instance, where) == instance(view.alias_of, r, where)) {
        formals[f].base = static_cast<int>(b);
        return;
      }
    }
    // A view of the body's own names no instance: the formal it was made of is the only one of its tensor.
    const int only = holder_of(formals, view.alias_of);
    if (formals[f].binding == nullptr && only >= 0)
      formals[f].base = only;
    else
      formals[f].slot = find(instance(view.alias_of, r, where), view.name);
  }

  /// Elements between neighbours along the dimension in which a view begins.
  std::int64_t elements_apart(const Tensor& view, const ExprContext& at) {
    const std::vector<std::int64_t>& extents = plan_.held_by(view.alias_of, at)->extents;
    std::int64_t out = 1;
    for (std::size_t d = 0; d < extents.size(); ++d) {
      if (d < static_cast<std::size_t>(view.alias_dim) && extents[d] != 1)
        gap("a view that is not contiguous ('" + view.name + "')");
      if (d > static_cast<std::size_t>(view.alias_dim)) out *= extents[d];
    }
    return out;
  }

  [[nodiscard]] int find(const Instance& i, const std::string& name) const {
    const auto at = live_.find(i);
    if (at == live_.end())
      throw std::logic_error(
          fmt::format("rank {}: '{}' (tensor '{}', block {}, microbatch {}) is used while it has no storage",
                      plan_.rank(), name, tensor(i[0]).name, i[1], i[3]));
    return at->second;
  }

  void find_uses(std::vector<Bound>& formals, int first) const {
    const auto use = [&](int f, std::size_t i) {
      for (; f >= 0; f = nth(formals, f).base) {
        Bound& b = nth(formals, f);
        if (b.first_use < 0) b.first_use = static_cast<int>(i);
        b.last_use = static_cast<int>(i);
      }
    };
    for (auto i = static_cast<std::size_t>(first); i < plan_.step_.size(); ++i) {
      for (const Operand& o : plan_.step_[i].task->operands) use(o.formal, i);
      if (const CollectiveTask* c = counted(*plan_.step_[i].task))
        for (std::size_t d = 0; d < p_.dynamic_dims.size(); ++d)
          if (asks_for(*c, static_cast<int>(d))) use(holder_of(formals, p_.dynamic_dims[d].source), i);
    }
  }

  void allocate(const Body& body, const Entry& e, const ExprContext& at, Bound& b, const std::string& name) {
    const bool scratch = b.binding == nullptr;
    if (tensor(b.tensor).alias_of >= 0 || (!scratch && !b.binding->allocate)) return;
    if (b.first_use < 0) {
      if (!scratch)
        throw std::logic_error(fmt::format("body '{}' allocates '{}' and never writes it", body.name, name));
      return;
    }
    b.slot = make_slot(b.tensor, b.layer, at, false);
    nth(plan_.step_, b.first_use).allocates.push_back(b.slot);
    if (!scratch)
      live_[instance(b.tensor, b.binding->instance, Where{e.layer, e.chunk, e.microbatch, e.pass})] = b.slot;
  }

  void release(const Entry& e, Bound& b) {
    const bool scratch = b.binding == nullptr;
    if (tensor(b.tensor).alias_of >= 0 || (!scratch && !b.binding->release) || b.slot < 0) return;
    const bool buffer = !scratch && !b.binding->allocate && tensor(b.tensor).category == MemoryCategory::communication;
    if (buffer || b.last_use < 0)
      given_back_.push_back(b.slot);
    else
      nth(plan_.step_, b.last_use).frees.push_back(b.slot);
    if (!scratch) live_.erase(instance(b.tensor, b.binding->instance, Where{e.layer, e.chunk, e.microbatch, e.pass}));
  }

  RankPlan& plan_;
  const Program& p_;
  const Role& role_;
  ExprContext self_;
  static constexpr StreamId kCompute = 0;
  /// Slots released by the entry at hand; by entries since the last compute.
  std::vector<int> given_back_, beside_;
  std::map<Instance, int> live_;                ///< StorageSlot by instance.
  std::vector<std::vector<int>> events_;        ///< Instructions that an event completes with.
  std::vector<std::pair<int, EventId>> later_;  ///< Waits for events of the step before.
};

std::string name_of(const Instruction& in) { return in.body->name + "/" + in.task->name; }

RankPlan::RankPlan(const Program& program, int rank)
    : bounded_(program.dynamic_dims.empty() ? nullptr : std::make_unique<const Program>(at_bounds(program))),
      program_(bounded_ ? *bounded_ : program),
      rank_(rank) {
  PlanBuilder(*this).build();
}

const Role& RankPlan::role() const { return nth(program_.roles, nth(program_.role_of_rank, rank_)); }

const Held* RankPlan::held_by(int tensor, const ExprContext& at) {
  auto& out = held_[{tensor, at.coord}];  // Sizes may depend on where, not on when.
  if (!out) out = std::make_unique<Held>(held(program_, nth(program_.tensors, tensor), at));
  return out.get();
}

}  // namespace rehearse
