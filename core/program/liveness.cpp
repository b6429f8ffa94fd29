#include "core/program/liveness.hpp"

#include "core/base/index.hpp"
#include "core/program/body.hpp"
#include "core/program/liveness_curve.hpp"
#include "core/program/rank_kinds.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include <fmt/format.h>

namespace rehearse {

namespace {

/// Curves of calls, each made once for all calls and ranks that cannot differ.
class Curves {
 public:
  explicit Curves(const Program& program) : p_(program) {}

  const BodyCurve& of(const Entry& e, const ExprContext& at, int rank) {
    const Body& body = nth(p_.bodies, e.body);
    const BindingSet& bindings = nth(p_.binding_sets, e.bindings);
    const auto [known, fresh] = kinds_.try_emplace(std::pair(e.body, e.bindings));
    Kind& kind = known->second;
    if (kind.curve != nullptr) return *kind.curve;
    if (fresh) {
      kind.by_call = memory_varies_by_call(p_, body, bindings);
      kind.by_place = p_.mesh.islands().size() > 1 || memory_varies_by_place(p_, body, bindings, at);
    }
    Key key{e.body, e.bindings, kind.by_place ? rank : -1, {}};
    if (kind.by_call) std::get<3>(key) = {e.layer, e.chunk, e.microbatch, e.pass, e.copy};
    const auto [curve, unknown] = curves_.try_emplace(key);
    if (unknown) curve->second = body_curve(p_, at, body, bindings);
    if (!kind.by_call && !kind.by_place) kind.curve = &curve->second;
    return curve->second;
  }

 private:
  struct Kind {
    bool by_call = false, by_place = false;
    const BodyCurve* curve = nullptr;  ///< Of all calls, where they are alike everywhere.
  };
  /// Body, bindings; rank and call, where it depends on them.
  using Key = std::tuple<int, int, int, std::array<int, 5>>;
  const Program& p_;
  std::map<std::pair<int, int>, Kind> kinds_;
  std::map<Key, BodyCurve> curves_;
};

/// One rank's step.
class Walk {
 public:
  Walk(const Program& program, int role_index, int rank, Curves& curves)
      : p_(program), role_(nth(program.roles, role_index)), at_(program.mesh.context(rank)), curves_(curves) {
    at_.tables = &p_.tables;
    at_.microbatches = role_.microbatches > 0 ? role_.microbatches : p_.microbatches;
    out_.role = role_index;
    out_.rank = rank;
  }

  /// Every call is written down there, too.
  void write_to(std::vector<MemoryPoint>* course) { course_ = course; }

  RoleMemory run(Bytes workspace, Bytes framework) {
    nth(now_, MemoryCategory::workspace) = workspace.value();
    nth(now_, MemoryCategory::framework) = framework.value();
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
      const Tensor& t = nth(p_.tensors, held.tensor);
      if (t.alias_of >= 0) continue;
      at_.layer = std::max(held.layer, 0);
      const double bytes = p_.local_bytes(t, at_);
      if (t.space == MemorySpace::device)
        nth(now_, t.category) += bytes;
      else
        nth(elsewhere_, t.space) += bytes;
    }
  }

  void call(const Entry& e) {
    at_.layer = e.layer;
    at_.chunk = e.chunk;
    at_.microbatch = e.microbatch;
    at_.pass = e.pass;
    at_.copy = e.copy;
    if (p_.exprs.evaluate(e.predicate, at_) == 0) return;
    const BodyCurve& c = curves_.of(e, at_, out_.rank);
    if (const double here = sum(now_) + c.peak; here > best_sum_) {
      best_sum_ = here;
      best_ = now_;
      add(best_, c.at_peak);
      best_entry_ = &e;
      best_task_ = c.peak_task;
    }
    if (course_ != nullptr) note(e, c);
    for (std::size_t s = 0; s < elsewhere_.size(); ++s) {
      elsewhere_[s] += c.host_up[s];
      out_.peak_by_space[s] = max(out_.peak_by_space[s], Bytes{elsewhere_[s]});
      elsewhere_[s] -= c.host_down[s];
    }
    add(now_, c.at_end);
    // Communication runs beside the compute that is issued after it: its buffers go back when that is done.
    constexpr StreamId kCompute = 0;
    if (e.stream == kCompute)
      subtract(now_, c.beside);
    else
      add(beside_, c.beside);
    if (e.stream == kCompute && nth(p_.bodies, e.body).graph.size() > 0) subtract(now_, std::exchange(beside_, {}));
    // An event of this step that has happened, in issue order, holds nothing back.
    for (const LateRelease& late : c.later)
      if (nth(happened_, late.event))
        now_[late.category] -= late.bytes;
      else
        nth(waiting_, late.event).push_back(late);
    happens(e.record);
    for (std::int32_t m = 0; m < e.mark_count; ++m) happens(nth(role_.marks, e.first_mark + m).event);
    if (course_ != nullptr)
      for (std::size_t i = 0; i < now_.size(); ++i) course_->back().after[i] = Bytes{now_[i]};
  }

