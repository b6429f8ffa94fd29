#include "core/program/liveness.hpp"

#include "core/program/body.hpp"
#include "core/program/rank_kinds.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>
#include <tuple>

#include <fmt/format.h>

namespace rehearse {

namespace {

using Amounts = std::array<double, kMemoryCategories>;

double sum(const Amounts& a) {
  double total = 0;
  for (const double x : a) total += x;
  return total;
}

void add(Amounts& to, const Amounts& from) {
  for (std::size_t i = 0; i < to.size(); ++i) to[i] += from[i];
}

void subtract(Amounts& from, const Amounts& what) {
  for (std::size_t i = 0; i < from.size(); ++i) from[i] -= what[i];
}

/// Storage that goes when an event has happened.
struct LateRelease { EventId event; std::size_t category; double bytes; };

/// What one call of a body does to device memory, relative to its start.
struct BodyCurve {
  std::vector<LateRelease> later;
  Amounts at_peak{};
  Amounts at_end{};
  std::array<double, 4> host_up{}, host_down{};  ///< Of bound tensors outside the device, by memory space.
  Amounts beside{};  ///< Communication buffers it gives back: in use until the compute issued beside it is done.
  double peak = 0;
  int peak_task = -1;
};

/// First and last task that touches a formal's storage.
struct Range { int first = -1, last = -1; };

class CurveMaker {
 public:
  CurveMaker(const Program& program, const ExprContext& at) : program_(program), at_(at) {}

  BodyCurve make(const Body& body, const BindingSet& bindings) const {
    const std::vector<Range> ranges = use_ranges(body, true), all = use_ranges(body, false);
    const std::size_t tasks = boost::num_vertices(body.graph);
    std::vector<Amounts> starts(tasks + 1), ends(tasks + 1);
    std::size_t next_binding = 0;
    BodyCurve curve;
    Amounts untouched{};
    for (std::size_t f = 0; f < body.formals.size(); ++f) {
      const Formal& formal = body.formals[f];
      const Binding* binding = formal.bound ? &bindings[next_binding++] : nullptr;
      const int id = binding != nullptr ? binding->tensor : formal.like;
      const Tensor& tensor = program_.tensors[static_cast<std::size_t>(id)];
      const bool makes = binding == nullptr || binding->allocate, drops = binding == nullptr || binding->release;
      // What is bound changes hands even where the tasks that would touch it are skipped; scratch then is not needed.
      const Range range = ranges[f].first < 0 && binding != nullptr ? all[f] : ranges[f];
      if (tensor.alias_of < 0 && tensor.space != MemorySpace::device && binding != nullptr) {
        const auto space = static_cast<std::size_t>(tensor.space);
        const double size = makes || drops ? program_.local_bytes(tensor, at_) : 0.0;
        curve.host_up[space] += makes ? size : 0.0;
        curve.host_down[space] += drops ? size : 0.0;
      }
      if (tensor.alias_of >= 0 || tensor.space != MemorySpace::device || (!makes && !drops) || (range.first < 0 && binding == nullptr)) continue;
      const double bytes = program_.local_bytes(tensor, at_);
      const auto category = static_cast<std::size_t>(tensor.category);
      if (range.first < 0) {  // A call without tasks.
        untouched[category] += (makes ? bytes : 0) - (drops ? bytes : 0);
        continue;
      }
      if (makes) starts[static_cast<std::size_t>(range.first)][category] += bytes;
      if (!drops) continue;
      if (binding != nullptr && binding->release_after >= 0) curve.later.push_back({binding->release_after, category, bytes});
      else if (binding != nullptr && !makes && tensor.category == MemoryCategory::communication) curve.beside[category] += bytes;
      else ends[static_cast<std::size_t>(range.last)][category] += bytes;
    }
    Amounts live{};
    for (std::size_t t = 0; t < tasks; ++t) {
      add(live, starts[t]);
      if (sum(live) > curve.peak || t == 0) {
        curve.peak = sum(live);
        curve.at_peak = live;
        curve.peak_task = static_cast<int>(t);
      }
      for (std::size_t i = 0; i < live.size(); ++i) live[i] -= ends[t][i];
    }
    add(live, untouched);
    curve.at_end = live;
    return curve;
  }

