#include "core/model/hf_config.hpp"

#include <fmt/core.h>

#include <array>
#include <tuple>

#include "core/base/error.hpp"

namespace rehearse {
namespace {

[[noreturn]] void inconsistent(const ObjectReader& in, const std::string& what, const std::string& hint) {
  throw Error(ErrorKind::usage, what, in.where(), hint);
}

}  // namespace

bool read_tanh_gelu(ObjectReader& in, const std::string& key, const std::string& fallback) {
  static const std::array<std::string, 4> kNames{"gelu", "gelu_new", "gelu_fast", "gelu_pytorch_tanh"};
  return in.choice(key, kNames, fallback) != kNames.front();
}

std::int64_t per_head(const ObjectReader& in, std::string_view hidden_key, std::int64_t hidden,
                      std::string_view heads_key, std::int64_t heads) {
  if (hidden % heads != 0)
    inconsistent(in, fmt::format("{} ({}) mod {} ({}) = {} != 0", hidden_key, hidden, heads_key, heads, hidden % heads),
                 fmt::format("make {} a multiple of {}", hidden_key, heads_key));
  return hidden / heads;
}

void read_routed_experts(ObjectReader& in, ExpertLayers& experts, bool normalise) {
  Routing& r = experts.routing;
  r.experts = in.integer("n_routed_experts", kExpertCount);
  r.top_k = in.integer("num_experts_per_tok", kExpertCount);
  r.groups = in.integer("n_group", kExpertCount, 1);
  r.limit = in.integer("topk_group", kExpertCount, r.groups);
  r.normalise = in.boolean("norm_topk_prob", normalise);
  r.scale = in.number("routed_scaling_factor", {0.0, 1e6}, 1.0);
  r.aux_loss = in.number("aux_loss_alpha", kAuxLossCoefficient, 0.0);
  experts.ffn = in.integer("moe_intermediate_size", {1, kMaxWidth});
}

std::int64_t read_rotary_dim(ObjectReader& in, const std::string& key, double fallback, std::int64_t head_dim) {
  const double fraction = in.number(key, {0.0, 1.0}, fallback);
  const auto dim = static_cast<std::int64_t>(fraction * static_cast<double>(head_dim));
  if (dim == 0)
    in.fail(key, fmt::format("of a head's {} elements none are left to turn", head_dim), "two or more must turn");
  return dim;
}

double read_rope_theta(ObjectReader& in, const std::string& key) {
  constexpr double kDefault = 1e4;
  constexpr NumberRange kRange{1.0, 1e12};
  auto nested = in.optional_object("rope_parameters");
  return in.number(key, kRange, nested ? nested->number("rope_theta", kRange, kDefault) : kDefault);
}

namespace {

void check_experts(const TransformerConfig& c, const ObjectReader& in) {
  const Routing& r = c.experts.routing;
  if (r.experts == 0) return;
  if (r.experts % r.groups != 0)
    inconsistent(in, fmt::format("experts ({}) mod groups ({}) = {} != 0", r.experts, r.groups, r.experts % r.groups),
                 "groups of experts are of one size");
  if (r.limit > r.groups)
    inconsistent(in, fmt::format("a token may use {} groups of {}", r.limit, r.groups),
                 "topk_group is at most n_group");
  if (r.top_k > r.experts / r.groups * r.limit)
    inconsistent(in,
                 fmt::format("{} experts per token > {} groups * {} experts", r.top_k, r.limit, r.experts / r.groups),
                 "a token's experts are different ones");
  if (c.experts.dense_layers >= c.layers)
    inconsistent(in, fmt::format("the first {} of {} layers have no experts", c.experts.dense_layers, c.layers),
                 "at least one layer has experts");
}

void check_state_space(const TransformerConfig& c, const ObjectReader& in) {
  const StateSpace& s = c.state_space;
  if (s.heads == 0) return;
  if (s.heads % s.groups != 0)
    inconsistent(in,
                 fmt::format("mamba_num_heads ({}) mod n_groups ({}) = {} != 0", s.heads, s.groups, s.heads % s.groups),
                 "each group serves an equal number of heads");
  for (const auto& [what, each, count] : {std::tuple{"mamba_num_heads * mamba_head_dim", s.head_dim, s.heads},
                                          std::tuple{"n_groups * ssm_state_size", s.state, s.groups}})
    if (each > kMaxWidth / count)
      inconsistent(in, fmt::format("{} ({} * {}) > {}", what, count, each, kMaxWidth),
                   "check the file against the model card");
}

}  // namespace

void check(const TransformerConfig& c, const ObjectReader& in) {
  if (c.heads % c.kv_heads != 0)
    inconsistent(
        in, fmt::format("heads ({}) mod key/value heads ({}) = {} != 0", c.heads, c.kv_heads, c.heads % c.kv_heads),
        "each key/value head serves an equal number of query heads");
  if (c.head_dim > kMaxWidth / c.heads)
    inconsistent(in, fmt::format("heads ({}) * head_dim ({}) > {}", c.heads, c.head_dim, kMaxWidth),
                 "check the file against the model card");
  if (c.rotary_dim > c.head_dim || c.rotary_dim % 2 != 0)
    inconsistent(in, fmt::format("rotary embedding turns {} of a head's {} elements", c.rotary_dim, c.head_dim),
                 "it turns pairs: an even number, at most head_dim");
  check_experts(c, in);
  check_state_space(c, in);
}

}  // namespace rehearse
