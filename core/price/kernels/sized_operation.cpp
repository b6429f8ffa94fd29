#include "core/price/kernels/sized_operation.hpp"

#include <algorithm>
#include <cmath>

#include "core/base/index.hpp"
#include "core/program/body.hpp"
#include "core/program/operation_class.hpp"

namespace rehearse {

namespace {

/// Reads the tensors of one task on one rank.
class Reader {
 public:
  Reader(const Program& p, const Task& task, const Body& body, const ExprContext& at)
      : p_(p), task_(task), body_(body), at_(at), c_(std::get<ComputeTask>(task.kind)) {}

  [[nodiscard]] std::vector<SizedOperation> operations() const {
    std::vector<SizedOperation> out;
    if (is_linear_product(c_))
      out = linear();
    else if (c_.op == ComputeOp::matmul)
      out = {heads_of_product()};
    else if (c_.op == ComputeOp::grouped_matmul)
      out = {grouped()};
    else if (c_.op == ComputeOp::convolution || c_.op == ComputeOp::convolution_grad)
      out = {named({"m", "n", "k"}, {dim(1), dim(2), dim(3)}, dim(0))};
    else if (c_.op == ComputeOp::attention || c_.op == ComputeOp::attention_grad)
      out = {named({"heads", "length", "head_dim"}, {dim(0) * dim(1), std::sqrt(dim(3) * keys()), dim(5)})};
    else if (c_.op == ComputeOp::softmax || c_.op == ComputeOp::softmax_grad)
      out = {softmax()};
    else if (by_rows())
      out = {rows()};
    else if (c_.op == ComputeOp::rope || c_.op == ComputeOp::rope_grad)
      out = {turned()};
    else
      out = {named({"elements"}, {all_elements()})};
    std::erase_if(out, [](const SizedOperation& o) {
      return o.repeats <= 0 || std::any_of(o.size.begin(), o.size.end(), [](double x) { return !(x > 0); });
    });
    return out;
  }

 private:
  [[nodiscard]] const Tensor& tensor(const Operand& o) const {
    return nth(p_.tensors, nth(body_.formals, o.formal).like);
  }
  [[nodiscard]] double elements(const Operand& o) const {
    return static_cast<double>(p_.local_elements(tensor(o), at_));
  }
  [[nodiscard]] double dim(std::size_t i) const { return static_cast<double>(p_.exprs.evaluate(c_.dims.at(i), at_)); }

  /// That a query of attention meets at most.
  [[nodiscard]] double keys() const { return c_.dims.size() > 6 ? std::min(dim(4), dim(6)) : dim(4); }

  [[nodiscard]] SizedOperation named(std::vector<std::string> axes, std::vector<double> size,
                                     double repeats = 1) const {
    return {measured_name(c_), std::move(axes), std::move(size), repeats};
  }

  /// One product per output, or per gradient of one.
  [[nodiscard]] std::vector<SizedOperation> linear() const {
    const bool forward = c_.variant == "linear";
    const std::size_t last = task_.operands.size() - (forward && !c_.offsets.empty() ? 1 : 0);
    double whole = 0;
    for (std::size_t i = 2; i < last; ++i) whole += elements(task_.operands[i]);
    // Of m, n, k: the one along the outputs.
    const std::size_t split = forward ? 1 : c_.variant == "linear_input_grad" ? 2 : 0;
    std::vector<SizedOperation> out;
    for (std::size_t i = 2; i < last && whole > 0; ++i) {
      std::vector<double> mnk{dim(1), dim(2), dim(3)};
      mnk[split] *= elements(task_.operands[i]) / whole;
      out.push_back(named({"m", "n", "k"}, std::move(mnk)));
    }
    return out;
  }

  /// Rows of a grouped product are those of all groups: one has its mean of them.
  [[nodiscard]] SizedOperation grouped() const {
    std::vector<double> mnk{dim(1), dim(2), dim(3)};
    mnk[c_.transpose_a ? 2 : 0] /= dim(0);
    return named({"m", "n", "k"}, std::move(mnk), dim(0));
  }

