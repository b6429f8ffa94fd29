#include "core/program/program.hpp"

#include <algorithm>
#include <stdexcept>

#include <fmt/format.h>

#include "core/base/index.hpp"
#include "core/program/body.hpp"

namespace rehearse {

namespace {

/// Elements of [0, n) that rank `i` of `k` holds.
std::int64_t slice_length(const Shard& shard, std::int64_t n, int place, int k) {
  const int i = owner_on_ring(shard, place, k);
  if (!shard.parts.empty())
    return shard.padded ? *std::max_element(shard.parts.begin(), shard.parts.end())
                        : shard.parts.at(static_cast<std::size_t>(i));
  const auto piece = [n](std::int64_t index, std::int64_t count) {
    const std::int64_t step = (n + count - 1) / count;
    return std::max<std::int64_t>(0, std::min(n, (index + 1) * step) - index * step);
  };
  if (shard.padded) return shard.zigzag ? 2 * ((n + 2LL * k - 1) / (2LL * k)) : (n + k - 1) / k;
  if (!shard.zigzag) return piece(i, k);
  const std::int64_t blocks = 2LL * k;
  return piece(i, blocks) + piece(blocks - 1 - i, blocks);
}

}  // namespace

Program::Program() = default;
Program::Program(const Program&) = default;
Program::Program(Program&&) noexcept = default;
Program& Program::operator=(const Program&) = default;
Program& Program::operator=(Program&&) noexcept = default;
Program::~Program() = default;

std::string_view name_of(MessageKind kind) {
  static constexpr std::array<std::string_view, 7> kNames{
      "activations", "activation gradients", "parameters", "gradients", "inputs", "outputs", "output gradients"};
  return kNames.at(static_cast<std::size_t>(kind));
}

StreamId Program::stream_along(Axis axis) const {
  const auto at = std::find_if(streams.begin(), streams.end(), [axis](const Stream& s) {
    return s.role == StreamRole::communication && s.axes.contains(axis);
  });
  return at == streams.end() ? StreamId{-1} : static_cast<StreamId>(at - streams.begin());
}

std::vector<std::string> Program::stream_names() const {
  std::vector<std::string> out;
  for (const Stream& s : streams) out.push_back(s.name);
  return out;
}

std::string_view name_of(MemoryCategory c) {
  static constexpr std::array<std::string_view, kMemoryCategories> kNames{
      "weights", "gradients", "optimizer", "activations", "communication", "workspace", "framework"};
  return nth(kNames, c);
}

std::string_view name_of(ComputeOp op) {
  static constexpr std::array kNames = std::to_array<std::string_view>({"matmul",
                                                                        "grouped_matmul",
                                                                        "attention",
                                                                        "attention_grad",
                                                                        "softmax",
                                                                        "softmax_grad",
                                                                        "dropout",
                                                                        "dropout_grad",
                                                                        "dropout_add",
                                                                        "dropout_add_grad",
                                                                        "norm",
                                                                        "norm_grad",
                                                                        "activation",
                                                                        "activation_grad",
                                                                        "rope",
                                                                        "rope_grad",
                                                                        "add",
                                                                        "scale",
                                                                        "cast",
                                                                        "copy",
                                                                        "embedding",
                                                                        "embedding_grad",
                                                                        "cross_entropy",
                                                                        "cross_entropy_grad",
                                                                        "route",
                                                                        "permute",
                                                                        "unpermute",
                                                                        "convolution",
                                                                        "convolution_grad",
                                                                        "pool",
                                                                        "pool_grad",
                                                                        "optimizer",
                                                                        "square_sum",
                                                                        "fill",
                                                                        "route_grad",
                                                                        "permute_grad",
                                                                        "histogram",
                                                                        "attention_merge",
                                                                        "attention_merge_grad",
                                                                        "statistics",
                                                                        "quantise",
                                                                        "state_space",
                                                                        "state_space_grad"});
  static_assert(kNames.size() == static_cast<std::size_t>(ComputeOp::state_space_grad) + 1);
  return nth(kNames, op);
}

AxisLayout layout_on(const Layout& layout, Axis axis) {
  for (const auto& [a, l] : layout)
    if (a == axis) return l;
  return Replicate{};
}

std::string to_string(const Layout& layout) {
  std::string out;
  for (const auto& [axis, l] : layout) {
    if (!out.empty()) out += ' ';
    out += name_of(axis);
    if (std::holds_alternative<Replicate>(l)) out += ":R";
    if (const auto* s = std::get_if<Shard>(&l))
      out +=
          s->flat ? ":S(flat)" : fmt::format(":S({}{})", s->dim, s->turned != 0 ? fmt::format("+{}", s->turned) : "");
    if (std::holds_alternative<Partial>(l)) out += ":P";
    if (const auto* r = std::get_if<Ragged>(&l)) out += fmt::format(":G({})", r->dim);
    if (const auto* h = std::get_if<Halo>(&l)) out += fmt::format(":H({},{},{})", h->dim, h->before, h->after);
  }
  return out.empty() ? "replicated" : out;
}

std::int64_t Program::local_extent(const Tensor& tensor, int dim, const ExprContext& at) const {
  std::int64_t n = exprs.evaluate(tensor.shape.at(static_cast<std::size_t>(dim)), at);
  for (const auto& [axis, l] : tensor.layout) {
    const auto a = static_cast<std::size_t>(axis);
    if (const auto* s = std::get_if<Shard>(&l); s != nullptr && !s->flat && s->dim == dim)
      n = slice_length(*s, n, at.coord[a], at.extent[a]);
    if (const auto* h = std::get_if<Halo>(&l); h != nullptr && h->dim == dim) {
      Shard inner;
      inner.parts = h->parts;
      n = slice_length(inner, n, at.coord[a], at.extent[a]) + (at.coord[a] > 0 ? h->before : 0) +
          (at.coord[a] + 1 < at.extent[a] ? h->after : 0);
    }
  }
  return n;
}

std::int64_t Program::local_elements(const Tensor& tensor, const ExprContext& at) const {
  std::int64_t n = 1;
  for (std::size_t d = 0; d < tensor.shape.size(); ++d) n *= local_extent(tensor, static_cast<int>(d), at);
  for (const auto& [axis, l] : tensor.layout) {
    const auto a = static_cast<std::size_t>(axis);
    if (const auto* s = std::get_if<Shard>(&l); s != nullptr && s->flat)
      n = slice_length(*s, n, at.coord[a], at.extent[a]);
  }
  return n;
}

}  // namespace rehearse
