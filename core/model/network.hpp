#pragma once
// A network as op graphs: a few distinct blocks (embedding, decoder layer, head; the stages of a convolutional
// network), each a list of ops in topological order over named tensors. Global shapes only: how tensors lie on devices
// is a strategy's business.

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/dtype.hpp"
#include "core/base/sample_field.hpp"
#include "core/base/units.hpp"

namespace rehearse {

/// What a dimension ranges over. Strategies shard by tag: sequence parallelism shards `sequence`, tensor parallelism
/// `heads`, `ffn` and `vocabulary`, data parallelism `batch`, expert parallelism `experts`, `expert_ffn` and `routed`,
/// tiles `height` and `width`. `hidden` are features of a token that nothing splits: the residual stream, latent
/// projections, routing weights. `routed` are tokens in expert order, `size` of them for every token of the batch. An
/// image is [batch, channels, height, width], a volume [batch, channels, depth, height, width].
enum class DimTag {
  fixed,
  batch,
  sequence,
  hidden,
  heads,
  kv_heads,
  head_dim,
  ffn,
  vocabulary,
  experts,
  expert_ffn,
  routed,
  channels,
  depth,
  height,
  width,
  adapted  ///< Features that a low-rank adapter makes.
};

/// `size` is elements; 0 for batch and sequence, whose sizes the workload gives.
struct Dim {
  DimTag tag = DimTag::fixed;
  std::int64_t size = 0;
};
using Shape = std::vector<Dim>;
/// Elements of a tensor of this shape for `b` sequences of `s` tokens; a routed dimension counts b * s * size.
[[nodiscard]] std::int64_t elements(const Shape& shape, std::int64_t b, std::int64_t s);

/// Operators whose kind other code names. Any other has a kind of its own all the same: add_operator (op_table.hpp).
enum class OpKind {
  embedding,           ///< tokens [b,s], table [V,h] -> [b,s,h]
  position_embedding,  ///< x [b,s,h], table [s_max,h] -> x + table[position]
  dropout,             ///< x -> x with a fraction `p` zeroed; saves a one-byte mask
  layer_norm,          ///< x, weight [h], bias [h] -> y; saves x
  rms_norm,            ///< x, weight [h] -> y; saves x
  /// x [.., in], weight [out, in], optional bias [out] -> [.., out]; saves x. `in` is all dimensions of x after
  /// batch and sequence, flattened. With several outputs (fused q, k, v; fused gate and up) these are the pieces of
  /// the product, in order, along its last dimension: views of one GEMM's result.
  linear,
  rope,  ///< q or k [b,s,heads,d] -> rotated, in place; saves nothing
  /// q [b,s,a,d], k [b,s,kv,d], v [b,s,kv,e] -> [b,s,a,e]; causal or not, to all keys or those in a window. Optional
  /// sinks [a]: a learned score per head that stands in the softmax beside the keys' and has no value.
  attention,
  gelu,           ///< x -> gelu(x); saves x
  squared_relu,   ///< x -> max(x, 0)^2 (So et al. 2021, Primer); saves x
  silu_mul,       ///< gate, up -> silu(gate) * up; saves both
  add,            ///< residual + x
  cross_entropy,  ///< logits [b,s,V], labels -> loss; fp32
  /// x [b,s,a,d], y [b,s,e] -> [b,s,a,d+e]: y after every head (the rotary part of a latent key)
  append,
  /// x [b,s,h], weight [E,h], optional bias [E] -> weights [b,s,k] of the experts chosen, fp32; saves x and the scores
  router,
  /// x [b,s,h], weights [b,s,k] -> rows [routed,h] in expert order, and the weight of each [routed]
  dispatch,
  /// rows [routed,in], weight [E,out,in], optional bias [E,out] -> [routed,out]: every row by its expert's weight;
  /// saves the rows. With the rows' weights [routed] as second input, those multiply the bias.
  grouped_linear,
  /// gate, up [routed,f], weights [routed] -> weight * silu(gate) * up; saves all three. With `limit` c (GPT-OSS,
  /// arXiv:2508.10925): weight * g * sigmoid(1.702 g) * (u + 1), g = min(gate, c), u = up held to [-c, c]
  weighted_silu_mul,
  /// rows [routed,h], weights [b,s,k] (whose routing it undoes) -> [b,s,h]: sum of each token's rows
  combine,
  /// image, weight [out, in / groups, window...], optional bias [out] -> image; saves x. Transposed: weight
  /// [in, out / groups, window...], the gradient of a convolution by its input.
  convolution,
  pool,         ///< image -> image: maximum (saves where it was) or mean over a window
  global_pool,  ///< image -> [b,1,c]: mean over all pixels
  /// image, weight [c], bias [c] -> mean 0, variance 1 per channel over batch and pixels; saves x and 2c statistics
  batch_norm,
  relu,              ///< x -> max(x, 0); saves y
  gate,              ///< features, gates -> leaky_relu(features) * sigmoid(gates) (gated convolution); saves both
  concat,            ///< images of one size -> their channels one after the other
  upsample,          ///< image -> each side `scale` times as long, by repeating or interpolating pixels
  pixel_loss,        ///< logits [b,classes,h,w], labels [b,h,w] -> loss: mean cross entropy over pixels; fp32
  leaky_relu,        ///< x -> x where it is above 0, `slope` * x elsewhere; saves y
  tanh,              ///< x -> tanh(x); saves x
  adversarial_loss,  ///< scores of samples, or of patches of them -> loss of taking them for real or for made; fp32
  weighted_squared_relu,  ///< x [routed,f], weights [routed] -> weight * max(x, 0)^2; saves both
  /// x [b,s,a,p], weight [a p] -> the a p features of a token in `groups` equal runs, each to root mean square 1; saves
  /// x
  grouped_rms_norm,
  /// z, x [b,s,a,p], b, c [b,s,g,n], dt [b,s,a]; convolution's weight [a p + 2 g n, k] and bias, a_log, d, dt_bias [a]
  /// -> [b,s,a,p]: the mixer of Mamba-2 (Dao and Gu 2024, sec. 7) between its projections. x, b and c pass a causal
  /// convolution over k tokens, channel by channel, and SiLU; with D_t = softplus(dt + dt_bias), head by head,
  /// h_t = exp(-exp(a_log) D_t) h_{t-1} + D_t x_t b_t^T [p,n], h_0 = 0, and the output is (h_t c_t + d x_t) *
  /// silu(z_t). Head i takes b and c of group i g / a, rounded down. Saves its inputs.
  state_space,
};
[[nodiscard]] std::string_view name_of(OpKind kind);
/// Between the two products of experts.
[[nodiscard]] constexpr bool is_expert_activation(OpKind kind) {
  return kind == OpKind::weighted_silu_mul || kind == OpKind::weighted_squared_relu;
}

/// A learned tensor of one block. Blocks that repeat have one instance per layer. A `heads`, `ffn` or `vocabulary` tag
/// marks the dimension that tensor parallelism may split: dimension 0 of a column-parallel weight [out, in], 1 of a
/// row-parallel one. Such a dimension is flattened (heads * head_dim): it splits into whole heads, which the op's
/// tensors count.
struct ParamSpec {
  std::string name;  ///< "attention.qkv.weight"
  Shape shape;
  /// Lengths of the pieces that the output features concatenate (dimension 0; 1 of a grouped
  /// weight), one per output of the op; empty: one piece. Splitting that dimension splits every
  /// piece, so that each rank has its own q, k and v.
  std::vector<std::int64_t> segments = {};
  double init_std = 0.0;    ///< Normal initialisation; 0 without the two below is zeros.
  bool init_one = false;    ///< Norm weights.
  double init_bound = 0.0;  ///< Uniform initialisation from -init_bound to init_bound.
  /// Full name ("embedding.word.weight") of the parameter that this one shares storage with, or empty.
  std::string tied_to = {};
  bool frozen = false;  ///< Not trained: it has neither gradient nor optimizer state.
  [[nodiscard]] std::int64_t elements() const;
};

struct TensorSpec {
  std::string name;
  Shape shape;
  bool fp32 = false;     ///< Kept in fp32 whatever the training precision (loss, log-sum-exp).
  bool integer = false;  ///< Token ids and labels.
  bool loaded = false;   ///< Images and noise: as integers, they come from the input, in the type of activations.
  SampleField field = SampleField::other;  ///< Of inputs.
  std::string from =
      {};  ///< "BLOCK.TENSOR" of an earlier block whose value this is (a skip connection past other blocks), or empty.
  /// Whether the step's input brings it.
  [[nodiscard]] bool is_input() const { return integer || loaded; }
};

/// One spatial dimension of a convolution's or pool's window. Output element o reads input elements o * stride -
/// padding + i * dilation, 0 <= i < kernel; those outside the image are zeros (convolution) or left out (pool). Padding
/// behind follows from the output's size.
struct WindowDim {
  std::int64_t kernel = 1, stride = 1, padding = 0, dilation = 1;
  bool operator==(const WindowDim&) const = default;
};

/// How a router chooses experts and which losses keep them even. `groups` and `limit` are DeepSeek-V3's node-limited
/// routing: the experts stand in equal groups, and a token's all lie in `limit` of them.
struct Routing {
  std::int64_t experts = 0;  ///< E
  std::int64_t top_k = 0;    ///< k, experts per token.
  std::int64_t groups = 1;   ///< Divides E.
  std::int64_t limit = 1;    ///< Groups per token, at most `groups`.
  bool sigmoid = false;      ///< Scores by sigmoid, normalised over the chosen; otherwise softmax over all.
  bool normalise = true;     ///< The weights of the chosen add up to `scale`.
  double scale = 1.0;
  double aux_loss = 0.0;  ///< Coefficient of the load-balancing loss (Fedus et al. 2021, eq. 4); 0: none.
  double z_loss = 0.0;    ///< Coefficient of the squared log-sum-exp (Zoph et al. 2022, eq. 5); 0: none.
};

/// The part of a transformer's layer that an op belongs to. Recomputation chooses ops by it.
enum class LayerPart : std::uint8_t {
  none,               ///< Norms before the branches, residual additions, and all that is in no such layer.
  attention,          ///< From the projections of queries, keys and values to that of the result.
  latent_projection,  ///< Of latent attention: what is made of the latent vectors, their norms included.
  mlp,
  experts,  ///< Router, dispatch, experts, combination.
  shared_experts
};

/// What a product of a layer projects to: a fused product, or each of its pieces. Adapters choose products by it.
enum class Projection : std::uint8_t {
  none,
  qkv,               ///< Queries, keys or values.
  attention_output,  ///< The attention's result, back to the residual stream.
  mlp_inner,         ///< The inner features of an MLP, gates included.
  mlp_output         ///< Back to the residual stream.
};

struct OpSpec {
  OpKind kind;
  std::string name;         ///< "attention.qkv"; for people.
  std::vector<int> inputs;  ///< Indices into BlockSpec::tensors.
  std::vector<int> outputs;
  std::vector<int> params;  ///< Indices into BlockSpec::params: weight, then bias.
  /// Dropout probability; for attention that of the probabilities. 0 means no mask is made.
  double p = 0.0;
  double eps = 0.0;
  bool causal = true;  ///< Attention: a token sees only itself and those before it.
  /// Causal attention: tokens that a token sees at most, itself among them; 0: all.
  std::int64_t attention_window = 0;
  bool tanh_gelu = false;       ///< GELU by its tanh approximation instead of erf.
  std::int64_t rotary_dim = 0;  ///< rope: leading elements of head_dim that turn; the rest pass through.
  double rope_theta = 0.0;      ///< rope: base of the angles.
  /// rope: angles are scaled for long contexts, and results by a factor that no fused kernel takes (YaRN, Peng et al.
  /// 2023). Only costs know of it.
  bool scaled = false;
  Routing routing = {};                ///< router, dispatch, combine.
  std::vector<WindowDim> window = {};  ///< convolution, pool, upsample: per spatial dimension.
  /// convolution: channels fall into groups that do not mix; as many as input channels: depthwise. grouped_rms_norm:
  /// runs.
  std::int64_t groups = 1;
  std::int64_t chunk = 0;     ///< state_space: tokens that kernels work on at a time; no result depends on it.
  bool transposed = false;    ///< convolution, upsample: each input element is spread over a window of the output.
  bool average = false;       ///< pool: the mean instead of the maximum.
  std::int64_t scale = 1;     ///< upsample.
  bool interpolated = false;  ///< upsample: bilinear.
  double slope = 0.0;         ///< leaky_relu.
  double limit = 0.0;         ///< weighted_silu_mul: bound of gate and up; 0: none.
  double factor = 1.0;        ///< add: factor of the second operand.
  bool frozen = false;        ///< Its parameters are: backward makes no gradients of them and keeps nothing for that.
  LayerPart part = LayerPart::none;
  Projection projection = Projection::none;
  bool low_rank = false;  ///< linear, dropout: of an adapter, whose products stay in the type of activations.
  /// adversarial_loss: the hinge loss (Lim and Ye 2017) instead of the logistic one (Goodfellow et al. 2014).
  bool hinge = false;
  /// linear without a bias, cross_entropy: the one makes logits for the other alone, so that a framework may run both
  /// as one.
  bool joins_loss = false;
};

enum class BlockKind : std::uint8_t {
  part,  ///< Of a network that is cut where work divides evenly; an embedding or a head.
  layer  ///< One of a transformer's layers, which pipelines deal out by number.
};

struct BlockSpec {
  /// "embedding", "layer", "head"; "dense_layer" where the first layers of a network have no experts, "window_layer"
  /// where some attend to a window only; "mamba_layer", "attention_layer", "mlp_layer", "expert_layer" of a hybrid.
  std::string name;
  BlockKind kind = BlockKind::part;
  std::vector<TensorSpec> tensors;
  std::vector<ParamSpec> params;
  std::vector<OpSpec> ops;
  int input = -1;   ///< Tensor that comes from the block before; -1 for the first.
  int output = -1;  ///< Tensor handed to the next block; -1 for the last (its output is the loss).
  /// Elements of one instance, tied parameters included: a stage that holds the block stores them all.
  [[nodiscard]] std::int64_t parameter_count() const;
  /// Whether it is one of the layers that pipelines deal out.
  [[nodiscard]] bool is_layer() const { return kind == BlockKind::layer; }
};

/// `blocks[i]` stands `repeat[i]` times: in a row, or, of layers that alternate, in turn with the others. Two networks
/// that are trained against each other (Goodfellow et al. 2014) are one chain: the generator's blocks, then those of
/// the discriminator, which judges real samples and what the generator makes.
struct Network {
  std::string name;
  std::vector<BlockSpec> blocks;
  std::vector<int> repeat;
  std::int64_t max_sequence_length = 0;  ///< 0: no bound.
  /// Samples are sequences of tokens. Otherwise images or vectors, and sequence lengths are 0.
  bool sequences = true;
  int discriminator = 0;  ///< Index of the discriminator's first block; 0: there is one network.
  /// Kinds of layers take turns, the first listed first, for as long as each lasts.
  bool alternating = false;
  /// Of a hybrid: the index of the block of each layer, from the first layer to the last; empty: as `repeat` and
  /// `alternating` say.
  std::vector<int> pattern = {};
  /// What no back end computes as the model's class does; 'run' refuses it by these words.
  std::vector<std::string> simulated_only = {};
  std::vector<std::string> notes = {};  ///< What the file says and the network leaves out, a sentence each.

