#pragma once
// Lowers one block of a network under given layouts to bodies: forward, backward, and forward again where it is
// recomputed. Collectives are inserted where a value is wanted in another layout than it is stored in.

#include <map>
#include <set>
#include <string>
#include <vector>

#include "core/base/index.hpp"
#include "core/config/settings/kernels.hpp"
#include "core/model/network.hpp"
#include "core/strategy/bodies/body_builder.hpp"
#include "core/strategy/operators/expert_plan.hpp"
#include "core/strategy/strategy.hpp"

namespace rehearse {

/// Tensors of one block in the Program, the same for every layer that uses the block.
struct BlockTensors {
  const BlockSpec* spec = nullptr;
  std::vector<int> value;   ///< Per BlockSpec tensor, as stored.
  std::vector<bool> saved;  ///< Kept from forward to backward.
  std::vector<int> param;   ///< Per parameter: the model's copy.
  std::vector<int> grad;    ///< Per parameter: the accumulated gradient.
  /// Per parameter: block position whose storage it shares on the same stage, or -1 for its own.
  std::vector<int> shared_with;
  int position = 0;                  ///< Block position of the first use.
  std::map<std::string, int> extra;  ///< Tensors that ops make for their own backward: masks, statistics.
  /// What ops keep from step to step besides parameters: copies in fp8 and their scales.
  std::map<std::string, int> persistent;
  std::vector<int> module_of;      ///< Per op: the module whose results are made again in backward, or -1.
  std::vector<bool> unread_again;  ///< Per op: of a module, but nobody reads its results in backward.
  /// Per value: column-parallel products gather it once for both passes, and whether that is kept from forward on.
  std::vector<bool> gathers_once, keeps_gathered;
  bool recompute_all = false;  ///< Only the block's input is kept.
  /// Of those that keep nothing else: false inside a group that is made again from its first layer's input.
  bool keeps_input = true;
  bool recompute_core = false;  ///< The attention core is run again (selective recomputation).
  /// Index into ProgramFrame::edges; -1 where the block begins or ends the network.
  int in_edge = -1, out_edge = -1;

  /// A value that an earlier block makes for a later one, past those between. Both blocks stand once.
  struct Skip {
    int value = -1, grad = -1;                               ///< The maker's tensors.
    int delta = 0;                                           ///< From this block's position to the maker's.
    bool release_forward = false, release_backward = false;  ///< This block's pass drops the value.
  };
  std::map<int, Skip> skips_in, skips_out;  ///< By tensor of the block: those it reads, those it makes.
};

/// What a block makes again in backward.
struct RecomputeChoice {
  Recompute kind = Recompute::none;
  std::vector<std::string> modules;  ///< For selective.
};

/// What a discriminator is shown, and so what its loss asks for.
enum class Shown {
  real,    ///< Samples of the data: to be taken for real.
  made,    ///< What the generator makes: to be taken for made.
  through  ///< The same, for the generator, which wants it taken for real.
};

/// What the ops of every block share.
struct BlockOptions {
  KernelSettings kernels;
  std::int64_t batch = 0;  ///< Sequences of a microbatch over all replicas.
  std::int64_t sequence = 0;
  bool split_backward = false;  ///< Weight gradients go to a body of their own (zero-bubble).
  bool overlap_tp = false;
  bool adds_pieces = false;         ///< Products of weight gradients write pieces, which kernels of their own add up.
  bool overlap_tp_backward = true;  ///< Weight gradients follow input gradients, whose reductions run beside them.
  ContextExchange context = ContextExchange::ring;  ///< Over context-parallel ranks, where there are several.
  /// Gradients of replicas are added up and divided by nothing later: the loss is a mean over all of them.
  bool sums_gradients = false;
  bool global_statistics = false;  ///< Batch moments and load-balancing losses look at all replicas together.
  ExpertPlan experts;
  Shown shown = Shown::real;
  bool weight_grads = true;  ///< Backward adds to the gradients of the block's parameters ...
  bool input_grad = true;    ///< ... and makes that of the block's input.
};

/// One body under construction, with the block's values and gradients so far.
class BlockBody {
 public:
  BlockBody(ProgramFrame& frame, BlockTensors& tensors, const BlockOptions& options, const std::string& name,
            Phase phase);

