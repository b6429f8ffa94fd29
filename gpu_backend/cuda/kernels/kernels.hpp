#pragma once
// Launchers of all kernels. Each enqueues on a stream and returns; the computation is that of the CPU operator of the
// same name, which tests compare it with. Sums are made in fp32 (fp64 for fp64 operands), in an order that depends on
// sizes only: results repeat bit for bit.

#include <compare>
#include <cstddef>
#include <cstdint>

#include "gpu_backend/cuda/kernels/views.hpp"

// As in cuda_runtime_api.h, so that host code need not read it.
typedef struct CUstream_st* cudaStream_t;

namespace rehearse::cuda {

// ---- element by element; n elements

enum class Curve { gelu, gelu_by_tanh, squared_relu };
void curve(cudaStream_t, Curve which, Reals x, Reals y, std::int64_t n);
void curve_grad(cudaStream_t, Curve which, Reals dy, Reals x, Reals dx, std::int64_t n);
/// Rows of gates and of what they multiply begin `apart` elements from each other, those of their gradients
/// `grad_apart`.
struct GatedRows {
  std::int64_t rows, width, apart, grad_apart;
};
void silu_mul(cudaStream_t, Reals gate, Reals up, Reals y, const GatedRows& shape);
void silu_mul_grad(cudaStream_t, Reals dy, Reals gate, Reals up, Reals dgate, Reals dup, const GatedRows& shape);
void add(cudaStream_t, Reals a, Reals b, Reals sum, std::int64_t n);
/// To another type, or copied where types are equal.
void cast(cudaStream_t, Reals from, Reals to, std::int64_t n);
void scale(cudaStream_t, Reals x, std::int64_t n, double factor);
void divide(cudaStream_t, Reals x, std::int64_t n, double by);
/// y = dropout(x) (+ residual, where it is given); writes the mask.
void dropout(cudaStream_t, Reals x, const void* residual, std::uint8_t* mask, Reals y, std::int64_t n,
             const GlobalElements& elements, const Dropout& random);
void dropout_grad(cudaStream_t, Reals dy, const std::uint8_t* mask, Reals dx, std::int64_t n, double scale);

// ---- blocks of elements, for what goes between ranks

/// Bytes [from, from + bytes) of one place go to another.
struct Piece {
  std::int64_t from, to, bytes;
  auto operator<=>(const Piece&) const = default;
};
/// Copies pieces listed in device memory.
void copy_pieces(cudaStream_t, const std::byte* from, std::byte* to, const Piece* pieces, int count,
                 std::int64_t largest);

// ---- rows

/// The weight has a piece of `width` for each of `runs` consecutive rows, in turn.
struct NormShape {
  std::int64_t rows, width;
  double epsilon;
  bool centred;
  std::int64_t runs = 1;
};
void norm(cudaStream_t, Reals x, Reals weight, const void* bias, Reals y, const NormShape& shape);
void norm_input_grad(cudaStream_t, Reals x, Reals dy, Reals weight, Reals dx, const NormShape& shape);
/// Adds to dweight, and to dbias where given. `scratch` holds norm_scratch_bytes().
void norm_weight_grad(cudaStream_t, Reals x, Reals dy, Reals dweight, void* dbias, const NormShape& shape,
                      void* scratch);
/// All of a norm's gradients from one reading of x and dy: dx (+ `beside`, where it is given, of x's type), and what is
/// added to dweight and, where given, dbias. `scratch` holds norm_grads_scratch_bytes(). For shapes that
/// takes_norm_grads() names.
void norm_grads(cudaStream_t, Reals x, Reals dy, Reals weight, const void* beside, Reals dx, Reals dweight, void* dbias,
                const NormShape& shape, void* scratch);
[[nodiscard]] std::size_t norm_grads_scratch_bytes(const NormShape& shape, ElementType type);
[[nodiscard]] bool takes_norm_grads(const NormShape& shape, ElementType type);
/// Mean and inverse deviation of every row, pairs in the type of sums.
void norm_moments(cudaStream_t, Reals x, void* to, const NormShape& shape);
[[nodiscard]] std::size_t norm_scratch_bytes(const NormShape& shape, ElementType type);
/// A matrix [rows, columns] beside others, whose rows begin `apart` elements from each other.
struct ColumnTerm {
  Reals dy;
  std::int64_t columns, apart;
};
inline constexpr int kMostColumnSums = 4;
/// Adds the sums of the columns of up to kMostColumnSums matrices of one type to `sum`, which has a number for each
/// column of all of them. `scratch` holds column_scratch_bytes() of all columns.
void column_sum(cudaStream_t, const ColumnTerm* terms, int count, Reals sum, std::int64_t rows, void* scratch);
[[nodiscard]] std::size_t column_scratch_bytes(std::int64_t rows, std::int64_t columns, ElementType type);

/// Keys of a row of scores [batch, heads, queries, keys], where causal: those at later positions are masked.
struct Mask {
  bool causal = false;
  std::int64_t queries = 1;
  Line query, key;
};
void softmax(cudaStream_t, Reals scores, Reals probabilities, std::int64_t rows, std::int64_t columns, double scale,
             const Mask& mask);
void softmax_grad(cudaStream_t, Reals probabilities, Reals grad, Reals out, std::int64_t rows, std::int64_t columns,
                  double scale);
void mask_later(cudaStream_t, Reals scores, std::int64_t rows, std::int64_t columns, const Mask& mask);

// ---- tables

struct TableShape {
  std::int64_t tokens, width, first_row, rows;
};
void embedding(cudaStream_t, const std::int64_t* tokens, Reals table, Reals out, const TableShape& shape);
/// Adds to the rows that tokens name. `scratch` holds embedding_grad_scratch_bytes().
void embedding_grad(cudaStream_t, const std::int64_t* tokens, Reals dy, Reals table, const TableShape& shape,
                    void* scratch);
[[nodiscard]] std::size_t embedding_grad_scratch_bytes(const TableShape& shape);
struct PositionShape {
  std::int64_t batch, sequence, width;
  Line positions;
};
void add_position(cudaStream_t, Reals x, Reals table, Reals y, const PositionShape& shape);
void position_grad(cudaStream_t, Reals dy, Reals table, const PositionShape& shape);
struct RopeShape {
  std::int64_t batch, sequence, heads, width, turning;
  double base;
  Line positions;
  std::int64_t from_apart, to_apart;  ///< Elements from where a token begins to where the next does.
};
/// direction 1 turns, -1 turns back; x and y may be the same.
void rope(cudaStream_t, Reals x, Reals y, const RopeShape& shape, int direction);

// ---- cross-entropy; columns from `valid` on are padding

struct Logits {
  std::int64_t rows, stored, valid, first;
};
void xent_max(cudaStream_t, Reals logits, Reals max, const Logits& shape);
void xent_sums(cudaStream_t, Reals logits, const std::int64_t* labels, Reals max, Reals sums, const Logits& shape);
/// xent_max() and xent_sums() from one reading of the logits.
void xent_max_and_sums(cudaStream_t, Reals logits, const std::int64_t* labels, Reals max, Reals sums,
                       const Logits& shape);
/// Both, and xent_grad() of logits to `grad`: a row is held in shared memory and read once. For rows that
/// fits_in_block() names.
void xent_at_once(cudaStream_t, Reals logits, const std::int64_t* labels, Reals max, Reals sums, Reals grad,
                  const Logits& shape, double tokens);
[[nodiscard]] bool fits_in_block(const Logits& shape, ElementType type);
void xent_exponential(cudaStream_t, Reals logits, const std::int64_t* labels, Reals max, Reals target,
                      const Logits& shape);
void xent_sum_exp(cudaStream_t, Reals exponentials, Reals sum, const Logits& shape);
void xent_normalise(cudaStream_t, Reals exponentials, Reals sum, const Logits& shape);
/// Mean of log(sum) - target over rows to `loss`, their sum to `total`. target null: pairs of both lie in `sum`.
void xent_loss(cudaStream_t, Reals sum, const void* target, Reals loss, double* total, std::int64_t rows);
/// (p - [label]) / tokens. max null: `from` holds probabilities; else logits, whose exponentials are divided by sums[2
/// r].
void xent_grad(cudaStream_t, Reals from, const std::int64_t* labels, Reals out, const void* max, const void* sums,
               const Logits& shape, double tokens);

// ---- attention; q [b, queries, heads, d], k [b, keys, kv_heads, d], v and out with `v` for d; log-sum-exp [b,
// queries, heads]

/// Elements from where a row of tokens begins to where the next does.
struct AttentionRows {
  std::int64_t q, k, v, dq, dk, dv;
  auto operator<=>(const AttentionRows&) const = default;
};
struct AttentionShape {
  std::int64_t batch, queries, keys, heads, kv_heads, d, v;
  double scale;
  bool causal;
  Line query, key;    ///< Positions.
  Line sample, head;  ///< For dropout.
  std::int64_t all_heads, all_queries, all_keys;
  Dropout dropout;
  std::int64_t window = 0;  ///< Keys that a query sees at most, up to its own, where causal; 0: all.
  AttentionRows apart{};    ///< Other rows, as those of the output, lie one after the other.
};
void attention(cudaStream_t, Reals q, Reals k, Reals v, Reals out, Reals lse, const AttentionShape& shape);
/// `scratch` holds attention_scratch_bytes().
void attention_grad(cudaStream_t, Reals dout, Reals q, Reals k, Reals v, Reals out, Reals lse, Reals dq, Reals dk,
                    Reals dv, const AttentionShape& shape, void* scratch);
[[nodiscard]] std::size_t attention_scratch_bytes(const AttentionShape& shape, ElementType type);
/// Joins out [rows, width] and its log-sum-exp with those of further keys.
void attention_merge(cudaStream_t, Reals out, Reals lse, Reals more, Reals more_lse, std::int64_t rows,
                     std::int64_t width);
/// few [rows, heads, width], many [rows, heads x copies, width]; `heads` here counts those of all rows.
struct SharedHeads {
  std::int64_t heads, copies, width;
};
void repeat_heads(cudaStream_t, Reals few, Reals many, const SharedHeads& shape);
void sum_heads(cudaStream_t, Reals many, Reals few, const SharedHeads& shape);
void fill(cudaStream_t, Reals x, std::int64_t n, double value);
inline constexpr std::int64_t kMaxHeadDim = 256;
/// The same on tensor cores, for bfloat16: attention() and attention_grad() use it where this holds.
[[nodiscard]] bool on_tensor_cores(const AttentionShape& shape, ElementType type);

// ---- optimizer: many tensors per launch

/// A tensor of an update: gradient, weights, first and second state (SGD has one). `decay` multiplies the weights. Adam
/// also writes the weights in bfloat16 to `rounded`, where that is given.
struct Updated {
  void* gradient;
  void* weights;
  void* first;
  void* second;
  std::int64_t n;
  double decay;
  void* rounded = nullptr;
};
/// Gradients are scaled on the way as clip() scales them, and `observed` gets the sum. `sum` null: they are not.
struct ClipOnTheWay {
  Reals sum;
  double largest = 0;
  double* observed = nullptr;
};
/// `correct1` and `correct2`: 1 - beta^t, t steps after the start. `clears`: leaves zeros for gradients.
struct AdamRule {
  double rate, beta1, beta2, epsilon;
  PerStep<double> correct1, correct2;
  bool decoupled;
  ClipOnTheWay clip{};
  bool clears = false;
};
struct SgdRule {
  double rate, momentum;
};
struct UpdateTypes {
  ElementType gradient, weights, state;
};
void adam(cudaStream_t, const Updated* tensors, int count, const UpdateTypes& types, const AdamRule& rule);
void sgd(cudaStream_t, const Updated* tensors, int count, const UpdateTypes& types, const SgdRule& rule);
struct Counted {
  Reals values;
  std::int64_t n;
};
/// Sum of squares over all tensors to `sum`. `scratch` holds square_scratch_bytes().
void square_sum(cudaStream_t, const Counted* tensors, int count, Reals sum, void* scratch);
[[nodiscard]] std::size_t square_scratch_bytes(const Counted* tensors, int count);
/// Casts many tensors, which do not overlap.
struct CastOf {
  Reals from, to;
  std::int64_t n;
};
void cast_all(cudaStream_t, const CastOf* tensors, int count);
/// Zeros to many tensors.
void zero_all(cudaStream_t, const Counted* tensors, int count);
/// Scales by min(1, largest / (sqrt(sum) + 1e-6)); `observed` gets the sum.
void clip(cudaStream_t, const Counted* tensors, int count, Reals sum, double largest, double* observed);

}  // namespace rehearse::cuda
