#include "core/strategy/roles/gradient_placeholders.hpp"

#include <map>
#include <utility>

#include "core/base/index.hpp"
#include "core/config/setting_key.hpp"

namespace rehearse {

namespace {

const SettingKey<bool> kPlaceholders = declare_key(
    "framework.gradient_placeholders", false, "A placeholder for each shape of weight gradient stays in memory.",
    {.detail = "Transformer Engine adds weight gradients to Megatron's fp32 buffer and hands autograd a "
               "tensor in the weights' type that it never gives back. With "
               "framework.fused_gradient_accumulation and fp32 gradients only."});

bool is_layer_weight(const Tensor& t) {
  return t.category == MemoryCategory::weights && t.per_layer && t.shape.size() == 2 && t.alias_of < 0 &&
         t.lifetime == Lifetime::persistent && size_of(t.dtype) == 2;
}

}  // namespace

void add_gradient_placeholders(Program& program, const KernelSettings& kernels, const TrainingSettings& training,
                               const StrategySettings& strategy) {
  if (!kPlaceholders(kernels) || !kernels.fused_gradient_accumulation || strategy.fsdp.enabled ||
      training.gradient_dtype != GradientDtype::fp32)
    return;
  using Sizes = std::pair<std::int64_t, std::int64_t>;
  std::map<Sizes, int> placeholders;
  const ExprContext at = program.mesh.context(0);
  for (Role& role : program.roles) {
    std::map<Sizes, int> of_role;
    for (const Role::Persistent& held : role.persistent) {
      if (!is_layer_weight(nth(program.tensors, held.tensor))) continue;
      Tensor t = nth(program.tensors, held.tensor);
      const Sizes shape{program.exprs.evaluate(t.shape[0], at), program.exprs.evaluate(t.shape[1], at)};
      const auto [known, fresh] = placeholders.try_emplace(shape, static_cast<int>(program.tensors.size()));
      if (fresh) {
        t.name = "placeholder." + std::to_string(shape.first) + "x" + std::to_string(shape.second);
        t.category = MemoryCategory::gradients;
        t.role = TensorRole::general;
        t.per_layer = false;
        t.initial.clear();
        t.initial_key.clear();
        program.tensors.push_back(std::move(t));
      }
      of_role.emplace(shape, known->second);
    }
    for (const auto& [shape, tensor] : of_role) role.persistent.push_back({tensor, -1});
  }
}

}  // namespace rehearse