  // What op lowerings use. Layouts are copies: tensors move when another is added.
  [[nodiscard]] BodyBuilder& builder() { return builder_; }
  [[nodiscard]] const BlockOptions& options() const { return options_; }
  [[nodiscard]] const BlockTensors& tensors() const { return tensors_; }
  [[nodiscard]] Phase phase() const { return phase_; }
  [[nodiscard]] Layout stored(int t) const { return program_tensor(nth(tensors_.value, t)).layout; }
  [[nodiscard]] Layout param_layout(int p) const { return program_tensor(nth(tensors_.param, p)).layout; }
  /// The stored value of `t`.
  int value(int t);
  /// The value in another layout.
  int value(int t, const Layout& layout, const std::string& why);
  /// The same for op `name` alone, which fetches what others may have fetched too (KernelSettings::gather_per_product).
  int value_for(const std::string& name, int t, const Layout& layout, const std::string& why);
  /// The same for a product, whose backward may read what it gathered in forward (BlockTensors::gathers_once).
  int input_of_product(const std::string& name, int t, const Layout& layout, const std::string& why);
  /// Whether the body has it in that layout already, and that it has it now.
  [[nodiscard]] bool has_value(int t, const Layout& layout) const { return fetched_.contains({t, to_string(layout)}); }
  void has_now(int t, const Layout& layout, int formal) { fetched_.emplace(std::pair(t, to_string(layout)), formal); }
  /// A formal for an op's result in layout `raw`; call keep() once the task is added.
  int result(int t, const Layout& raw);
  /// Brings a result from its raw layout to the stored one.
  void keep(int t, int formal, const std::string& why);
  int param(int p);
  int grad_accumulator(int p);
  /// A tensor of the op's own. `saved` ones live until backward unless recomputed. Shape is global, layout as stored;
  /// of others it may change from one use to the next.
  int extra(const std::string& name, std::vector<ExprId> shape, DType dtype, const Layout& layout, bool saved);
  int extra(const std::string& name);  ///< The same tensor, in backward.
  /// An instance of `tensor`, a family that several blocks share: kept from forward to backward unless recomputed.
  int shared(const std::string& name, int tensor);
  /// A tensor that an op keeps for each layer through the whole run, made on first use. `like` gives shape, type,
  /// layout, category.
  int persistent(const std::string& name, Tensor like);
  [[nodiscard]] const Tensor& param_tensor(int p) const { return program_tensor(nth(tensors_.param, p)); }
  int scratch_like(const std::string& name, int formal, const Layout& layout);
  int scratch_like(const std::string& name, int formal, DType dtype);
  /// Of the shape and type of value `t`, which itself may be gone.
  int scratch_of(int t, const std::string& name, const Layout& layout);
  /// Whether what the op at hand keeps for its own backward is made again there.
  [[nodiscard]] bool drops() const { return tensors_.recompute_all || module_ >= 0; }
  /// Gradient of `t` in `layout`; -1 when nothing needs it.
  int grad(int t, const Layout& layout, const std::string& why);
  /// Adds a term to the gradient of `t`; its layout is the formal's.
  void add_grad(int t, int formal, const std::string& why);
  [[nodiscard]] bool wants_grad(int t) const;
  [[nodiscard]] bool wants_weight_grads() const { return options_.weight_grads; }
  /// Adds an all-reduce of `formal` in place over `axes`, which may be none.
  void all_reduce(int formal, AxisSet axes, const std::string& name, Phase phase);
  /// The value with its halos filled by the neighbours, once per body; the stored value itself where none has a halo.
  int with_halos(int t, const std::string& why);
  /// What ops of the body share by a name of their own, such as one cast of a value that several products read; -1
  /// until it is set.
  int& shared_formal(const std::string& name) { return shared_formals_.try_emplace(name, -1).first->second; }
  /// Whether adapters' products scale and add what they write.
  [[nodiscard]] bool fuses_adapters() const {
    return options_.kernels.fused_adapters && builder_.frame().program.mesh.islands().front().extent(Axis::tp) == 1;
  }
  /// ComputeTask::passes of a sum inside a product: it writes anyway, and reads what is there.
  static constexpr double kInProduct = 1.0 / 3;
  ExprId tokens(int formal) { return builder_.frame().local_product(builder_.tensor(formal), 0, 2); }