  [[nodiscard]] SizedOperation heads_of_product() const {
    const bool inner = c_.variant == "scores" || c_.variant == "probabilities_grad";
    const double head_dim = inner ? dim(3) : dim(2), square = inner ? dim(1) * dim(2) : dim(1) * dim(3);
    return named({"heads", "length", "head_dim"}, {dim(0), std::sqrt(square), head_dim});
  }

  /// The largest real operand that is not kept from step to step: what an operator walks over.
  [[nodiscard]] const Operand& walked() const {
    const auto less = [&](const Operand& a, const Operand& b) {
      const auto rank = [&](const Operand& o) {
        return std::pair(tensor(o).lifetime != Lifetime::persistent && tensor(o).dtype != DType::int64, elements(o));
      };
      return rank(a) < rank(b);
    };
    return *std::max_element(task_.operands.begin(), task_.operands.end(), less);
  }
  [[nodiscard]] double width(const Operand& o) const {
    const Tensor& t = tensor(o);
    return t.shape.empty() ? 1 : static_cast<double>(p_.local_extent(t, static_cast<int>(t.shape.size()) - 1, at_));
  }

  [[nodiscard]] SizedOperation softmax() const {
    const double length = width(walked());
    return named({"heads", "length"}, {elements(walked()) / (length * length), length});
  }

  [[nodiscard]] bool by_rows() const {
    switch (c_.op) {
      case ComputeOp::norm:
      case ComputeOp::norm_grad: return c_.variant != "batch_norm";
      case ComputeOp::cross_entropy: return c_.variant != "loss" && c_.variant != "loss_of_sums";
      case ComputeOp::cross_entropy_grad: return true;
      case ComputeOp::embedding:
      case ComputeOp::embedding_grad: return c_.variant.empty();
      default: return false;
    }
  }
  [[nodiscard]] SizedOperation rows() const {
    if (c_.op == ComputeOp::embedding || c_.op == ComputeOp::embedding_grad) {
      double tokens = 0, columns = 0;
      for (const Operand& o : task_.operands) {
        if (tensor(o).dtype == DType::int64)
          tokens = elements(o);
        else
          columns = width(o);
      }
      return named({"rows", "width"}, {tokens, columns});
    }
    return named({"rows", "width"}, {elements(walked()) / width(walked()), width(walked())});
  }

  /// Angles are worked out once for all heads of a token.
  [[nodiscard]] SizedOperation turned() const {
    const Tensor& x = tensor(task_.operands.front());
    const double heads = x.shape.size() > 3 ? static_cast<double>(p_.local_extent(x, 2, at_)) : 1;
    return named({"rows", "heads"}, {elements(task_.operands.front()) / heads, heads});
  }

  [[nodiscard]] double all_elements() const {
    double n = 0;
    for (const Operand& o : task_.operands) n += elements(o);
    return n;
  }

  const Program& p_;
  const Task& task_;
  const Body& body_;
  const ExprContext& at_;
  const ComputeTask& c_;
};

}  // namespace

std::string operation_name(const ComputeTask& task) {
  std::string out(name_of(task.op));
  if (!task.variant.empty()) out += "." + task.variant;
  return out;
}

std::string measured_name(const ComputeTask& task) {
  std::string out = operation_name(task);
  if (task.op == ComputeOp::matmul && task.variant == "linear" && !task.offsets.empty()) out += "+bias";
  if ((task.op == ComputeOp::attention || task.op == ComputeOp::attention_grad) && task.probability > 0)
    out += "+dropout";
  if (task.accumulates) out += "+accumulate";
  if (task.causal) out += "+causal";
  return out;
}

std::vector<SizedOperation> sized_operations(const Program& program, const Task& task, const Body& body,
                                             const ExprContext& at) {
  return Reader(program, task, body, at).operations();
}

}  // namespace rehearse
