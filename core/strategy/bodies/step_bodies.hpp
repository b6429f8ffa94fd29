#pragma once
// Bodies around the blocks: input, pipeline messages, gradient reduction, gradient norm, parameter update and
// gathering.

#include <map>
#include <string>
#include <vector>

#include "core/base/index.hpp"
#include "core/model/network.hpp"
#include "core/strategy/bodies/block_lowering.hpp"

namespace rehearse {

/// One parameter of one block position.
struct ParamRef {
  int position;
  int block;  ///< Index into Network::blocks.
  int param;
  auto operator<=>(const ParamRef&) const = default;
};

/// Optimizer-side tensors of one parameter.
struct ParamState {
  /// The gradient after reduction: whole, or the shard that this rank updates. Shares the gradient's storage, but
  /// where gradients are stored as slices.
  int reduced = -1;
  std::vector<int> state;  ///< Master copy (mixed precision), then what the update rule keeps.
  /// The parameter as the update writes it: the shard. Shares the parameter's storage, unless `sharded`; -1 where
  /// the master copy stands for it.
  int updated = -1;
  /// The reduced gradient's copy in host memory, where the optimizer's state is there; else -1.
  int host_gradient = -1;
  bool sharded = false;  ///< Stored as a slice: the whole parameter lives between a gather and a drop.
  bool divided = false;  ///< Its gradient is stored as a slice.
  /// The reduced gradient lives from its reduction to its update, or to its copy in host memory.
  bool passes = false;
  /// No gradient, and nothing of the optimizer's: where it is stored as a slice that is `updated`, in the model's type.
  bool frozen = false;
};

class StepBodies {
 public:
  using Made = BodyBuilder::Finished;
  /// Of the blocks [first, last), all that follow where last is -1: those that `workload.training` has the update of.
  StepBodies(ProgramFrame& frame, const Workload& workload, std::vector<BlockTensors>& blocks, const LayoutPlan& plan,
             int first = 0, int last = -1);

  Made input(int block, const std::vector<int>& integer_tensors);
  /// Whether this input of a block is what samples are read from storage for: labels come with the samples that they
  /// belong to, and noise is drawn.
  /// Whether a field of the samples is decoded on the host after it was read.
  [[nodiscard]] bool decodes(bool from_storage) const;
  /// Whether samples are where they are used (input.resident).
  [[nodiscard]] bool resident() const;
  [[nodiscard]] static bool reads_samples(int block, SampleField field) {
    return block == 0 && field != SampleField::noise;
  }
  /// Samples that bringing an input of `host`'s shape reads: none where they came with another's.
  [[nodiscard]] ExprId samples_read(const Tensor& host, bool from_storage) const;
  /// Brings the images of the microbatch into `tensor`; `read`: from where samples are stored, otherwise with others
  /// that are.
  Made images(int tensor, bool read);
  /// What crosses a boundary between blocks: the edge, and skip connections past it, each an instance relative to the
  /// boundary's position.
  struct Passing {
    struct Carried {
      int tensor = -1, delta = 0;
      bool release = true;  ///< The sender drops it.
      bool operator==(const Carried&) const = default;
    };
    int edge = 0;
    std::vector<Carried> skips;  ///< Values forward, gradients backward.
  };
  /// `peer` is the position in the pp group, `stream` the one the message lies on.
  Made send(bool forward, const Passing& what, ExprId peer, bool scatter, StreamId stream);
  Made receive(bool forward, const Passing& what, ExprId peer, bool scatter, StreamId stream);
  /// Reduces the gradients of `params` (positions relative to the entry's layer are kept) over the data-parallel ranks,
  /// as one call. `accumulate` adds to slices that hold an earlier microbatch's.
  Made reduce(const std::vector<ParamRef>& params, int base, bool accumulate = false);
  /// Sums tensor-parallel partial gradients (norms under sequence parallelism); body -1 when there are none.
  Made reduce_tp(const std::vector<ParamRef>& params, int base);
  /// Sums the gradients of a tied embedding over the first and the last stage.
  Made reduce_tied(const ParamRef& param, int stages);
  /// Sums the gradients of the two stages that hold copies of the same chunks.
  Made reduce_copies(const std::vector<ParamRef>& params, int base);
  Made gradient_norm(const std::vector<ParamRef>& params, int base);
  Made parameter_update(const std::vector<ParamRef>& params, int base);
  /// Holds what the update makes of all `params` at once (framework.update_copies); body -1 when that is nothing.
  Made update_copies(const std::vector<ParamRef>& params);
  Made gather(const std::vector<ParamRef>& params, int base);
  /// Next step's fp8 scales; `scales` are block positions and tensors.
  Made update_scales(const std::vector<std::pair<int, int>>& scales);
  /// Copies reduced gradients to host memory.
  Made to_host(const std::vector<ParamRef>& params, int base);
  /// Makes `params`, stored as slices, whole.
  Made gather_unit(const std::vector<ParamRef>& params, int base);
  /// Gives back the storage of the whole ones.
  Made drop_unit(const std::vector<ParamRef>& params, int base);

