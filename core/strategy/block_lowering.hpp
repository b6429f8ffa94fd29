#pragma once
// Lowers one block of a network under given layouts to bodies: forward, backward, and forward again where it is recomputed.
// Collectives are inserted where a value is wanted in another layout than it is stored in.

#include <map>
#include <set>
#include <string>
#include <vector>

#include "core/strategy/body_builder.hpp"
#include "core/strategy/strategy.hpp"

namespace rehearse {

/// Tensors of one block in the Program, the same for every layer that uses the block.
struct BlockTensors {
  const BlockSpec* spec = nullptr;
  std::vector<int> value;           ///< Per BlockSpec tensor, as stored.
  std::vector<bool> saved;          ///< Kept from forward to backward.
  std::vector<int> param;           ///< Per parameter: the model's copy.
  std::vector<int> grad;            ///< Per parameter: the accumulated gradient.
  std::vector<int> shared_with;     ///< Per parameter: block position whose storage it shares on the same stage, or -1 for its own.
  int position = 0;                 ///< Block position of the first use.
  std::map<std::string, int> extra; ///< Tensors that ops make for their own backward: masks, statistics.
  bool recompute_all = false;       ///< Only the block's input is kept.
  bool recompute_core = false;      ///< The attention core is run again (selective recomputation).
};

/// What the ops of every block share.
struct BlockOptions {
  KernelSettings kernels;
  std::int64_t batch = 0;     ///< Sequences of a microbatch over all replicas.
  std::int64_t sequence = 0;
  bool split_backward = false;  ///< Weight gradients go to a body of their own (zero-bubble).
  bool overlap_tp = false;
};

/// One body under construction, with the block's values and gradients so far.
class BlockBody {
 public:
  BlockBody(ProgramFrame& frame, BlockTensors& tensors, const BlockOptions& options, const std::string& name, Phase phase);

  // What op lowerings use.
  [[nodiscard]] BodyBuilder& builder() { return builder_; }
  [[nodiscard]] const BlockOptions& options() const { return options_; }
  [[nodiscard]] const BlockTensors& tensors() const { return tensors_; }
  [[nodiscard]] Phase phase() const { return phase_; }
  [[nodiscard]] const Layout& stored(int t) const { return program_tensor(tensors_.value[static_cast<std::size_t>(t)]).layout; }
  [[nodiscard]] const Layout& param_layout(int p) const { return program_tensor(tensors_.param[static_cast<std::size_t>(p)]).layout; }
  /// The stored value of `t`.
  int value(int t);
  /// The value in another layout.
  int value(int t, const Layout& layout, const std::string& why);
  /// A formal for an op's result in layout `raw`; call keep() once the task is added.
  int result(int t, const Layout& raw);
  /// Brings a result from its raw layout to the stored one.
  void keep(int t, int formal, const std::string& why);
  int param(int p);
  int grad_accumulator(int p);
  /// A tensor of the op's own. `saved` ones live until backward unless recomputed. Shape is global, layout as stored.
  int extra(const std::string& name, std::vector<ExprId> shape, DType dtype, const Layout& layout, bool saved);
  int extra(const std::string& name);  ///< The same tensor, in backward.
  int scratch_like(const std::string& name, int formal, const Layout& layout);
  int scratch_like(const std::string& name, int formal, DType dtype);
  /// Gradient of `t` in `layout`; -1 when nothing needs it.
  int grad(int t, const Layout& layout, const std::string& why);
  /// Adds a term to the gradient of `t`; its layout is the formal's.
  void add_grad(int t, int formal, const std::string& why);
  [[nodiscard]] bool wants_grad(int t) const;
  ExprId tokens(int formal) { return builder_.frame().local_product(builder_.tensor(formal), 0, 2); }

  void forward();
  void backward();
  BodyBuilder::Finished finish() { return builder_.finish(); }
  void set_phase(Phase phase) { phase_ = phase; }

 private:
  [[nodiscard]] const Tensor& program_tensor(int id) const { return builder_.frame().program.tensors[static_cast<std::size_t>(id)]; }
  [[nodiscard]] InstanceRef storage_of(int p) const;
  int dead_output();  ///< Tensor of the recomputed output of the block, which nobody reads.
  [[nodiscard]] bool in_backward_body() const { return backward_body_; }

  mutable BodyBuilder builder_;
  BlockTensors& tensors_;
  const BlockOptions& options_;
  Phase phase_;
  bool backward_body_;
  std::map<int, int> values_;
  std::map<std::pair<int, std::string>, int> fetched_;
  std::map<int, std::vector<int>> grads_;
  std::map<std::string, int> extras_;
  int dead_output_ = -1;
};

/// Creates the Program tensors of a block. `hidden` is the tensor that passes between blocks, `block` its index in the plan.
BlockTensors make_block_tensors(ProgramFrame& frame, const BlockSpec& spec, const LayoutPlan::Block& layouts, const BlockOptions& options,
                                int hidden, Recompute recompute);

/// How one kind of op becomes tasks.
struct OpLowering {
  void (*forward)(BlockBody&, const OpSpec&);
  void (*backward)(BlockBody&, const OpSpec&);
  /// Tensors of the block that backward reads.
  std::vector<int> (*saved)(const OpSpec&, const BlockOptions&, const ProgramFrame&);
};
[[nodiscard]] const OpLowering& lowering_of(OpKind kind);

}  // namespace rehearse
