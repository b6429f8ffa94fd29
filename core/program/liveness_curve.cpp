#include "core/program/liveness_curve.hpp"

#include <map>

#include "core/base/index.hpp"
#include "core/program/body.hpp"

namespace rehearse {

namespace {

/// First and last task that touches a formal's storage.
struct Range {
  int first = -1, last = -1;
};

class CurveMaker {
 public:
  CurveMaker(const Program& program, const ExprContext& at) : program_(program), at_(at) {}

  BodyCurve make(const Body& body, const BindingSet& bindings) const {
    const std::vector<Range> ranges = use_ranges(body, true), all = use_ranges(body, false);
    const std::size_t tasks = body.graph.size();
    std::vector<Amounts> starts(tasks + 1), ends(tasks + 1);
    std::size_t next_binding = 0;
    BodyCurve curve;
    Amounts untouched{};
    for (std::size_t f = 0; f < body.formals.size(); ++f) {
      const Formal& formal = body.formals[f];
      const Binding* binding = formal.bound ? &bindings[next_binding++] : nullptr;
      const int id = binding != nullptr ? binding->tensor : formal.like;
      const Tensor& tensor = nth(program_.tensors, id);
      const bool makes = binding == nullptr || binding->allocate, drops = binding == nullptr || binding->release;
      // What is bound changes hands even where the tasks that would touch it are skipped; scratch then is not needed.
      const Range range = ranges[f].first < 0 && binding != nullptr ? all[f] : ranges[f];
      if (tensor.alias_of < 0 && tensor.space != MemorySpace::device && binding != nullptr) {
        const auto space = static_cast<std::size_t>(tensor.space);
        const double size = makes || drops ? program_.local_bytes(tensor, at_) : 0.0;
        curve.host_up[space] += makes ? size : 0.0;
        curve.host_down[space] += drops ? size : 0.0;
      }
      if (tensor.alias_of >= 0 || tensor.space != MemorySpace::device || (!makes && !drops) ||
          (range.first < 0 && binding == nullptr))
        continue;
      const double bytes = program_.local_bytes(tensor, at_);
      const auto category = static_cast<std::size_t>(tensor.category);
      if (range.first < 0) {  // A call without tasks.
        untouched[category] += (makes ? bytes : 0) - (drops ? bytes : 0);
        continue;
      }
      if (makes) nth(starts, range.first)[category] += bytes;
      if (!drops) continue;
      if (binding != nullptr && binding->release_after >= 0)
        curve.later.push_back({binding->release_after, category, bytes});
      else if (binding != nullptr && !makes && tensor.category == MemoryCategory::communication)
        curve.beside[category] += bytes;
      else
        nth(ends, range.last)[category] += bytes;
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
      if (nth(program_.tensors, body.formals[f].like).alias_of < 0) scratch_of_tensor[body.formals[f].like] = f;
    const auto touch = [&](std::size_t f, int t) {
      if (ranges[f].first < 0) ranges[f].first = t;
      ranges[f].last = t;
    };
    for (const auto v : body.graph.vertices()) {
      if (played && program_.exprs.evaluate(body.graph[v].predicate, at_) == 0) continue;
      for (const Operand& o : body.graph[v].operands) {
        auto f = static_cast<std::size_t>(o.formal);
        touch(f, static_cast<int>(v));
        for (int base = nth(program_.tensors, body.formals[f].like).alias_of; base >= 0;
             base = nth(program_.tensors, base).alias_of)
          if (const auto at = scratch_of_tensor.find(base); at != scratch_of_tensor.end())
            touch(at->second, static_cast<int>(v));
      }
    }
    return ranges;
  }

  const Program& program_;
  const ExprContext& at_;
};

}  // namespace

BodyCurve body_curve(const Program& program, const ExprContext& at, const Body& body, const BindingSet& bindings) {
  return CurveMaker(program, at).make(body, bindings);
}

}  // namespace rehearse