  /// Every learned element once; tied parameters count once.
  [[nodiscard]] std::int64_t parameter_count() const;
  /// Whether a discriminator judges what the blocks before it make.
  [[nodiscard]] bool adversarial() const { return discriminator > 0; }
  /// Those that one token meets: of the experts' weights only its k of E.
  [[nodiscard]] std::int64_t active_parameter_count() const;
  /// Repeats of the blocks that are layers; of all blocks where none is.
  [[nodiscard]] int layers() const;
  /// Index of the block at each position.
  [[nodiscard]] std::vector<int> order() const;
  /// Whether blocks differ so that stages cannot be equal numbers of one layer.
  [[nodiscard]] bool uneven() const;
  /// The routing of the first block that routes; null for a network without experts.
  [[nodiscard]] const Routing* routing() const;
};

/// The tensor of an earlier block that TensorSpec::from names: block and tensor index. Throws std::logic_error when
/// there is none.
[[nodiscard]] std::pair<int, int> find_skip(const Network& network, const std::string& from);

/// FLOPs of one forward pass of one op on global shapes, batch `b` and sequence `s`. Matrix products count 2mnk,
/// convolutions 2 per output element, input channel of its group and window element (padding counts as image),
/// attention 2 b a s^2 (d + e) with heads of d for queries and e for values (half of it when causal work is counted;
/// with a window of w < s tokens s w instead of s^2, less w^2 / 2 then); everything else counts 0, as the field does
/// for MFU. Experts count the k rows that each token is routed to.
[[nodiscard]] Flops forward_matmul_flops(const BlockSpec& block, const OpSpec& op, std::int64_t b, std::int64_t s,
                                         bool causal_half);

/// Forward + backward matmul FLOPs of the model for `b` sequences of length `s`, full-square attention: three times
/// forward (twice for products with frozen weights), without recomputation. On a GPT with ffn = 4h this is 72 B s l h^2
/// (1 + s/6h + V/12lh): Megatron's 96 B s l h^2 (1 + s/6h + V/16lh) (Narayanan et al. 2021, eq. 3) less the recomputed
/// forward of the layers, 24 B s l h^2 (1 + s/6h). A discriminator passes forward three times, backward twice for its
/// weights and once for the generator alone: 3 + 3 + 2 times its forward.
[[nodiscard]] Flops model_flops(const Network& network, std::int64_t b, std::int64_t s);

}  // namespace rehearse
