// Dispatch and combine: tokens become rows in expert order on the ranks of their experts, and tokens again. Gradients
// go the same ways back, so that a layer exchanges its rows four times.
//
//   one exchange      permute | all-to-all over ep | sort
//   hierarchical      one copy per node | all-to-all between nodes | copies to rows | all-to-all inside nodes | sort
//   of nodes of one   one copy per rank | all-to-all | copies to rows in expert order (deepseek-ai/DeepEP: both
//   directions)

#include <fmt/format.h>

#include "core/base/index.hpp"
#include "core/strategy/operators/ops.hpp"
#include "core/strategy/operators/ops_routing.hpp"

namespace rehearse::ops {

namespace {

/// Rows and, on the way to the experts in forward and back in backward, their weights; -1 without.
struct Rows {
  int rows = -1, weights = -1;
};

/// Moves rows between the ranks of tokens and of experts for one op.
class Exchange {
 public:
  Exchange(BlockBody& b, const OpSpec& op, Phase phase, std::int64_t hidden, bool weighted)
      : b_(b),
        body_(b.builder()),
        plan_(b.options().experts),
        op_(op),
        phase_(phase),
        hidden_(hidden),
        weighted_(weighted) {}

  /// Rows as they leave the tokens' rank, or come back to it.
  Rows at_source(const std::string& name) {
    return plan_.ep == 1    ? ordered(name)
           : plan_.node > 0 ? make(name, copies(), sent(), plan_.at_source)
                            : spread(name);
  }
  /// Rows in expert order on the experts' rank.
  Rows ordered(const std::string& name) { return make(name, plan_.arrived, plan_.arrived, plan_.at_expert); }

  void to_experts(Rows from, const Rows& to) {
    if (plan_.ep == 1) return;
    if (plan_.node > 0) {
      const Rows arrived = at_source("copies");
      all_to_all("dispatch.nodes", between_nodes(), from, arrived, Counted::no);
      if (plan_.node == 1) return permute("fan_out", arrived, to);
      from = spread("rows");
      permute("fan_out", arrived, from, body_.frame().ep);
    }
    const Rows here = sorts() ? ordered("unsorted") : to;
    all_to_all("dispatch", inside(), from, here, Counted::out);
    if (sorts()) permute("sort", here, to);
  }

  void from_experts(Rows from, const Rows& to) {
    if (plan_.ep == 1) return;
    if (plan_.node == 1) {
      const Rows added = at_source("copies");
      permute("fan_in", from, added);
      return all_to_all("combine.nodes", between_nodes(), added, to, Counted::no);
    }
    if (sorts()) {
      const Rows unsorted = ordered("unsorted");
      permute("unsort", from, unsorted);
      from = unsorted;
    }
    if (plan_.node == 0) return all_to_all("combine", inside(), from, to, Counted::back);
    const Rows back = spread("rows");
    all_to_all("combine", inside(), from, back, Counted::back);
    const Rows added = at_source("copies");
    permute("fan_in", back, added, body_.frame().ep);
    all_to_all("combine.nodes", between_nodes(), added, to, Counted::no);
  }

  void add_counts(Task& task, ComputeTask& work) const {
    if (plan_.padded) return;
    const int formal = b_.shared("rows_to", plan_.counts_to);
    work.group_sizes = formal;
    task.operands.push_back(read(formal));
  }

 private:
  /// Which counts tell how much an exchange moves: those on the way to the experts, or back.
  enum class Counted { no, out, back };

  [[nodiscard]] ExprId sent() { return plan_.sent_rows; }
  [[nodiscard]] ExprId copies() { return body_.frame().constant(plan_.copies); }
  [[nodiscard]] bool sorts() const { return plan_.experts_here() > 1; }
  Rows spread(const std::string& name) { return make(name, sent(), sent(), plan_.at_source); }

  Rows make(const std::string& name, ExprId rows, ExprId weights, const Layout& layout) {
    const auto tensor = [&](const std::string& what, std::vector<ExprId> shape, DType dtype) {
      Tensor t;
      t.name = fmt::format("{}.{}.{}", b_.tensors().spec->name, op_.name, what);
      t.shape = std::move(shape);
      t.dtype = dtype;
      t.layout = layout;
      return body_.scratch(op_.name + "." + what, body_.frame().add_tensor(std::move(t)));
    };
    Rows out;
    out.rows = tensor(name, {rows, body_.frame().constant(hidden_)}, body_.frame().activation_dtype);
    if (weighted_) out.weights = tensor(name + ".weights", {weights}, DType::fp32);
    return out;
  }

  int inside() {
    ExprPool& e = body_.frame().program.exprs;
    if (plan_.node == 0) return body_.frame().group("ep", {Axis::ep});
    return body_.frame().group("ep.node", {Axis::ep}, e.apply(ExprOp::div, e.coord(Axis::ep), e.constant(plan_.node)));
  }
  int between_nodes() {
    ExprPool& e = body_.frame().program.exprs;
    return body_.frame().group("ep.nodes", {Axis::ep}, e.apply(ExprOp::mod, e.coord(Axis::ep), e.constant(plan_.node)));
  }

