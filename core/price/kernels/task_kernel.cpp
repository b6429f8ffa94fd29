#include "core/price/kernels/task_kernel.hpp"

#include <algorithm>

#include "core/base/index.hpp"

namespace rehearse {

namespace {

bool has_halo(const Tensor& t) {
  return std::any_of(t.layout.begin(), t.layout.end(),
                     [](const auto& l) { return std::holds_alternative<Halo>(l.second); });
}

/// Bytes of a rank's own part: only windows read what the neighbours have lent.
double own_bytes(const Program& p, const Tensor& t, const ExprContext& at) {
  Tensor own = t;
  for (auto& [axis, l] : own.layout)
    if (const auto* h = std::get_if<Halo>(&l)) l = shard_on(h->dim);
  return p.local_bytes(own, at);
}

/// Reads a convolution's scalars (body.hpp).
ConvolutionShape convolution_of(const ComputeTask& c) {
  ConvolutionShape s;
  const std::size_t sides = c.scalars.size() / 4 - 1;
  s.sides = static_cast<int>(sides);
  for (std::size_t i = 0; i < sides; ++i) {
    s.window[i] = c.scalars[4 * i];
    s.stride *= c.scalars[4 * i + 1];
    s.dense = s.dense && c.scalars[4 * i + 1] == 1 && c.scalars[4 * i + 3] == 1;
  }
  s.groups = c.scalars[4 * sides];
  s.out = c.scalars[4 * sides + 2];
  s.in = c.scalars[4 * sides + 3];
  s.pass = c.op == ComputeOp::convolution ? ConvolutionPass::forward
           : c.variant == "input"         ? ConvolutionPass::input_grad
                                          : ConvolutionPass::weight_grad;
  // A transposed convolution is the other's input gradient, and the other way round.
  if (c.scalars[4 * sides + 1] != 0) {
    std::swap(s.in, s.out);
    if (s.pass != ConvolutionPass::weight_grad)
      s.pass = s.pass == ConvolutionPass::forward ? ConvolutionPass::input_grad : ConvolutionPass::forward;
  }
  return s;
}

/// With the sizes of a rank's images: pixels, and sides of the output, whose gradient comes first to a pass for the
/// input and second to one for the weight.
ConvolutionShape convolution_of(const Program& p, const Task& task, const Body& body, const ComputeTask& c,
                                const std::vector<double>& d, const ExprContext& at) {
  ConvolutionShape s = convolution_of(c);
  s.m = d[1];
  const bool transposed = c.scalars[4 * static_cast<std::size_t>(s.sides) + 1] != 0;
  const std::size_t place = c.op == ComputeOp::convolution ? (transposed ? 0 : 2)
                            : c.variant == "input"         ? (transposed ? 2 : 0)
                                                           : (transposed ? 0 : 1);
  const Tensor& y = nth(p.tensors, nth(body.formals, task.operands[place].formal).like);
  for (std::size_t i = 0; i < static_cast<std::size_t>(s.sides) && i + 2 < y.shape.size(); ++i)
    s.output_side[i] = static_cast<double>(p.exprs.evaluate(y.shape[i + 2], at));
  return s;
}

bool in_fp8(DType arithmetic) { return arithmetic == DType::fp8 || arithmetic == DType::mxfp8; }

std::string convolution_group_of(const ComputeTask& c) {
  return std::string(group_of(class_of(convolution_of(c), c.arithmetic == DType::tf32 || size_of(c.arithmetic) < 4)));
}

}  // namespace

KernelClass class_of(const ComputeTask& task) {
  switch (task.op) {
    case ComputeOp::matmul: return KernelClass::gemm;
    case ComputeOp::grouped_matmul: return KernelClass::grouped_gemm;
    case ComputeOp::attention:
    case ComputeOp::attention_grad: return KernelClass::attention_flash;
    case ComputeOp::softmax:
    case ComputeOp::softmax_grad:
    case ComputeOp::route:
    case ComputeOp::route_grad: return KernelClass::softmax;
    case ComputeOp::norm:
    case ComputeOp::norm_grad: return task.variant == "batch_norm" ? KernelClass::batch_norm : KernelClass::norm;
    case ComputeOp::statistics: return task.variant == "adafactor" ? KernelClass::optimizer : KernelClass::batch_norm;
    case ComputeOp::quantise:
      return task.variant == "mxfp8"   ? KernelClass::quantise_mxfp8
             : task.variant == "nvfp4" ? KernelClass::quantise_nvfp4
                                       : KernelClass::elementwise;
    case ComputeOp::embedding:
    case ComputeOp::embedding_grad: return KernelClass::embedding;
    case ComputeOp::cross_entropy:
    case ComputeOp::cross_entropy_grad: return KernelClass::cross_entropy;
    case ComputeOp::optimizer: return KernelClass::optimizer;
    case ComputeOp::state_space:
    case ComputeOp::state_space_grad: return KernelClass::state_space;
    case ComputeOp::convolution:
    case ComputeOp::convolution_grad: return KernelClass::convolution;
    case ComputeOp::pool:
    case ComputeOp::pool_grad: return KernelClass::pool;
    case ComputeOp::square_sum:
    case ComputeOp::histogram: return KernelClass::reduction;
    case ComputeOp::cast:
    case ComputeOp::copy:
    case ComputeOp::fill: return KernelClass::copy;
    case ComputeOp::add:
      return task.variant == "column_sum" || task.variant == "channel_sum" ? KernelClass::reduction
                                                                           : KernelClass::elementwise;
    default: return KernelClass::elementwise;
  }
}

TimeCategory category_of(const Program& program, const ComputeTask& task, Phase phase) {
  if (phase == Phase::recompute) return TimeCategory::recompute;
  if (phase == Phase::optimizer) return TimeCategory::optimizer;
  if (task.op == ComputeOp::route || task.op == ComputeOp::route_grad) return TimeCategory::memory_bound;
  switch (class_of(task)) {
    // Batched products are the scores and contexts of unfused attention.
    case KernelClass::gemm:
      return program.exprs.is_constant(task.dims[0]) && task.dims[0] == ExprPool::kOne ? TimeCategory::matmul
                                                                                       : TimeCategory::attention;
    case KernelClass::convolution:
    case KernelClass::grouped_gemm: return TimeCategory::matmul;
    case KernelClass::attention_flash:
    case KernelClass::softmax: return TimeCategory::attention;
    case KernelClass::embedding:
    case KernelClass::cross_entropy: return TimeCategory::loss;
    default: return TimeCategory::memory_bound;
  }
}

TaskTraffic traffic_of(const Program& p, const Task& task, const Body& body, const ExprContext& at) {
  TaskTraffic t;
  const auto* c = std::get_if<ComputeTask>(&task.kind);
  const KernelClass cls = c != nullptr ? class_of(*c) : KernelClass::copy;
  const bool windows = cls == KernelClass::convolution || cls == KernelClass::pool;
  for (const Operand& o : task.operands) {
    const Tensor& tensor = nth(p.tensors, nth(body.formals, o.formal).like);
    const double bytes = windows || !has_halo(tensor) ? p.local_bytes(tensor, at) : own_bytes(p, tensor, at);
    if (o.access != Access::write) t.read += bytes;
    if (o.access != Access::read) t.written += bytes;
  }
  return t;
}

Kernel kernel_of(const Program& p, const Task& task, const Body& body, const ComputeTask& c, const ExprContext& at) {
  std::vector<double> d;
  for (const ExprId id : c.dims) d.push_back(static_cast<double>(p.exprs.evaluate(id, at)));
  DType out = c.arithmetic;
  for (const Operand& o : task.operands)
    if (o.access != Access::read) out = nth(p.tensors, nth(body.formals, o.formal).like).dtype;
  const KernelClass cls = class_of(c);
  if (cls == KernelClass::gemm || cls == KernelClass::grouped_gemm) {
    // Rows of a grouped product are those of all groups: one has its mean of them.
    if (cls == KernelClass::grouped_gemm) d[c.transpose_a ? 3 : 1] /= d[0];
    const bool accumulates = c.accumulates && c.accumulate_if != ExprPool::kZero;
    Kernel k = make_gemm({d[0], d[1], d[2], d[3]}, c.arithmetic, out, accumulates,
                         task.phase == Phase::input_grad || task.phase == Phase::weight_grad);
    k.cls = cls;
    return k;
  }
  if (cls == KernelClass::attention_flash)
    return make_flash_attention({d[0], d[1], d[2], d[3], d[4], d[5], c.causal, d.size() > 6 ? d[6] : 0.0}, c.arithmetic,
                                c.op == ComputeOp::attention_grad);
  TaskTraffic t = traffic_of(p, task, body, at);
  if (cls == KernelClass::state_space)
    return make_state_space({d[0] * d[1], d[2], d[3], d[4], d[5], d[7]}, c.arithmetic, c.kernels,
                            c.op == ComputeOp::state_space_grad);
  if (c.op == ComputeOp::attention_merge) {
    const double part = d[0] * d[1] * d[2] * d[3] * size_of(out);  // Of the outputs, the queries of the block.
    t = {2 * part, part};
  }
  if (cls == KernelClass::convolution)
    return make_convolution(convolution_of(p, task, body, c, d, at), Bytes{t.read * c.passes},
                            Bytes{t.written * c.passes}, c.arithmetic);
  if (c.op == ComputeOp::embedding || c.op == ComputeOp::embedding_grad) {
    // Only the rows looked up are touched: as many as tokens, not the whole table.
    double rows = 0;
    for (const Operand& o : task.operands) {
      const Tensor& f = nth(p.tensors, nth(body.formals, o.formal).like);
      if (f.lifetime != Lifetime::persistent && f.dtype != DType::int64) rows = p.local_bytes(f, at);
    }
    t = c.op == ComputeOp::embedding ? TaskTraffic{rows, rows} : TaskTraffic{2 * rows, rows};
  }
  t = {t.read * c.passes, t.written * c.passes};
  // CostModel adds what several copies or updates take beyond one.
  const bool counted_by_caller = cls == KernelClass::copy || cls == KernelClass::optimizer;
  const int launches = c.passes == 0 ? 0 : counted_by_caller ? 1 : std::max(1, c.kernels);
  return make_memory_bound(cls, Bytes{t.read}, Bytes{t.written}, c.arithmetic, launches);
}

std::set<std::string, std::less<>> calibration_groups(const Program& program) {
  std::set<std::string, std::less<>> used{"launch"};
  for (const Body& body : program.bodies) {
    for (const auto v : body.graph.vertices()) {
      const auto* c = std::get_if<ComputeTask>(&body.graph[v].kind);
      if (c == nullptr) continue;
      const KernelClass cls = class_of(*c);
      if (cls == KernelClass::convolution)
        used.insert(convolution_group_of(*c));
      else if (cls == KernelClass::grouped_gemm)
        used.insert({"grouped_gemm", in_fp8(c->arithmetic)         ? "gemm_fp8"
                                     : c->arithmetic == DType::fp4 ? "gemm_fp4"
                                                                   : "gemm"});
      else if (cls == KernelClass::gemm)
        used.insert(in_fp8(c->arithmetic) ? "gemm_fp8" : c->arithmetic == DType::fp4 ? "gemm_fp4" : "gemm");
      else if (cls != KernelClass::attention_flash)
        used.insert(std::string(name_of(cls)));
      else
        used.insert((in_fp8(c->arithmetic) ? std::string(name_of(c->arithmetic)) + "_" : "") + "attention_");
    }
  }
  return used;
}

}  // namespace rehearse
