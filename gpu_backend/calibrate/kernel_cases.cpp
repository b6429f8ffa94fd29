#include "gpu_backend/calibrate/kernel_cases.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "gpu_backend/calibrate/probes.hpp"
#include "gpu_backend/plan.hpp"

namespace rehearse {

namespace {

/// Parameters of a step that has other work between two uses of them are no longer in the caches of one core.
constexpr std::size_t kColdBytes = 4u << 20;
constexpr std::size_t kMostCopies = 32;

struct ProbePlan {
  explicit ProbePlan(Program p) : program(std::move(p)), plan(program, 0) {}
  Program program;
  RankPlan plan;
};

KernelCase case_of(const std::shared_ptr<ProbePlan>& probe, const Instruction& in, SizedOperation what, const Operator* op, Numerics numerics) {
  const Program& p = probe->program;
  const auto& c = std::get<ComputeTask>(in.task->kind);
  KernelCase out;
  out.what = std::move(what);
  out.op = op;
  out.call.task = &c;
  for (const ExprId e : c.dims) out.call.dims.push_back(p.exprs.evaluate(e, in.at));
  for (const ExprId e : c.offsets) out.call.offsets.push_back(p.exprs.evaluate(e, in.at));
  out.call.random = RandomKey(1).with(c.random);
  std::map<int, std::size_t> buffer_of_slot;
  for (const PlannedOperand& o : in.operands) {
    const StorageSlot& slot = probe->plan.slots()[static_cast<std::size_t>(o.slot)];
    const ElementType type = stored_as(p.tensors[static_cast<std::size_t>(o.tensor)].dtype, numerics);
    const auto [at, made] = buffer_of_slot.emplace(o.slot, out.buffers.size());
    if (made) out.buffers.push_back({slot.elements, type, slot.persistent, !slot.persistent && o.access == Access::write});
    out.places.push_back({at->second, static_cast<std::size_t>(o.first) * size_of(type)});
    out.call.operands.push_back({nullptr, type, o.access, &p.tensors[static_cast<std::size_t>(o.tensor)], o.held, o.layer});
  }
  out.owner = probe;
  return out;
}

void add_probe_cases(const ComputeDevice& device, std::vector<KernelCase>& out) {
  std::set<std::pair<std::string, std::vector<double>>> seen;
  std::set<std::string> earlier;
  for (Probe& p : calibration_probes()) {
    const auto probe = std::make_shared<ProbePlan>(std::move(p.program));
    std::set<std::string> here;
    for (const Instruction& in : probe->plan.step()) {
      const auto* c = std::get_if<ComputeTask>(&in.task->kind);
      const Operator* op = c != nullptr ? device.find(operation_name(*c)) : nullptr;
      if (op == nullptr || (c->op == ComputeOp::matmul && c->variant.starts_with("linear"))) continue;
      const auto sized = sized_operations(probe->program, *in.task, *in.body, in.at);
      if (sized.size() != 1 || sized.front().repeats != 1) continue;
      const bool by_heads = sized.front().axes.front() == "heads";
      if (p.heads ? !by_heads : (p.fills_gaps || by_heads) && earlier.contains(sized.front().name)) continue;
      here.insert(sized.front().name);
      if (seen.emplace(sized.front().name, sized.front().size).second) out.push_back(case_of(probe, in, sized.front(), op, device.numerics()));
    }
    if (!p.fills_gaps) earlier.merge(here);
    else earlier.insert(here.begin(), here.end());
  }
}

}  // namespace

KernelCase product_case(const ComputeDevice& device, const std::string& variant, std::int64_t m, std::int64_t n, std::int64_t k) {
  struct Made { ComputeTask task; std::vector<Held> held; };
  auto made = std::make_shared<Made>();
  made->task.op = ComputeOp::matmul;
  made->task.variant = variant;
  made->task.accumulates = variant == "linear_weight_grad";
  const bool forward = variant == "linear", input = variant == "linear_input_grad";
  // x [m, k], weight [n, k], y [m, n]; weight [k, n], dx [m, n], dy [m, k]; x [k, n], dweight [m, n], dy [k, m].
  using Extents = std::vector<std::int64_t>;
  const std::vector<Extents> extents = forward ? std::vector<Extents>{{m, k}, {n, k}, {m, n}} : input ? std::vector<Extents>{{k, n}, {m, n}, {m, k}} : std::vector<Extents>{{k, n}, {m, n}, {k, m}};
  const std::vector<Access> access = forward ? std::vector{Access::read, Access::read, Access::write} : input ? std::vector{Access::read, Access::write, Access::read} : std::vector{Access::read, Access::update, Access::read};
  const std::size_t weight = forward ? 1 : input ? 0 : 1;
  KernelCase out;
  out.op = device.find("matmul." + variant);
  out.what = {measured_name(made->task), {"m", "n", "k"}, {static_cast<double>(m), static_cast<double>(n), static_cast<double>(k)}, 1};
  out.call.task = &made->task;
  out.call.dims = {1, m, n, k};
  const ElementType type = stored_as(DType::fp32, device.numerics());
  for (const Extents& e : extents) made->held.push_back({e, e, {{{0, e[0]}}, {{0, e[1]}}}, {0, e[0] * e[1]}, {{0, e[0]}, {0, e[1]}}});
  for (std::size_t i = 0; i < 3; ++i) {
    out.buffers.push_back({extents[i][0] * extents[i][1], type, i == weight, i != weight && access[i] == Access::write});
    out.places.push_back({i, 0});
    out.call.operands.push_back({nullptr, type, access[i], nullptr, &made->held[i], 0});
  }
  out.owner = made;
  return out;
}

std::vector<KernelCase> kernel_cases(const ComputeDevice& device) {
  std::vector<KernelCase> out;
  for (const char* variant : {"linear", "linear_input_grad", "linear_weight_grad"})
    for (const std::int64_t m : {8, 64, 256, 1024})
      for (const std::int64_t n : {16, 64, 256, 1024})
        for (const std::int64_t k : {16, 64, 256, 1024})
          if (device.find(std::string("matmul.") + variant) != nullptr) out.push_back(product_case(device, variant, m, n, k));
  add_probe_cases(device, out);
  return out;
}

KernelRun::KernelRun(ComputeDevice& device, const KernelCase& what) : device_(device), case_(what) {
  for (const KernelCase::Buffer& b : what.buffers) {
    const std::size_t bytes = std::max<std::size_t>(1, static_cast<std::size_t>(b.elements) * size_of(b.type));
    std::vector<std::byte> values(b.fresh ? 0 : bytes);
    if (!b.fresh && b.type == ElementType::real32)  // About 1, no two alike; ids are 0, masks 0.
      for (std::size_t i = 0; i < static_cast<std::size_t>(b.elements); ++i) reinterpret_cast<float*>(values.data())[i] = 0.75f + static_cast<float>(i * 2654435761u % 1024) / 2048.0f;
    if (!b.fresh && b.type == ElementType::real64)
      for (std::size_t i = 0; i < static_cast<std::size_t>(b.elements); ++i) reinterpret_cast<double*>(values.data())[i] = 0.75 + static_cast<double>(i * 2654435761u % 1024) / 2048.0;
    auto& copies = memory_.emplace_back();
    const std::size_t wanted = b.kept ? std::clamp<std::size_t>(kColdBytes / bytes, 1, kMostCopies) : 1;
    for (std::size_t i = 0; i < wanted && !b.fresh; ++i) {
      copies.push_back(device.allocate(bytes));
      device.write(*copies.back(), 0, values);
    }
  }
}

EventPtr KernelRun::submit() {
  std::vector<std::shared_ptr<Storage>> owners;
  for (std::size_t i = 0; i < memory_.size(); ++i) {
    const KernelCase::Buffer& b = case_.buffers[i];
    owners.push_back(b.fresh ? device_.allocate(std::max<std::size_t>(1, static_cast<std::size_t>(b.elements) * size_of(b.type))) : memory_[i][turn_ % memory_[i].size()]);
  }
  ++turn_;
  return device_.submit(0, {}, {.run = [this, owners = std::move(owners)] {
                                  OperatorCall call = case_.call;
                                  call.observed = &observed_;
                                  for (std::size_t i = 0; i < call.operands.size(); ++i) call.operands[i].data = owners[case_.places[i].buffer]->data() + case_.places[i].offset;
                                  (*case_.op)(call, device_.numerics());
                                }, .start = {}});
}

double KernelRun::once() {
  const EventPtr done = submit();
  device_.wait(done);
  const auto when = device_.times(done);
  return when ? when->end - when->begin : 0;
}

}  // namespace rehearse
