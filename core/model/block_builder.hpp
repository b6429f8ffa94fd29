#pragma once
// Builds one BlockSpec op by op, so that an architecture reads like its forward pass. Every method that adds an op
// returns the index of the tensor it makes, which has the op's name.

#include <string>
#include <utility>
#include <vector>

#include "core/model/network.hpp"

namespace rehearse {

/// One output of a linear: its name, and its dimensions after batch and sequence.
struct LinearPiece {
  std::string name;
  Shape trailing;
};

struct LinearOptions {
  bool bias = false;
  double init_std = 0.0;     ///< Of the weight; biases start at zero.
  std::string tied_to = {};  ///< Full name of the parameter that the weight shares storage with, or empty.
  Projection projection = Projection::none;
};

/// What queries meet beside the keys of their own sequence up to themselves.
struct AttentionSpan {
  bool causal = true;
  std::int64_t window = 0;  ///< As OpSpec::attention_window.
  bool sinks = false;       ///< A learned score per head.
};

/// What a state space mixes: z, x [b,s,{heads a},{head_dim p}], b, c [b,s,{kv_heads g},{head_dim n}], dt [b,s,{heads
/// a}].
struct StateSpaceInputs {
  int z, x, b, c, dt;
};

class BlockBuilder {
 public:
  explicit BlockBuilder(std::string name, BlockKind kind = BlockKind::part);
  /// Ops that are added while the scope lives belong to its part of the layer; the innermost scope counts.
  class PartScope {
   public:
    PartScope(BlockBuilder& block, LayerPart part) : block_(block), before_(std::exchange(block.part_, part)) {}
    ~PartScope() { block_.part_ = before_; }
    PartScope(const PartScope&) = delete;
    PartScope& operator=(const PartScope&) = delete;

   private:
    BlockBuilder& block_;
    LayerPart before_;
  };
  /// Put before the names of everything added from here on: "mtp." where a block holds a second layer.
  void within(std::string prefix) { prefix_ = std::move(prefix); }

  /// Activations [batch, sequence, trailing...] that come from the block before.
  int input(const Shape& trailing);
  /// Token ids or labels [batch, sequence].
  int integers(std::string name, SampleField field = SampleField::other);

  /// `tied_to` as in LinearOptions.
  int embedding(const std::string& name, int tokens, std::int64_t vocabulary, std::int64_t hidden, double init_std,
                const std::string& tied_to = {});
  int position_embedding(const std::string& name, int x, std::int64_t positions, double init_std);
  /// layer_norm (weight and bias) or rms_norm (weight) over the last dimension of `x`.
  int norm(OpKind kind, const std::string& name, int x, double eps);
  /// `x` itself when `p` is 0: no op, no mask.
  int dropout(const std::string& name, int x, double p);
  /// Weight [sum of the pieces, all of x after batch and sequence]. Its dimensions take the tags of the first piece's
  /// and of x's first trailing dimension. Returns one tensor per piece.
  std::vector<int> linear(const std::string& name, int x, const std::vector<LinearPiece>& pieces,
                          const LinearOptions& options);
  /// The same with one piece, which has the op's name.
  int linear(const std::string& name, int x, Shape trailing, const LinearOptions& options);
  /// `scaled` as OpSpec::scaled.
  int rope(const std::string& name, int x, std::int64_t rotary_dim, double theta, bool scaled = false);
  /// `x` [b,s,a,d] with `y` [b,s,e] after each of its heads.
  int append(const std::string& name, int x, int y);
  /// Heads of `v` may be of another size than those of `q` and `k`; `p` is the dropout probability of the attention
  /// probabilities.
  int attention(const std::string& name, int q, int k, int v, double p, const AttentionSpan& span = {});
  int gelu(const std::string& name, int x, bool tanh_approximation);
  int squared_relu(const std::string& name, int x);
  /// An operator of one tensor, whose result is like it: one that a file adds (add_operator).
  int unary(OpKind kind, const std::string& name, int x);
  int silu_mul(const std::string& name, int gate, int up);
  int add(const std::string& name, int residual, int x);
  /// Weights [b,s,k] of the experts that `routing` chooses for each token of `x`.
  int router(const std::string& name, int x, const Routing& routing, const LinearOptions& options);
  /// Rows of `x` in expert order, and the weight of each.
  struct Routed {
    int rows, weights;
  };
  Routed dispatch(const std::string& name, int x, int weights);
  /// Weight [experts, sum of the pieces, in]; every piece has `size` features of `tag`. A bias is multiplied by
  /// `row_weights` [routed], where they are given. Returns one tensor per piece.
  std::vector<int> grouped_linear(const std::string& name, int rows, std::int64_t experts, Dim out,
                                  const std::vector<std::string>& pieces, const LinearOptions& options,
                                  int row_weights = -1);
  /// `limit` as OpSpec::limit.
  int weighted_silu_mul(const std::string& name, int gate, int up, int weights, double limit = 0.0);
  int combine(const std::string& name, int rows, int weights);
  /// weights * max(x, 0)^2 on rows [routed,f].
  int weighted_squared_relu(const std::string& name, int x, int weights);
  /// Root mean square 1 over each of `groups` runs of the features after batch and sequence; their weight has the tag
  /// of the first of them.
  int grouped_rms_norm(const std::string& name, int x, std::int64_t groups, double eps);
  /// OpKind::state_space with a convolution over `window` tokens, for kernels that take `chunk` at a time. Parameters:
  /// NAME.conv.weight [a p + 2 g n, window] in segments of x, b and c, NAME.conv.bias alike, NAME.a_log, NAME.d (ones)
  /// and NAME.dt_bias [a]; all split with the heads.
  int state_space(const std::string& name, const StateSpaceInputs& inputs, std::int64_t window, std::int64_t chunk);
  /// Mean over tokens: a scalar in fp32.
  int cross_entropy(const std::string& name, int logits, int labels);

  [[nodiscard]] std::size_t param_count() const { return block_.params.size(); }
  /// The block, handing tensor `output` to the next one; -1 for the last block.
  [[nodiscard]] BlockSpec finish(int output) &&;

 private:
  int tensor(TensorSpec spec);
  int param(ParamSpec spec);
  OpSpec& op(OpKind kind, const std::string& name, std::vector<int> inputs, std::vector<int> outputs,
             std::vector<int> params = {});
  int like(const std::string& name, int x);

  [[nodiscard]] const Routing& routing_of(int weights) const;

  BlockSpec block_;
  std::string prefix_;
  LayerPart part_ = LayerPart::none;
};

}  // namespace rehearse