  /// Elements to and from one peer, as counted.
  void count(CollectiveTask& c, Counted counted) {
    if (counted == Counted::no || !plan_.counted || plan_.node > 0) return;
    ExprPool& e = body_.frame().program.exprs;
    const ExprId here = e.constant(plan_.experts_here());
    const auto rows = [&](int dynamic) {
      ExprId sum = ExprPool::kZero;
      for (std::int64_t j = 0; j < plan_.experts_here(); ++j) {
        const ExprId at = e.apply(ExprOp::add, e.apply(ExprOp::mul, e.variable(Var::peer), here), e.constant(j));
        const ExprId mean = e.constant(plan_.sent / plan_.routing.experts);
        sum = e.apply(ExprOp::add, sum, e.apply(ExprOp::element, e.dynamic(dynamic, mean), at));
      }
      return e.apply(ExprOp::mul, sum, e.constant(hidden_));
    };
    c.variable_counts = true;
    c.count_to_peer = rows(counted == Counted::out ? plan_.rows_to : plan_.rows_from);
    c.count_from_peer = rows(counted == Counted::out ? plan_.rows_from : plan_.rows_to);
  }

  void all_to_all(const std::string& name, int group, const Rows& from, const Rows& to, Counted counted) {
    CollectiveTask c;
    c.op = CollectiveOp::all_to_all;
    c.group = group;
    c.direct = plan_.node > 0;  // Plans of copies are those of dispatchers with kernels of their own.
    count(c, counted);
    Task task;
    task.name = fmt::format("{}.{}", op_.name, name);
    task.kind = c;
    task.operands = {read(from.rows), write(to.rows)};
    if (weighted_) task.operands.insert(task.operands.end(), {read(from.weights), write(to.weights)});
    task.stream = body_.frame().ep;
    task.phase = phase_;
    body_.add(std::move(task));
  }

  void permute(const char* variant, const Rows& from, const Rows& to) {
    permute(variant, from, to, body_.frame().compute);
  }

  /// What stands between two exchanges is part of both: deepseek-ai/DeepEP hands copies on in the kernel that receives
  /// them.
  void permute(const char* variant, const Rows& from, const Rows& to, StreamId stream) {
    std::vector<Operand> operands{read(from.rows), write(to.rows)};
    if (weighted_) operands.insert(operands.end(), {read(from.weights), write(to.weights)});
    ComputeTask work = pass(phase_ == Phase::input_grad ? ComputeOp::permute_grad : ComputeOp::permute, variant);
    if (!plan_.padded) {
      work.group_sizes = b_.shared("rows_from", plan_.counts_from);
      operands.push_back(read(work.group_sizes));
    }
    work.scalars = {static_cast<double>(plan_.experts_here()), static_cast<double>(plan_.ep),
                    static_cast<double>(plan_.capacity)};
    Task task;
    task.name = fmt::format("{}.{}", op_.name, variant);
    task.operands = std::move(operands);
    task.kind = std::move(work);
    task.stream = stream;
    task.phase = phase_;
    body_.add(std::move(task));
  }

