#include "gpu_backend/calibrate/kernel_cases.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "gpu_backend/calibrate/probes.hpp"
#include "gpu_backend/plan.hpp"

namespace rehearse {

namespace {

/// Parameters of a step that has other work between two uses of them are no longer in the caches of one core.
constexpr std::size_t kColdBytes = 4u << 20;
constexpr std::size_t kColdDeviceBytes = 192u << 20;  // GPUs share one cache: 50 MB on H100 (NVIDIA 2022, H100 whitepaper).
constexpr std::size_t kMostCopies = 32;
constexpr double kQueuedSeconds = 1e-3;                // So many calls in line that the host is ahead of the device.
constexpr int kMostQueued = 64;

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

KernelCase case_of(const std::shared_ptr<ProbePlan>& probe, const Instruction& in, SizedOperation what, const Operator* op, const ComputeDevice& device) {
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
  for (const KernelCase::Buffer& b : c.buffers) out += static_cast<double>(b.elements) * static_cast<double>(size_of(b.type));
  return out;
}

void add_probe_cases(const ComputeDevice& device, const ProbeGrid& grid, std::vector<KernelCase>& out) {
  std::set<std::tuple<DType, std::string, std::vector<double>>> seen;
  std::set<std::string> earlier;
  for (Probe& p : calibration_probes(grid)) {
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
      if (!seen.emplace(filed_under(device, c->arithmetic), sized.front().name, sized.front().size).second) continue;
      KernelCase made = case_of(probe, in, sized.front(), op, device);
      if (grid.most_bytes <= 0 || bytes_of(made) <= grid.most_bytes) out.push_back(std::move(made));
    }
    if (!p.fills_gaps) earlier.merge(here);
    else earlier.insert(here.begin(), here.end());
  }
}

}  // namespace

KernelCase product_case(const ComputeDevice& device, const std::string& variant, std::int64_t m, std::int64_t n, std::int64_t k, bool bias) {
  struct Made { ComputeTask task; std::vector<Held> held; };
  auto made = std::make_shared<Made>();
  made->task.op = ComputeOp::matmul;
  made->task.variant = variant;
  made->task.accumulates = variant == "linear_weight_grad";
  if (bias) made->task.offsets = {ExprPool::kOne};
  const bool forward = variant == "linear", input = variant == "linear_input_grad";
  // x [m, k], weight [n, k], y [m, n]; weight [k, n], dx [m, n], dy [m, k]; x [k, n], dweight [m, n], dy [k, m].
  using Extents = std::vector<std::int64_t>;
  std::vector<Extents> extents = forward ? std::vector<Extents>{{m, k}, {n, k}, {m, n}} : input ? std::vector<Extents>{{k, n}, {m, n}, {m, k}} : std::vector<Extents>{{k, n}, {m, n}, {k, m}};
  std::vector<Access> access = forward ? std::vector{Access::read, Access::read, Access::write} : input ? std::vector{Access::read, Access::write, Access::read} : std::vector{Access::read, Access::update, Access::read};
  const std::size_t weight = forward ? 1 : input ? 0 : 1;
  if (bias) extents.push_back({n}), access.push_back(Access::read);
  KernelCase out;
  out.op = device.find("matmul." + variant);
  out.what = {measured_name(made->task), {"m", "n", "k"}, {static_cast<double>(m), static_cast<double>(n), static_cast<double>(k)}, 1};
  out.call.task = &made->task;
  out.call.dims = {1, m, n, k};
  if (bias) out.call.offsets = {1};
  // Factors as the plan's layers store them; what is added to is a sum.
  const ElementType type = stored_as(DType::bf16, device.numerics()), sum = stored_as(DType::fp32, device.numerics());
  const auto type_of = [&](std::size_t i) { return access[i] == Access::update ? sum : type; };
  out.arithmetic = filed_under(device, DType::bf16);
  for (const Extents& e : extents) made->held.push_back(whole(e));
  for (std::size_t i = 0; i < extents.size(); ++i) {
    out.buffers.push_back({made->held[i].elements(), type_of(i), i == weight || i == 3, i != weight && access[i] == Access::write});
    out.places.push_back({i, 0});
    out.call.operands.push_back({nullptr, type_of(i), access[i], nullptr, &made->held[i], 0});
  }
  out.owner = made;
  return out;
}

std::vector<KernelCase> kernel_cases(const ComputeDevice& device, const ProbeGrid& grid) {
  std::vector<KernelCase> out;
  for (const char* variant : {"linear", "linear_input_grad", "linear_weight_grad"})
    for (const std::int64_t m : grid.m)
      for (const std::int64_t n : grid.n)
        for (const std::int64_t k : grid.k)
          if (device.find(std::string("matmul.") + variant) != nullptr) {
            out.push_back(product_case(device, variant, m, n, k));
            if (variant == std::string_view("linear")) out.push_back(product_case(device, variant, m, n, k, true));
          }
  add_probe_cases(device, grid, out);
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
    if (!b.fresh && b.type == ElementType::real16)
      for (std::size_t i = 0; i < static_cast<std::size_t>(b.elements); ++i) reinterpret_cast<std::uint16_t*>(values.data())[i] = to_bfloat16(0.75f + static_cast<float>(i * 2654435761u % 64) / 128.0f);
    auto& copies = memory_.emplace_back();
    const std::size_t wanted = b.kept ? std::clamp<std::size_t>((device.queues() ? kColdDeviceBytes : kColdBytes) / bytes, 1, kMostCopies) : 1;
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
                                  device_.execute(*case_.op, call);
                                }, .start = {}});
}

double KernelRun::once() {
  device_.measure(true);
  std::vector<EventPtr> line;
  for (int i = 0; i < in_line_; ++i) line.push_back(submit());
  device_.measure(false);
  device_.wait(line.back());
  const auto first = device_.times(line.front()), last = device_.times(line.back());
  const double each = first && last ? (last->end - first->begin) / in_line_ : 0;
  if (device_.queues() && each > 0) in_line_ = static_cast<int>(std::clamp(kQueuedSeconds / each, 2.0, static_cast<double>(kMostQueued)));
  return each;
}

}  // namespace rehearse
