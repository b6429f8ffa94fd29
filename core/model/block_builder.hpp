#pragma once
// Builds one BlockSpec op by op, so that an architecture reads like its forward pass. Every method that adds an op returns the index
// of the tensor it makes, which has the op's name.

#include <string>
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
  double init_std = 0.0;  ///< Of the weight; biases start at zero.
  std::string tied_to = {};  ///< Full name of the parameter that the weight shares storage with, or empty.
};

class BlockBuilder {
 public:
  explicit BlockBuilder(std::string name);

  /// Activations [batch, sequence, trailing...] that come from the block before.
  int input(Shape trailing);
  /// Token ids or labels [batch, sequence].
  int integers(std::string name);

  int embedding(const std::string& name, int tokens, std::int64_t vocabulary, std::int64_t hidden, double init_std);
  int position_embedding(const std::string& name, int x, std::int64_t positions, double init_std);
  /// layer_norm (weight and bias) or rms_norm (weight) over the last dimension of `x`.
  int norm(OpKind kind, const std::string& name, int x, double eps);
  /// `x` itself when `p` is 0: no op, no mask.
  int dropout(const std::string& name, int x, double p);
  /// Weight [sum of the pieces, all of x after batch and sequence]. Its dimensions take the tags of the first piece's and of x's first
  /// trailing dimension. Returns one tensor per piece.
  std::vector<int> linear(const std::string& name, int x, const std::vector<LinearPiece>& pieces, const LinearOptions& options);
  /// The same with one piece, which has the op's name.
  int linear(const std::string& name, int x, Shape trailing, const LinearOptions& options);
  int rope(const std::string& name, int x, std::int64_t rotary_dim, double theta);
  /// `p` is the dropout probability of the attention probabilities.
  int attention(const std::string& name, int q, int k, int v, double p, bool causal = true);
  int gelu(const std::string& name, int x, bool tanh_approximation);
  int silu_mul(const std::string& name, int gate, int up);
  int add(const std::string& name, int residual, int x);
  /// Mean over tokens: a scalar in fp32.
  int cross_entropy(const std::string& name, int logits, int labels);

  /// The block, handing tensor `output` to the next one; -1 for the last block.
  [[nodiscard]] BlockSpec finish(int output) &&;

 private:
  int tensor(TensorSpec spec);
  int param(ParamSpec spec);
  OpSpec& op(OpKind kind, const std::string& name, std::vector<int> inputs, std::vector<int> outputs, std::vector<int> params = {});
  int like(const std::string& name, int x);

  BlockSpec block_;
};

}  // namespace rehearse