 private:
  /// With `played` only tasks count whose predicate holds.
  std::vector<Range> use_ranges(const Body& body, bool played) const {
    std::vector<Range> ranges(body.formals.size());
    // A view keeps the formal alive whose storage it shares.
    std::map<int, std::size_t> scratch_of_tensor;
    for (std::size_t f = 0; f < body.formals.size(); ++f)
      if (program_.tensors[static_cast<std::size_t>(body.formals[f].like)].alias_of < 0) scratch_of_tensor[body.formals[f].like] = f;
    const auto touch = [&](std::size_t f, int t) {
      if (ranges[f].first < 0) ranges[f].first = t;
      ranges[f].last = t;
    };
    for (const auto v : boost::make_iterator_range(boost::vertices(body.graph))) {
      if (played && program_.exprs.evaluate(body.graph[v].predicate, at_) == 0) continue;
      for (const Operand& o : body.graph[v].operands) {
        auto f = static_cast<std::size_t>(o.formal);
        touch(f, static_cast<int>(v));
        for (int base = program_.tensors[static_cast<std::size_t>(body.formals[f].like)].alias_of; base >= 0;
             base = program_.tensors[static_cast<std::size_t>(base)].alias_of)
          if (const auto at = scratch_of_tensor.find(base); at != scratch_of_tensor.end()) touch(at->second, static_cast<int>(v));
      }
    }
    return ranges;
  }

  const Program& program_;
  const ExprContext& at_;
};

/// One rank's step.
class Walk {
 public:
  Walk(const Program& program, int role_index, int rank) : p_(program), role_(program.roles[static_cast<std::size_t>(role_index)]), at_(program.mesh.context(rank)) {
    at_.tables = &p_.tables;
    at_.microbatches = role_.microbatches > 0 ? role_.microbatches : p_.microbatches;
    out_.role = role_index;
    out_.rank = rank;
  }

  RoleMemory run(Bytes workspace, Bytes framework) {
    now_[static_cast<std::size_t>(MemoryCategory::workspace)] = workspace.value();
    now_[static_cast<std::size_t>(MemoryCategory::framework)] = framework.value();
    hold_persistent();
    for (std::size_t s = 0; s < elsewhere_.size(); ++s) out_.peak_by_space[s] = Bytes{elsewhere_[s]};
    best_ = now_;
    best_sum_ = sum(now_);
    waiting_.resize(static_cast<std::size_t>(role_.events));
    happened_.assign(static_cast<std::size_t>(role_.events), false);
    for (const Entry& e : role_.step) call(e);
    report();
    return out_;
  }

 private:
  void hold_persistent() {
    for (const Role::Persistent& held : role_.persistent) {
      const Tensor& t = p_.tensors[static_cast<std::size_t>(held.tensor)];
      if (t.alias_of >= 0) continue;
      at_.layer = std::max(held.layer, 0);
      const double bytes = p_.local_bytes(t, at_);
      if (t.space == MemorySpace::device) now_[static_cast<std::size_t>(t.category)] += bytes;
      else elsewhere_[static_cast<std::size_t>(t.space)] += bytes;
    }
  }

