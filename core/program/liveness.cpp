#include "core/program/liveness.hpp"

#include <algorithm>
#include <map>
#include <optional>

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

/// What one call of a body does to device memory, relative to its start.
struct BodyCurve {
  Amounts at_peak{};
  Amounts at_end{};
  Amounts late{};   ///< Of what it gives back, that which was in use beside the compute stream until then.
  double peak = 0;
  int peak_task = -1;
};

/// First and last task that touches a formal's storage.
struct Range { int first = -1, last = -1; };

class CurveMaker {
 public:
  CurveMaker(const Program& program, const ExprContext& at) : program_(program), at_(at) {}

  BodyCurve make(const Body& body, const BindingSet& bindings) const {
    const std::vector<Range> ranges = use_ranges(body);
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
      if (tensor.alias_of >= 0 || tensor.space != MemorySpace::device || (!makes && !drops)) continue;
      const double bytes = program_.local_bytes(tensor, at_);
      const auto category = static_cast<std::size_t>(tensor.category);
      if (ranges[f].first < 0) {
        untouched[category] += (makes ? bytes : 0) - (drops ? bytes : 0);
        continue;
      }
      if (binding != nullptr && drops && !makes && tensor.category == MemoryCategory::communication) curve.late[category] += bytes;
      if (makes) starts[static_cast<std::size_t>(ranges[f].first)][category] += bytes;
      if (drops) ends[static_cast<std::size_t>(ranges[f].last)][category] += bytes;
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
  std::vector<Range> use_ranges(const Body& body) const {
    std::vector<Range> ranges(body.formals.size());
    // A view keeps the formal alive whose storage it shares.
    std::map<int, std::size_t> scratch_of_tensor;
    for (std::size_t f = 0; f < body.formals.size(); ++f)
      if (program_.tensors[static_cast<std::size_t>(body.formals[f].like)].alias_of < 0) scratch_of_tensor[body.formals[f].like] = f;
    const auto touch = [&](std::size_t f, int t) {
      if (ranges[f].first < 0) ranges[f].first = t;
      ranges[f].last = t;
    };
    for (const auto v : boost::make_iterator_range(boost::vertices(body.graph)))
      for (const Operand& o : body.graph[v].operands) {
        auto f = static_cast<std::size_t>(o.formal);
        touch(f, static_cast<int>(v));
        for (int base = program_.tensors[static_cast<std::size_t>(body.formals[f].like)].alias_of; base >= 0;
             base = program_.tensors[static_cast<std::size_t>(base)].alias_of)
          if (const auto at = scratch_of_tensor.find(base); at != scratch_of_tensor.end()) touch(at->second, static_cast<int>(v));
      }
    return ranges;
  }

  const Program& program_;
  const ExprContext& at_;
};

RoleMemory walk(const Program& program, int role_index, int rank, Bytes workspace, Bytes framework) {
  const Role& role = program.roles[static_cast<std::size_t>(role_index)];
  const ExprContext at = program.mesh.context(rank);
  Amounts now{};
  now[static_cast<std::size_t>(MemoryCategory::workspace)] = workspace.value();
  now[static_cast<std::size_t>(MemoryCategory::framework)] = framework.value();
  RoleMemory out;
  out.role = role_index;
  out.rank = rank;
  for (const Role::Persistent& p : role.persistent) {
    const Tensor& t = program.tensors[static_cast<std::size_t>(p.tensor)];
    if (t.alias_of >= 0) continue;
    const double bytes = program.local_bytes(t, at);
    if (t.space == MemorySpace::device) now[static_cast<std::size_t>(t.category)] += bytes;
    else out.peak_by_space[static_cast<std::size_t>(t.space)] += Bytes{bytes};
  }
  Amounts best = now;
  double best_sum = sum(now);
  const Entry* best_entry = nullptr;
  int best_task = -1;
  std::map<std::pair<int, int>, BodyCurve> curves;
  Amounts late{};
  const CurveMaker maker(program, at);
  for (const Entry& e : role.step) {
    const auto key = std::pair(e.body, e.bindings);
    auto found = curves.find(key);
    if (found == curves.end())
      found = curves.emplace(key, maker.make(program.bodies[static_cast<std::size_t>(e.body)], program.binding_sets[static_cast<std::size_t>(e.bindings)])).first;
    const BodyCurve& c = found->second;
    if (const double here = sum(now) + c.peak; here > best_sum) {
      best_sum = here;
      best = now;
      add(best, c.at_peak);
      best_entry = &e;
      best_task = c.peak_task;
    }
    add(now, c.at_end);
    // Communication runs beside the compute that is issued after it: its buffers go back when that is done.
    constexpr StreamId kCompute = 0;
    if (e.stream != kCompute) {
      add(now, c.late);
      add(late, c.late);
    } else if (boost::num_vertices(program.bodies[static_cast<std::size_t>(e.body)].graph) > 0) {
      for (std::size_t i = 0; i < now.size(); ++i) now[i] -= late[i];
      late = {};
    }
  }
  for (std::size_t i = 0; i < best.size(); ++i) out.by_category[i] = Bytes{best[i]};
  for (const Bytes& b : out.by_category) out.peak += b;
  out.peak_by_space[static_cast<std::size_t>(MemorySpace::device)] = out.peak;
  out.peak_at = "between passes";
  if (best_entry != nullptr) {
    const Body& body = program.bodies[static_cast<std::size_t>(best_entry->body)];
    out.peak_at = fmt::format("{}, block {}, microbatch {}", body.name, best_entry->layer, best_entry->microbatch);
    if (best_task >= 0) out.peak_at += ", at " + body.graph[static_cast<std::size_t>(best_task)].name;
  }
  return out;
}

}  // namespace

std::vector<RoleMemory> peak_memory(const Program& program, Bytes workspace, Bytes framework) {
  std::vector<RoleMemory> out;
  for (std::size_t role = 0; role < program.roles.size(); ++role) {
    const auto first = std::find(program.role_of_rank.begin(), program.role_of_rank.end(), static_cast<std::int32_t>(role));
    if (first == program.role_of_rank.end()) continue;
    out.push_back(walk(program, static_cast<int>(role), static_cast<int>(first - program.role_of_rank.begin()), workspace, framework));
  }
  return out;
}

}  // namespace rehearse