  [[nodiscard]] const ParamState& state(const ParamRef& p) const { return states_.at({p.block, p.param}); }
  [[nodiscard]] int param_tensor(const ParamRef& p) const { return nth(nth(blocks_, p.block).param, p.param); }
  [[nodiscard]] int grad_tensor(const ParamRef& p) const { return nth(nth(blocks_, p.block).grad, p.param); }
  /// The parameter at `position` that is stored in `tensor`.
  [[nodiscard]] ParamRef owner_of(int tensor, int position) const;
  [[nodiscard]] int norm_tensor() const { return norm_; }
  /// What buffers for reductions of `bucket` bytes hold (framework.gradient_buffers) beyond whole gradients on their
  /// way into them, of which a stage has `whole`; -1: nothing.
  int gradient_buffers(Bytes bucket, Bytes whole);
  /// Axes over whose ranks the gradient is a partial sum, each with samples or tiles of its own: those of the dense
  /// view, or edp for experts. Parameters of one reduction or gather have the same.
  [[nodiscard]] AxisSet data_axes(const ParamRef& p) const;
  [[nodiscard]] bool needs_dp(const ParamRef& p) const { return !data_axes(p).empty(); }
  /// Of a parameter that is whole, on a rank: without what tp and ep hold elsewhere.
  [[nodiscard]] double elements(const ParamRef& p) const { return elements_here(param_tensor(p)); }
  /// Whether the optimizer state of `p` is divided, so that its updated parameter is gathered.
  [[nodiscard]] bool sharded_optimizer(const ParamRef& p) const { return !optimizer_of(layout_of(p)).empty(); }
  [[nodiscard]] bool shards_gradients() const { return plan_.shard_gradients; }
  [[nodiscard]] bool updates_on_host() const { return plan_.optimizer_on_host; }
  [[nodiscard]] bool shards_parameters() const { return plan_.shard_parameters; }
  [[nodiscard]] bool updates_in_backward() const { return plan_.updates_in_backward; }
  /// Whether backward gives gradients their storage, and their first term.
  [[nodiscard]] bool makes_gradients() const {
    return plan_.shard_gradients || plan_.updates_in_backward || plan_.fresh_gradients;
  }

