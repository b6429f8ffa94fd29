#include "gpu_backend/calibrate/kernel_cases.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "core/base/index.hpp"
#include "core/program/operation_class.hpp"
#include "gpu_backend/calibrate/probes.hpp"
#include "gpu_backend/execute/plan.hpp"

namespace rehearse {

namespace {

/// The type that a profile files an operator under.
DType filed_under(const ComputeDevice& device, DType arithmetic) {
  if (device.numerics() == Numerics::plan) return arithmetic;
  return device.numerics() == Numerics::fp64 ? DType::fp64 : DType::fp32;
}

struct ProbePlan {
  explicit ProbePlan(Program p) : program(std::move(p)), plan(program, 0) {}
  Program program;
  RankPlan plan;
};

/// Backward finds what forward has kept after much other work.
KernelCase::State state_of(const Tensor& tensor, Access access, Phase phase) {
  if (tensor.lifetime == Lifetime::persistent) return KernelCase::State::kept;
  if (access == Access::write)
    return tensor.lifetime == Lifetime::saved ? KernelCase::State::saved : KernelCase::State::scratch;
  const bool backward = phase != Phase::forward && phase != Phase::other;
  return backward && tensor.lifetime == Lifetime::saved ? KernelCase::State::kept : KernelCase::State::passed;
}

/// Tokens look up rows of a table, labels name columns of logits.
std::int64_t ids_below(const Program& p, const Instruction& in) {
  const auto op = std::get<ComputeTask>(in.task->kind).op;
  const bool looks_up = op == ComputeOp::embedding || op == ComputeOp::embedding_grad;
  if (!looks_up && op != ComputeOp::cross_entropy && op != ComputeOp::cross_entropy_grad) return 1;
  const Held* largest = in.operands.front().held;
  for (const PlannedOperand& o : in.operands)
    if (looks_up ? nth(p.tensors, o.tensor).lifetime == Lifetime::persistent : o.held->elements() > largest->elements())
      largest = o.held;
  return std::max<std::int64_t>(1, looks_up ? largest->extents.front() : largest->extents.back());
}

KernelCase case_of(const std::shared_ptr<ProbePlan>& probe, const Instruction& in, SizedOperation what,
                   const Operator* op, const ComputeDevice& device) {
  const Numerics numerics = device.numerics();
  const Program& p = probe->program;
  const auto& c = std::get<ComputeTask>(in.task->kind);
  KernelCase out;
  out.what = std::move(what);
  out.arithmetic = filed_under(device, c.arithmetic);
  out.op = op;
  out.call.task = &c;
  for (const ExprId e : c.dims) out.call.dims.push_back(p.exprs.evaluate(e, in.at));
  for (const ExprId e : c.offsets) out.call.offsets.push_back(p.exprs.evaluate(e, in.at));
  out.call.random = RandomKey(1).with(c.random);
  std::int64_t walked = 0;
  for (const PlannedOperand& o : in.operands)
    if (const StorageSlot& s = nth(probe->plan.slots(), o.slot); !s.persistent) walked = std::max(walked, s.elements);
  const std::int64_t ids = ids_below(p, in);
  std::map<int, std::size_t> buffer_of_slot;
  for (const PlannedOperand& o : in.operands) {
    const StorageSlot& slot = nth(probe->plan.slots(), o.slot);
    const ElementType type = stored_as(nth(p.tensors, o.tensor).dtype, numerics);
    const auto [at, made] = buffer_of_slot.emplace(o.slot, out.buffers.size());
    if (made)
      out.buffers.push_back({slot.elements, type, state_of(nth(p.tensors, o.tensor), o.access, in.task->phase),
                             o.access == Access::update && !slot.persistent, slot.persistent || slot.elements < walked,
                             ids});
    out.places.push_back({at->second, static_cast<std::size_t>(o.first) * size_of(type)});
    out.call.operands.push_back({nullptr, type, o.access, &nth(p.tensors, o.tensor), o.held, o.layer});
  }
  out.owner = probe;
  return out;
}

/// A tensor of which the rank holds everything.
Held whole(const std::vector<std::int64_t>& extents) {
  Held out{extents, extents, {}, {0, 1}, {}};
  for (const std::int64_t e : extents) {
    out.global.push_back({{0, e}});
    out.inner.push_back({0, e});
    out.flat.length *= e;
  }
  return out;
}

double bytes_of(const KernelCase& c) {
  double out = 0;
  for (const KernelCase::Buffer& b : c.buffers)
    out += static_cast<double>(b.elements) * static_cast<double>(size_of(b.type));
  return out;
}

void add_probe_cases(const ComputeDevice& device, const ProbeGrid& grid, std::vector<KernelCase>& out) {
  std::set<std::tuple<DType, std::string, std::vector<double>>> seen;
  std::set<std::string> earlier, here;  // Operators of kinds before, and of this one.
  int kind = 0;
  for (Probe& p : calibration_probes(grid)) {
    if (std::exchange(kind, p.kind) != p.kind) earlier.merge(here);
    const auto probe = std::make_shared<ProbePlan>(std::move(p.program));
    for (const Instruction& in : probe->plan.step()) {
      const auto* c = std::get_if<ComputeTask>(&in.task->kind);
      const Operator* op = c != nullptr ? device.find(operation_name(*c)) : nullptr;
      if (op == nullptr || is_linear_product(*c)) continue;
      const auto sized = sized_operations(probe->program, *in.task, *in.body, in.at);
      if (sized.size() != 1 || sized.front().repeats != 1) continue;
      const bool by_heads = sized.front().axes.front() == "heads";
      if (p.heads ? !by_heads : (p.fills_gaps || by_heads) && earlier.contains(sized.front().name)) continue;
      here.insert(sized.front().name);
      if (!seen.emplace(filed_under(device, c->arithmetic), sized.front().name, sized.front().size).second) continue;
      KernelCase made = case_of(probe, in, sized.front(), op, device);
      if (grid.most_bytes <= 0 || bytes_of(made) <= grid.most_bytes) out.push_back(std::move(made));
    }
  }
}

}  // namespace

KernelCase product_case(const ComputeDevice& device, const std::string& variant, std::int64_t m, std::int64_t n,
                        std::int64_t k, bool bias) {
  struct Made {
    ComputeTask task;
    std::vector<Held> held;
  };
  auto made = std::make_shared<Made>();
  made->task.op = ComputeOp::matmul;
  made->task.variant = variant;
  made->task.accumulates = variant == "linear_weight_grad";
  if (bias) made->task.offsets = {ExprPool::kOne};
  const bool forward = variant == "linear", input = variant == "linear_input_grad";
  // x [m, k], weight [n, k], y [m, n]; weight [k, n], dx [m, n], dy [m, k]; x [k, n], dweight [m, n], dy [k, m].
  using Extents = std::vector<std::int64_t>;
  std::vector<Extents> extents = forward ? std::vector<Extents>{{m, k}, {n, k}, {m, n}}
                                 : input ? std::vector<Extents>{{k, n}, {m, n}, {m, k}}
                                         : std::vector<Extents>{{k, n}, {m, n}, {k, m}};
  std::vector<Access> access = forward ? std::vector{Access::read, Access::read, Access::write}
                               : input ? std::vector{Access::read, Access::write, Access::read}
                                       : std::vector{Access::read, Access::update, Access::read};
  const bool update = !forward && !input;
  const std::size_t weight = forward ? 1 : input ? 0 : 1;
  if (bias) extents.push_back({n}), access.push_back(Access::read);
  KernelCase out;
  out.op = device.find("matmul." + variant);
  out.what = {measured_name(made->task),
              {"m", "n", "k"},
              {static_cast<double>(m), static_cast<double>(n), static_cast<double>(k)},
              1};
  out.call.task = &made->task;
  out.call.dims = {1, m, n, k};
  if (bias) out.call.offsets = {1};
  // Factors as the plan's layers store them; what is added to is a sum.
  const ElementType type = stored_as(DType::bf16, device.numerics()), sum = stored_as(DType::fp32, device.numerics());
  const auto type_of = [&](std::size_t i) { return access[i] == Access::update ? sum : type; };
  out.arithmetic = filed_under(device, DType::bf16);
  for (const Extents& e : extents) made->held.push_back(whole(e));
  for (std::size_t i = 0; i < extents.size(); ++i) {
    const bool kept = i == weight || i == 3 || (update && i == 0);  // Parameters, and tokens that forward has kept.
    const bool written = access[i] == Access::write;
    const KernelCase::State state = written ? (forward ? KernelCase::State::saved : KernelCase::State::scratch)
                                    : kept  ? KernelCase::State::kept
                                            : KernelCase::State::passed;
    out.buffers.push_back({made->held[i].elements(), type_of(i), state, false, false, 1});
    out.places.push_back({i, 0});
    out.call.operands.push_back({nullptr, type_of(i), access[i], nullptr, &made->held[i], 0});
  }
  out.owner = made;
  return out;
}

std::vector<KernelCase> kernel_cases(const ComputeDevice& device, const ProbeGrid& grid) {
  std::vector<KernelCase> out;
  for (const char* variant : {"linear", "linear_input_grad", "linear_weight_grad"}) {
    for (const std::int64_t m : grid.m) {
      for (const std::int64_t n : grid.n)
        for (const std::int64_t k : grid.k)
          if (device.find(std::string("matmul.") + variant) != nullptr) {
            out.push_back(product_case(device, variant, m, n, k));
            if (variant == std::string_view("linear")) out.push_back(product_case(device, variant, m, n, k, true));
          }
    }
  }
  add_probe_cases(device, grid, out);
  return out;
}

}  // namespace rehearse
