#include "core/price/roofline.hpp"

#include <algorithm>
#include <array>
#include <tuple>

#include "core/price/kernels/task_kernel.hpp"
#include "core/program/body.hpp"

namespace rehearse {

namespace {

/// Calls of a step that do the same: all of a body in one layer, chunk, pass and copy.
using CallKey = std::array<std::int32_t, 5>;
struct Calls {
  const Entry* first = nullptr;
  double count = 0;
};

ExprContext at_entry(const Program& p, int rank, const Entry& e) {
  ExprContext at = p.mesh.context(rank);
  at.layer = e.layer;
  at.chunk = e.chunk;
  at.microbatch = e.microbatch;
  at.pass = e.pass;
  at.copy = e.copy;
  at.tables = &p.tables;
  const Role& role = nth(p.roles, nth(p.role_of_rank, rank));
  at.microbatches = role.microbatches > 0 ? role.microbatches : p.microbatches;
  return at;
}

std::map<CallKey, Calls> calls_of(const Program& p, int rank) {
  std::map<CallKey, Calls> out;
  for (const Entry& e : nth(p.roles, nth(p.role_of_rank, rank)).step) {
    if (p.exprs.evaluate(e.predicate, at_entry(p, rank, e)) == 0) continue;
    Calls& c = out[{e.body, e.layer, e.chunk, e.pass, e.copy}];
    if (c.first == nullptr) c.first = &e;
    ++c.count;
  }
  return out;
}

bool is_product(KernelClass c) {
  return c == KernelClass::gemm || c == KernelClass::grouped_gemm || c == KernelClass::attention_flash ||
         c == KernelClass::convolution;
}

}  // namespace

Roofline roofline_of(const Program& program, const CostModel& cost, int rank) {
  std::map<std::pair<KernelClass, DType>, RooflinePoint> points;
  for (const auto& [key, calls] : calls_of(program, rank)) {
    const Body& body = nth(program.bodies, key.front());
    const ExprContext at = at_entry(program, rank, *calls.first);
    for (const auto v : body.graph.vertices()) {
      const Task& task = body.graph[v];
      const auto* compute = std::get_if<ComputeTask>(&task.kind);
      if (compute == nullptr || program.role_of(task.stream) != StreamRole::compute ||
          program.exprs.evaluate(task.predicate, at) == 0)
        continue;
      const Kernel kernel = kernel_of(program, task, body, *compute, at);
      RooflinePoint& point = points[{kernel.cls, kernel.dtype}];
      point.cls = kernel.cls;
      point.arithmetic = kernel.dtype;
      point.flops += flops_of(kernel) * calls.count;
      point.bytes += (kernel.bytes_read + kernel.bytes_written) * calls.count;
      point.time += cost.price(program, task, body, rank, at).time * calls.count;
      point.calls += calls.count;
    }
  }
  const GpuSpec& gpu = cost.cluster().gpu(nth(program.device_of_rank, rank));
  Roofline out{gpu.name, gpu.memory_bandwidth, {}, {}};
  for (const auto& [key, point] : points) {
    if (!(point.time > Seconds{0})) continue;
    out.points.push_back(point);
    const auto peak = gpu.peak_dense.find(point.arithmetic);
    if (is_product(point.cls) && peak != gpu.peak_dense.end()) out.peaks.insert(*peak);
  }
  std::stable_sort(out.points.begin(), out.points.end(),
                   [](const RooflinePoint& a, const RooflinePoint& b) { return a.time > b.time; });
  return out;
}

}  // namespace rehearse