 private:
  void make_states(int first, int last);
  void bring(BodyBuilder& body, int device, const std::string& name, SampleField field, bool from_storage);
  void make_optimizer_state(ParamState& s, const ParamSpec& spec, const Tensor& param, bool embedding);
  /// Layout of a parameter's optimizer state: its own, and divided as the strategies say.
  [[nodiscard]] Layout state_layout(const Tensor& param) const;
  /// Axes along which there are several ranks; those of one stage only.
  [[nodiscard]] AxisSet all_axes(bool stages) const;
  /// What a rank updates of one parameter: formals of the update's body.
  struct Updated {
    ParamRef param;
    int gradient = -1, weights = -1;
    std::vector<int> state;  ///< Without the master copy, which is `weights`.
  };
  [[nodiscard]] int weights_of(const ParamRef& p) const;
  void update_in_one_pass(BodyBuilder& body, const std::vector<Updated>& all);
  void update_lamb(BodyBuilder& body, const std::vector<Updated>& all);
  void update_adafactor(BodyBuilder& body, const std::vector<Updated>& all);
  /// Numbers of a parameter that the update works with, summed over the ranks that hold parts of it.
  int numbers(BodyBuilder& body, const Updated& u, const char* name, int count);
  void sum_over(BodyBuilder& body, const std::map<AxisSet, std::vector<Operand>>& what, const std::string& name);
  [[nodiscard]] ComputeTask optimizer_task() const;
  int on_host_of(int tensor);
  void update_on_host(BodyBuilder& body, const ParamRef& p, const InstanceRef& at);
  void fill_to_host(BodyBuilder&, const std::vector<ParamRef>&, int base);
  int make_reduced(int grad, const Tensor& param, const ParamState& state);
  void make_transient(int tensor, MemoryCategory category);
  int on_device(BodyBuilder& body, int slice);
  [[nodiscard]] const Layout& layout_of(const ParamRef& p) const {
    return nth(frame_.program.tensors, param_tensor(p)).layout;
  }
  [[nodiscard]] const Layout& optimizer_of(const Layout& param) const {
    return in_expert_view(param) ? plan_.expert_optimizer : plan_.optimizer;
  }
  [[nodiscard]] double elements_here(int tensor) const;
  ExprId slice_start(const Tensor& param);
  ExprId counts_here(const ParamRef& p);
  [[nodiscard]] AxisSet partial_axes(const Layout& layout, bool data) const;
  CollectiveTask grad_collective(CollectiveOp op, AxisSet axes);
  Made cached(const std::string& kind, const std::vector<ParamRef>& params, int base,
              void (StepBodies::*fill)(BodyBuilder&, const std::vector<ParamRef>&, int));
  void fill_reduce(BodyBuilder&, const std::vector<ParamRef>&, int base);
  void fill_reduce_tp(BodyBuilder&, const std::vector<ParamRef>&, int base);
  void fill_reduce_copies(BodyBuilder&, const std::vector<ParamRef>&, int base);
  void fill_norm(BodyBuilder&, const std::vector<ParamRef>&, int base);
  void fill_update(BodyBuilder&, const std::vector<ParamRef>&, int base);
  void fill_gather(BodyBuilder&, const std::vector<ParamRef>&, int base);
  void fill_scatter(BodyBuilder&, const std::vector<ParamRef>&, int base);
  void fill_scatter_add(BodyBuilder&, const std::vector<ParamRef>&, int base);
  void scatter(BodyBuilder&, const std::vector<ParamRef>&, int base, bool add);
  void fill_gather_unit(BodyBuilder&, const std::vector<ParamRef>&, int base);
  void fill_drop_unit(BodyBuilder&, const std::vector<ParamRef>&, int base);
  int flat_like(BodyBuilder& body, int whole);
  void copy_pieces(BodyBuilder& body, const char* name, int from, int to);
  void gather_lists(BodyBuilder& body, CollectiveTask gather, std::vector<Operand> moved);
  void scatter_lists(BodyBuilder& body, const std::vector<Operand>& moved, const AxisSet& over);

  ProgramFrame& frame_;
  const Workload& workload_;
  std::vector<BlockTensors>& blocks_;
  const LayoutPlan& plan_;
  std::map<std::pair<int, int>, ParamState> states_;
  std::map<std::string, Made> made_;
  int norm_ = -1;
};

}  // namespace rehearse
