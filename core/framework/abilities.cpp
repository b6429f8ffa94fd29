// What a scenario asks of its framework, and what that cannot do.

#include <fmt/format.h>

#include "core/framework/framework.hpp"

namespace rehearse {

namespace {

/// A kind of ability and a name of it.
using Asked = std::pair<std::string_view, std::string>;

void add_axes(const StrategySettings& s, std::vector<Asked>& out) {
  const auto add = [&out](bool active, const char* name) {
    if (active) out.emplace_back("strategy", name);
  };
  add(s.tp > 1, "tensor_parallel");
  add(s.tp > 1 && s.sequence_parallel, "sequence_parallel");
  add(s.pp > 1, "pipeline_parallel");
  add(s.cp > 1, "context_parallel");
  add(s.ep > 1, "expert_parallel");
  add(s.fsdp.enabled && s.dp_replicate <= 1, "fsdp");
  add(s.fsdp.enabled && s.dp_replicate > 1, "hsdp");
  if (!s.fsdp.enabled && s.zero_stage > 0) out.emplace_back("strategy", fmt::format("zero{}", s.zero_stage));
}

std::vector<Asked> asked_of(const StrategySettings& s) {
  std::vector<Asked> out;
  add_axes(s, out);
  if (s.pp > 1) out.emplace_back("schedule", s.schedule);
  out.emplace_back("recompute", name_of(s.recompute));
  if (s.offload == Offload::optimizer || s.offload == Offload::all) out.emplace_back("offload", "optimizer");
  if (s.offload == Offload::activations || s.offload == Offload::all) out.emplace_back("offload", "activations");
  if (s.declared.find("strategy.offload_parameters") != nullptr) out.emplace_back("offload", "parameters");
  if (s.declared.find("strategy.optimizer_in_backward") != nullptr)
    out.emplace_back("strategy", "optimizer_in_backward");
  return out;
}

}  // namespace

std::vector<Ability> lacking(const Framework& framework, const StrategySettings& strategy) {
  std::vector<Ability> out;
  for (const auto& [kind, name] : asked_of(strategy))
    if (Ability ability = framework.can(kind, name); ability.able == Able::no) out.push_back(std::move(ability));
  return out;
}

std::vector<Ability> lacking(const Framework& framework, const Scenario& scenario) {
  std::vector<Ability> out = lacking(framework, scenario.strategy);
  for (const auto& [kind, name] : {Asked{"precision", name_of(scenario.training.precision)},
                                   Asked{"optimizer", name_of(scenario.training.optimizer)}})
    if (Ability ability = framework.can(kind, name); ability.able == Able::no) out.push_back(std::move(ability));
  return out;
}

}  // namespace rehearse