  void note(const Entry& e, const BodyCurve& c) {
    MemoryPoint& point = course_->emplace_back(MemoryPoint{
        static_cast<int>(&e - role_.step.data()), e.body, e.layer, e.chunk, e.microbatch, e.stream, {}, {}});
    for (std::size_t i = 0; i < now_.size(); ++i) point.by_category[i] = Bytes{now_[i] + c.at_peak[i]};
  }

  void happens(EventId event) {
    if (event < 0) return;
    nth(happened_, event) = true;
    for (const LateRelease& late : nth(waiting_, event)) now_[late.category] -= late.bytes;
    nth(waiting_, event).clear();
  }

  void report() {
    for (std::size_t i = 0; i < best_.size(); ++i) out_.by_category[i] = Bytes{best_[i]};
    for (const Bytes& b : out_.by_category) out_.peak += b;
    nth(out_.peak_by_space, MemorySpace::device) = out_.peak;
    out_.peak_at = "between passes";
    if (best_entry_ == nullptr) return;
    const Body& body = nth(p_.bodies, best_entry_->body);
    out_.peak_at = fmt::format("{}, block {}, microbatch {}", body.name, best_entry_->layer, best_entry_->microbatch);
    if (best_task_ >= 0) out_.peak_at += ", at " + nth(body.graph, best_task_).name;
  }

  const Program& p_;
  const Role& role_;
  ExprContext at_;
  Curves& curves_;
  RoleMemory out_;
  Amounts now_{}, best_{}, beside_{};
  std::array<double, kMemorySpaces> elsewhere_{};  ///< Outside the device, by memory space.
  double best_sum_ = 0;
  const Entry* best_entry_ = nullptr;
  int best_task_ = -1;
  std::vector<MemoryPoint>* course_ = nullptr;
  std::vector<std::vector<LateRelease>> waiting_;  // By event.
  std::vector<bool> happened_;
};

}  // namespace

std::vector<MemoryCurve> memory_over_time(const Program& program, Bytes workspace, Bytes framework) {
  std::vector<MemoryCurve> out;
  for (const RoleMemory& worst : peak_memory(program, workspace, framework)) {
    out.push_back({worst.role, worst.rank, memory_course(program, worst.rank, workspace, framework)});
  }
  return out;
}

std::vector<RoleMemory> peak_memory(const Program& program, Bytes workspace, Bytes framework) {
  const RankKinds kinds(program);
  Curves curves(program);
  std::vector<RoleMemory> out;
  for (std::size_t role = 0; role < program.roles.size(); ++role) {
    std::optional<RoleMemory> worst;
    for (const int rank : kinds.first_ranks(static_cast<int>(role))) {
      const RoleMemory one = Walk(program, static_cast<int>(role), rank, curves).run(workspace, framework);
      if (!worst || one.peak > worst->peak) worst = one;
    }
    if (worst) out.push_back(*worst);
  }
  return out;
}

std::vector<MemoryPoint> memory_course(const Program& program, int rank, Bytes workspace, Bytes framework) {
  std::vector<MemoryPoint> course;
  Curves curves(program);
  Walk walk(program, program.role_of_rank.at(static_cast<std::size_t>(rank)), rank, curves);
  walk.write_to(&course);
  (void)walk.run(workspace, framework);
  return course;
}

}  // namespace rehearse
