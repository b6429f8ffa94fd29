#pragma once
// Strategies assign layouts; collectives follow from layout changes. That is how they compose: each strategy adds the
// axes it owns to the layouts of tensors, parameters and optimizer state, and says which settings it refuses.

#include <memory>
#include <vector>

#include "core/base/registry.hpp"
#include "core/config/settings/forward.hpp"
#include "core/program/program.hpp"

namespace rehearse {

struct Workload;

/// Layouts of everything a network holds, filled by the strategies in use, in registry order.
struct LayoutPlan {
  struct Block {
    std::vector<Layout> tensors;  ///< As BlockSpec::tensors; how the value is stored between ops.
    std::vector<Layout> params;   ///< As BlockSpec::params.
  };
  std::vector<Block> blocks;
  /// Added to a parameter's own layout to give that of its optimizer state.
  Layout optimizer;
  /// The same for experts' parameters, whose copies lie along the expert view's axes.
  Layout expert_optimizer;
  /// Reduced gradients are stored as slices with the optimizer's layout; whole ones live from backward to their
  /// reduction.
  bool shard_gradients = false;
  /// Parameters are stored as such slices too, and gathered around their use ...
  bool shard_parameters = false;
  /// ... from the optimizer's master copy where there is one, instead of from a slice in the model's type ...
  bool gather_master = false;
  /// ... but for parameters of fewer elements, which stay whole.
  double whole_below = 0;
  /// Ranks of a list of tensors that each parameter's gather and each gradient's scatter goes through, one parameter at
  /// a time; 0: one call, no lists.
  int lists_of = 0;
  /// One rank updates a parameter for all: gradients come to it, and no norm is taken over ranks.
  bool central_update = false;
  /// Optimizer state is in host memory and updated there.
  bool optimizer_on_host = false;
  /// Slices of parameters, where they are stored so, are in host memory, too: they are copied to the device before each
  /// gather.
  bool parameters_on_host = false;
  /// A parameter is updated as soon as its gradient is final, which then goes.
  bool updates_in_backward = false;
  /// A gradient has storage from its block's backward to its update.
  bool fresh_gradients = false;
  /// Slices of gradients are kept in the type of the parameters' slices, whatever they are reduced in.
  bool gradients_as_parameters = false;
};
/// Whether a parameter with this layout belongs to experts: it is laid out in the expert view.
[[nodiscard]] bool in_expert_view(const Layout& layout);

/// What a strategy may look at to decide.
struct PlanRequest {
  const Workload& workload;
  const StrategySettings& settings;
  int microbatches;  ///< Per replica and step.
};

/// Settings with which a strategy is in use. Tests of all strategies draw it, execute it and compare it by them.
struct StrategyExample {
  std::string name;             ///< "whole small parameters".
  int StrategySettings::*axis;  ///< Grows by the factor `ranks`, and the number of ranks with it.
  int ranks = 1;                ///< 1: any number of ranks will do.
  void (*turn_on)(StrategySettings& settings);
};

class Strategy {
 public:
  virtual ~Strategy() = default;
  /// Whether the settings use it.
  [[nodiscard]] virtual bool active(const PlanRequest& request) const = 0;
  /// Throws Error (usage) for combinations that make no sense, with the rule. Called only when active.
  virtual void check(const PlanRequest& request) const { (void)request; }
  /// Likewise, where no schedule, microbatch, sharding, recomputation or offload changes the answer.
  virtual void check_axes(const PlanRequest& request) const { (void)request; }
  virtual void assign(const PlanRequest& request, LayoutPlan& plan) const {
    (void)request;
    (void)plan;
  }
  /// How to turn it on. Strategies that have none here are turned on by the tests themselves.
  [[nodiscard]] virtual std::vector<StrategyExample> examples() const { return {}; }
};

[[nodiscard]] Registry<std::shared_ptr<const Strategy>>& strategies();

/// Names of the strategies that the settings use.
[[nodiscard]] std::vector<std::string> active_strategies(const PlanRequest& request);
enum class PlanChecks : unsigned char { all, axes, others };
/// Strategy::check_axes, check, or both of every active strategy.
void check_strategies(const PlanRequest& request, PlanChecks which = PlanChecks::all);
/// Checks all active strategies, then lets each assign its layouts.
[[nodiscard]] LayoutPlan plan_layouts(const PlanRequest& request);

}  // namespace rehearse