  void call(const Entry& e) {
    at_.layer = e.layer;
    at_.chunk = e.chunk;
    at_.microbatch = e.microbatch;
    at_.pass = e.pass;
    at_.copy = e.copy;
    if (p_.exprs.evaluate(e.predicate, at_) == 0) return;
    const BodyCurve& c = curve(e);
    if (const double here = sum(now_) + c.peak; here > best_sum_) {
      best_sum_ = here;
      best_ = now_;
      add(best_, c.at_peak);
      best_entry_ = &e;
      best_task_ = c.peak_task;
    }
    for (std::size_t s = 0; s < elsewhere_.size(); ++s) {
      elsewhere_[s] += c.host_up[s];
      out_.peak_by_space[s] = max(out_.peak_by_space[s], Bytes{elsewhere_[s]});
      elsewhere_[s] -= c.host_down[s];
    }
    add(now_, c.at_end);
    // Communication runs beside the compute that is issued after it: its buffers go back when that is done.
    constexpr StreamId kCompute = 0;
    if (e.stream == kCompute) subtract(now_, c.beside);
    else add(beside_, c.beside);
    if (e.stream == kCompute && boost::num_vertices(p_.bodies[static_cast<std::size_t>(e.body)].graph) > 0) subtract(now_, std::exchange(beside_, {}));
    // An event of this step that has happened, in issue order, holds nothing back.
    for (const LateRelease& late : c.later)
      if (happened_[static_cast<std::size_t>(late.event)]) now_[late.category] -= late.bytes;
      else waiting_[static_cast<std::size_t>(late.event)].push_back(late);
    happens(e.record);
    for (std::int32_t m = 0; m < e.mark_count; ++m) happens(role_.marks[static_cast<std::size_t>(e.first_mark + m)].event);
  }

  void happens(EventId event) {
    if (event < 0) return;
    happened_[static_cast<std::size_t>(event)] = true;
    for (const LateRelease& late : waiting_[static_cast<std::size_t>(event)]) now_[late.category] -= late.bytes;
    waiting_[static_cast<std::size_t>(event)].clear();
  }

  /// Calls that cannot differ share one curve.
  const BodyCurve& curve(const Entry& e) {
    const Body& body = p_.bodies[static_cast<std::size_t>(e.body)];
    const BindingSet& bindings = p_.binding_sets[static_cast<std::size_t>(e.bindings)];
    const auto [known, unknown] = varies_.try_emplace({e.body, e.bindings}, false);
    if (unknown) known->second = memory_varies_by_call(p_, body, bindings);
    CurveKey key{e.body, e.bindings, {}};
    if (known->second) std::get<2>(key) = {e.layer, e.chunk, e.microbatch, e.pass, e.copy};
    const auto at = curves_.find(key);
    return at != curves_.end() ? at->second : curves_.emplace(key, CurveMaker(p_, at_).make(body, bindings)).first->second;
  }

  void report() {
    for (std::size_t i = 0; i < best_.size(); ++i) out_.by_category[i] = Bytes{best_[i]};
    for (const Bytes& b : out_.by_category) out_.peak += b;
    out_.peak_by_space[static_cast<std::size_t>(MemorySpace::device)] = out_.peak;
    out_.peak_at = "between passes";
    if (best_entry_ == nullptr) return;
    const Body& body = p_.bodies[static_cast<std::size_t>(best_entry_->body)];
    out_.peak_at = fmt::format("{}, block {}, microbatch {}", body.name, best_entry_->layer, best_entry_->microbatch);
    if (best_task_ >= 0) out_.peak_at += ", at " + body.graph[static_cast<std::size_t>(best_task_)].name;
  }

  const Program& p_;
  const Role& role_;
  ExprContext at_;
  RoleMemory out_;
  Amounts now_{}, best_{}, beside_{};
  std::array<double, 4> elsewhere_{};  ///< Outside the device, by memory space.
  double best_sum_ = 0;
  const Entry* best_entry_ = nullptr;
  int best_task_ = -1;
  using CurveKey = std::tuple<int, int, std::array<int, 5>>;
  std::map<CurveKey, BodyCurve> curves_;
  std::map<std::pair<int, int>, bool> varies_;
  std::vector<std::vector<LateRelease>> waiting_;  // By event.
  std::vector<bool> happened_;
};

}  // namespace

std::vector<RoleMemory> peak_memory(const Program& program, Bytes workspace, Bytes framework) {
  const RankKinds kinds(program);
  std::vector<RoleMemory> out;
  for (std::size_t role = 0; role < program.roles.size(); ++role) {
    std::optional<RoleMemory> worst;
    for (const int rank : kinds.first_ranks(static_cast<int>(role))) {
      const RoleMemory one = Walk(program, static_cast<int>(role), rank).run(workspace, framework);
      if (!worst || one.peak > worst->peak) worst = one;
    }
    if (worst) out.push_back(*worst);
  }
  return out;
}

}  // namespace rehearse