  /// Replicas that share a value's samples, and those whose gradients a reduction divides by: a loss is a mean over the
  /// others.
  [[nodiscard]] ExprId replicas(const Layout& value);
  [[nodiscard]] ExprId divided_later(const Layout& value) {
    return options_.sums_gradients ? ExprPool::kOne : replicas(value);
  }

  void forward();
  void backward();
  /// Forward again in a body of its own, before the backward that frees what it makes. `hands_on`: the next layer runs
  /// again too.
  void forward_again(bool hands_on);
  BodyBuilder::Finished finish() { return builder_.finish(); }
  void set_phase(Phase phase) { phase_ = phase; }

 private:
  [[nodiscard]] const Tensor& program_tensor(int id) const { return nth(builder_.frame().program.tensors, id); }
  [[nodiscard]] InstanceRef storage_of(int p) const;
  /// Whether `t` is recomputed for this block alone: the others have had the value. Its tensor then.
  [[nodiscard]] bool is_dead(int t) const;
  int dead_value(int t);
  [[nodiscard]] bool in_backward_body() const { return backward_body_; }

  [[nodiscard]] bool saved_here(int t) const { return nth(tensors_.saved, t); }
  /// Runs module `m` of selective recomputation again, once.
  void run_again(int m);
  /// The module after which a kept product's input is cast again; -1: it kept its copy, or has none.
  [[nodiscard]] int casts_again(std::size_t op) const;
  void run_again(const OpSpec& op, bool unread);
  /// Column-parallel products that read `t`: each leaves a partial sum of its gradient.
  [[nodiscard]] std::size_t column_parallel_readers(int t) const;
  /// The sum of `terms`, which lie alike.
  int sum_of(int t, const std::vector<int>& terms);
  /// Adds up the partial gradients of `t` that wait for one another, and reduces their sum.
  void reduce_partial_grads(int t, const std::string& why);
  int fetch(int t, const Layout& layout, const std::string& key, const std::string& why);
  void export_grad(int formal, int tensor, const Hold& hold);
  void release_unread();
  [[nodiscard]] int input_grad() const { return nth(builder_.frame().edges, tensors_.in_edge).grad; }

  mutable BodyBuilder builder_;
  BlockTensors& tensors_;
  const BlockOptions& options_;
  Phase phase_;
  bool backward_body_;
  int module_ = -1;  ///< Of the op at hand, in forward and when run again.
  std::set<int> ran_again_;
  bool hands_on_ = false;  ///< Run again, the output is the next layer's input.
  std::map<int, int> values_;
  std::map<std::pair<int, std::string>, int> fetched_;
  std::map<std::string, int> shared_formals_;
  std::map<int, std::vector<int>> grads_, partial_grads_;
  std::map<std::string, int> extras_;
  std::map<int, int> dead_;     ///< Tensors of values recomputed for this block alone.
  std::set<int> handed_grads_;  ///< Values handed to other blocks whose gradient from there has been counted.
  std::set<int> haloed_;        ///< Values whose halos this body has filled.
};

/// Index into ProgramFrame::edges for the value between two blocks, made where no boundary of this shape and layout was
/// met before.
int edge_of(ProgramFrame& frame, const Shape& shape, const Layout& layout, const BlockOptions& options);

/// Creates the Program tensors of a block, between the edges that the plan's layouts ask for.
BlockTensors make_block_tensors(ProgramFrame& frame, const BlockSpec& spec, const LayoutPlan::Block& layouts,
                                const BlockOptions& options, const RecomputeChoice& recompute);

/// The same block where it keeps what backward reads instead of making it again: parameters are shared.
BlockTensors keep_values(ProgramFrame& frame, const BlockTensors& block, const BlockOptions& options);

/// How one kind of op becomes tasks.
struct OpLowering {
  void (*forward)(BlockBody&, const OpSpec&);
  void (*backward)(BlockBody&, const OpSpec&);
  /// Tensors of the block that backward reads.
  std::vector<int> (*saved)(const OpSpec&, const BlockOptions&, const ProgramFrame&);
};
/// Enters how the operators with these names (OpInfo::name) are lowered, from the file that does it. Returns true, for
/// static initialisers.
bool lower_operators(const std::vector<std::string>& names, const OpLowering& lowering);
/// Null for an operator that no file lowers.
[[nodiscard]] const OpLowering* find_lowering(OpKind kind);
[[nodiscard]] const OpLowering& lowering_of(OpKind kind);

}  // namespace rehearse