  BlockBody& b_;
  BodyBuilder& body_;
  const ExpertPlan& plan_;
  const OpSpec& op_;
  Phase phase_;
  std::int64_t hidden_;
  bool weighted_;
};

std::int64_t width(BlockBody& b, int t) { return nth(b.tensors().spec->tensors, t).shape.back().size; }

/// One pass between tokens and rows, told by the experts of each token.
void add_pass(BlockBody& b, const OpSpec& op, const Exchange& exchange, const char* name, ComputeOp kind,
              std::vector<Operand> operands, Phase phase, StreamId stream) {
  ComputeTask work = pass(kind, name);
  Task task;
  task.name = fmt::format("{}.{}", op.name, name);
  operands.push_back(read(b.extra(choice_of(router_of(*b.tensors().spec, op)))));
  task.operands = std::move(operands);
  const ExpertPlan& plan = b.options().experts;
  work.scalars = {static_cast<double>(plan.routing.experts), static_cast<double>(plan.capacity),
                  plan.padded ? 1.0 : 0.0};
  exchange.add_counts(task, work);
  task.kind = std::move(work);
  task.stream = stream;
  task.phase = phase;
  b.builder().add(std::move(task));
}

/// Where tasks run that lead from the counts to the exchange of rows: on its stream, so that a body interleaved with
/// another turns at the exchange and not at the counts.
StreamId before_rows(BlockBody& b) {
  return b.options().experts.ep > 1 ? b.builder().frame().ep : b.builder().frame().compute;
}

/// Rows per expert are counted and, between ranks, exchanged: nothing else tells how much arrives.
void count_rows(BlockBody& b, const OpSpec& op) {
  const ExpertPlan& plan = b.options().experts;
  if (plan.padded) return;
  BodyBuilder& body = b.builder();
  const int to = b.shared("rows_to", plan.counts_to), from = b.shared("rows_from", plan.counts_from);
  ComputeTask histogram = pass(ComputeOp::histogram, "per_expert");
  histogram.scalars = {static_cast<double>(plan.capacity)};
  body.compute(op.name + ".count", histogram, {read(b.extra(choice_of(router_of(*b.tensors().spec, op)))), write(to)},
               b.phase());
  if (plan.ep > 1) {
    Task task;
    task.name = op.name + ".sizes";
    CollectiveTask c;
    c.op = CollectiveOp::all_to_all;
    c.group = body.frame().group("ep", {Axis::ep});
    task.kind = c;
    task.operands = {read(to), write(from)};
    task.stream = body.frame().ep;
    task.phase = b.phase();
    body.add(std::move(task));
  }
  if (plan.etp > 1) {
    CollectiveTask c;
    c.op = CollectiveOp::all_gather;
    c.group = body.frame().group("etp", {Axis::etp});
    body.add({.name = op.name + ".sizes_all",
              .kind = c,
              .operands = {read(from), write(b.shared("rows_all", plan.counts_all))},
              .stream = body.frame().stream_of(Axis::etp),
              .phase = b.phase(),
              .predicate = ExprPool::kOne});
  }
  if (!plan.counted) return;
  Task sum;
  sum.name = op.name + ".sum";
  sum.kind = pass(ComputeOp::histogram, "sum");
  sum.operands = {read(from), write(b.shared("rows_here", plan.rows_here))};
  sum.stream = before_rows(b);
  sum.phase = b.phase();
  body.add(std::move(sum));
}

void dispatch_forward(BlockBody& b, const OpSpec& op) {
  const Layout& tokens = b.stored(op.inputs[1]);
  const int x = b.value(op.inputs[0], tokens, op.name), weights = b.value(op.inputs[1]);
  count_rows(b, op);
  Exchange exchange(b, op, b.phase(), width(b, op.inputs[0]), true);
  const Rows out{b.result(op.outputs[0], b.stored(op.outputs[0])), b.result(op.outputs[1], b.stored(op.outputs[1]))};
  const Rows source = b.options().experts.ep == 1 ? out : exchange.at_source("sent");
  add_pass(b, op, exchange, "permute", ComputeOp::permute,
           {read(x), read(weights), write(source.rows), write(source.weights)}, b.phase(), before_rows(b));
  exchange.to_experts(source, out);
}

void dispatch_backward(BlockBody& b, const OpSpec& op) {
  const Rows grads{b.grad(op.outputs[0], gradient_layout(b.stored(op.outputs[0])), op.name),
                   b.grad(op.outputs[1], gradient_layout(b.stored(op.outputs[1])), op.name)};
  if (grads.rows < 0 || grads.weights < 0) return;
  Exchange exchange(b, op, Phase::input_grad, width(b, op.inputs[0]), true);
  const Rows source = b.options().experts.ep == 1 ? grads : exchange.at_source("sent_grad");
  exchange.from_experts(grads, source);
  const Layout tokens = gradient_layout(b.stored(op.inputs[1]));
  const int dweights = b.scratch_of(op.inputs[1], op.name + ".weights_grad", tokens);
  const int dx = b.scratch_of(op.inputs[0], op.name + ".input_grad", tokens);
  add_pass(b, op, exchange, "permute_grad", ComputeOp::permute_grad,
           {read(source.rows), read(source.weights), write(dx), write(dweights)}, Phase::input_grad,
           b.builder().frame().compute);
  b.add_grad(op.inputs[0], dx, op.name);
  b.add_grad(op.inputs[1], dweights, op.name);
}

void combine_forward(BlockBody& b, const OpSpec& op) {
  Exchange exchange(b, op, b.phase(), width(b, op.inputs[0]), false);
  const Rows rows{b.value(op.inputs[0])};
  const Rows source = b.options().experts.ep == 1 ? rows : exchange.at_source("returned");
  exchange.from_experts(rows, source);
  const int out = b.result(op.outputs[0], b.stored(op.outputs[0]));
  add_pass(b, op, exchange, "unpermute", ComputeOp::unpermute, {read(source.rows), write(out)}, b.phase(),
           b.builder().frame().compute);
}

void combine_backward(BlockBody& b, const OpSpec& op) {
  const int dout = b.grad(op.outputs[0], gradient_layout(b.stored(op.outputs[0])), op.name);
  if (dout < 0) return;
  Exchange exchange(b, op, Phase::input_grad, width(b, op.inputs[0]), false);
  const Rows grads = exchange.ordered("rows_grad");
  const Rows source = b.options().experts.ep == 1 ? grads : exchange.at_source("sent_grad");
  add_pass(b, op, exchange, "unpermute_grad", ComputeOp::permute_grad, {read(dout), write(source.rows)},
           Phase::input_grad, b.builder().frame().compute);
  exchange.to_experts(source, grads);
  b.add_grad(op.inputs[0], grads.rows, op.name);
}

}  // namespace

[[maybe_unused]] const bool registered_ops_dispatch =
    lower_operators({"dispatch"}, {dispatch_forward, dispatch_backward, saves_nothing}) &&
    lower_operators({"combine"}, {combine_forward, combine_backward, saves_nothing});

}  // namespace rehearse::ops
