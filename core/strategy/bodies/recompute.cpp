#include "core/strategy/bodies/recompute.hpp"

#include <algorithm>

#include "core/base/index.hpp"

namespace rehearse {

namespace {

bool is_norm(OpKind k) { return k == OpKind::layer_norm || k == OpKind::rms_norm; }

bool in_attention(const OpSpec& op) {
  return op.part == LayerPart::attention || op.part == LayerPart::latent_projection;
}

bool is_product(const OpSpec& op) { return op.kind == OpKind::linear || op.kind == OpKind::grouped_linear; }

/// The 1st, 3rd, ... product of the layer.
bool odd_product(const BlockSpec& spec, const OpSpec& op) {
  int before = 0;
  for (const OpSpec& o : spec.ops) {
    if (&o == &op) return is_product(op) && before % 2 == 0;
    before += is_product(o) ? 1 : 0;
  }
  return false;
}

bool stops_early(std::string_view module) {
  return module == "layer" || module == "all_but_attention" || module == "every_second_product";
}

bool belongs(const BlockSpec& spec, const OpSpec& op, std::string_view module) {
  if (module == "layer") return true;
  if (module == "all_but_attention") return op.kind != OpKind::attention;
  if (module == "every_second_product") return op.kind != OpKind::attention && !odd_product(spec, op);
  const bool residual = op.kind == OpKind::add;
  if (module == "layernorm") return is_norm(op.kind) && !in_attention(op);
  if (module == "mlp") return op.part == LayerPart::mlp && !residual;
  if (module == "moe_act") return is_expert_activation(op.kind);
  if (module == "moe") return op.part == LayerPart::experts || op.part == LayerPart::shared_experts;
  if (module == "shared_experts") return op.part == LayerPart::shared_experts;
  // Latent vectors are kept; their norms, up projections and rotation run again.
  return module == "mla_up_proj" && op.part == LayerPart::latent_projection;
}

/// A dropout may run inside the addition that reads it, and leaves its mask.
bool adds_dropout(const BlockSpec& spec, const OpSpec& add) {
  return std::any_of(add.inputs.begin(), add.inputs.end(), [&](int t) {
    const int writer = writer_of(spec, t);
    return writer >= 0 && nth(spec.ops, writer).kind == OpKind::dropout;
  });
}

}  // namespace

std::vector<int> modules_of(const BlockSpec& spec, const std::vector<std::string>& modules) {
  std::vector<int> out(spec.ops.size(), -1);
  if (spec.input < 0 || spec.output < 0) return out;
  for (std::size_t o = 0; o < spec.ops.size(); ++o)
    for (std::size_t m = 0; m < modules.size() && out[o] < 0; ++m)
      if (belongs(spec, spec.ops[o], modules[m])) out[o] = static_cast<int>(m);
  return out;
}

int writer_of(const BlockSpec& spec, int t) {
  for (std::size_t o = 0; o < spec.ops.size(); ++o)
    if (std::find(spec.ops[o].outputs.begin(), spec.ops[o].outputs.end(), t) != spec.ops[o].outputs.end())
      return static_cast<int>(o);
  return -1;
}

std::vector<bool> unread_again(const BlockSpec& spec, const std::vector<bool>& needed,
                               const std::vector<int>& module_of, const std::vector<std::string>& modules) {
  std::vector<bool> unread(spec.ops.size(), false), read = needed;
  for (std::size_t o = spec.ops.size(); o-- > 0;) {
    const OpSpec& op = spec.ops[o];
    if (module_of[o] < 0 || !stops_early(nth(modules, module_of[o]))) continue;
    // Of the others some keep what backward reads beside their results.
    const bool only_results = op.kind == OpKind::linear || (op.kind == OpKind::add && !adds_dropout(spec, op));
    unread[o] = only_results && std::none_of(op.outputs.begin(), op.outputs.end(), [&](int t) { return nth(read, t); });
    if (unread[o]) continue;
    for (const int t : op.inputs) nth(read, t) = true;
  }
  return unread;
}

std::vector<bool> kept_values(const BlockSpec& spec, std::vector<bool> needed, const std::vector<int>& module_of,
                              const std::vector<bool>& unread) {
  const auto module = [&](int op) { return op < 0 ? -1 : nth(module_of, op); };
  for (std::size_t o = spec.ops.size(); o-- > 0;)
    if (module_of[o] >= 0 && !unread[o])
      for (const int t : spec.ops[o].inputs)
        if (module(writer_of(spec, t)) != module_of[o]) nth(needed, t) = true;
  for (std::size_t t = 0; t < needed.size(); ++t)
    if (module(writer_of(spec, static_cast<int>(t))) >= 0) needed[t] = false;
  return needed;
}

}  // namespace rehearse
