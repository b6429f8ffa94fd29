#pragma once
// Launchers of kernels for experts, as kernels.hpp has them.

#include "gpu_backend/cuda/kernels/kernels.hpp"

namespace rehearse::cuda {

/// scale, aux, z: what a token's weights add up to where they are normalised, coefficients of the balancing loss and of
/// the squared log-sum-exp. `limit` of the groups of experts may be chosen from. Shares of choices are over
/// `choices_in_scope`, losses means over `tokens_in_loss`.
struct Routing {
  std::int64_t tokens, experts, k, groups, limit;
  double scale, aux, z, choices_in_scope, tokens_in_loss;
  bool normalises, by_sigmoid;
};
/// The k best experts of each token and their weights; ties go to the expert that stands first. Throws Error
/// (unavailable) beyond kMostExperts.
void route(cudaStream_t, Reals scores, Reals weights, std::int64_t* choice, const Routing& shape);
inline constexpr std::int64_t kMostExperts = 1024;
/// load [experts]: share of all choices that fall on each. `scratch` holds count_scratch_bytes().
void route_load(cudaStream_t, const std::int64_t* choice, Reals load, const Routing& shape, void* scratch);
[[nodiscard]] std::size_t count_scratch_bytes(std::int64_t choices, std::int64_t experts);
/// `load` null: no balancing loss.
void route_grad(cudaStream_t, Reals dweights, Reals scores, const std::int64_t* choice, Reals dscores, const void* load,
                ElementType load_type, const Routing& shape);

/// Rows for each expert; at most `most`, 0 for all. `scratch` holds count_scratch_bytes().
void count_choices(cudaStream_t, const std::int64_t* choice, std::int64_t n, std::int64_t* counts, std::int64_t experts,
                   std::int64_t most, void* scratch);
void sum_counts(cudaStream_t, const std::int64_t* counts, std::int64_t n, std::int64_t* sum);

/// Row of each of `n` choices in the buffer of rows in expert order, -1 where it is dropped. capacity 0: none; padded:
/// buffers are filled up to it.
struct Dealing {
  std::int64_t n, experts, capacity;
  bool padded;
};
/// `scratch` holds rows_of_choices_scratch_bytes(), from a multiple of 256 on.
void rows_of_choices(cudaStream_t, const std::int64_t* choice, std::int64_t* rows, void* scratch, const Dealing& shape);
[[nodiscard]] std::size_t rows_of_choices_scratch_bytes(const Dealing& shape);

/// Rows of `width` elements for k choices of each token.
struct TokenRows {
  std::int64_t tokens, k, width;
};
/// to[rows[i]] = tokens[i / k]; per-row numbers move along where they are given.
void tokens_to_rows(cudaStream_t, Reals tokens, Reals to, const std::int64_t* rows, const TokenRows& shape,
                    Reals numbers = {}, Reals numbers_to = {});
/// tokens[t] = sum of its rows; per-row numbers move back where they are given, 0 for what was dropped.
void rows_to_tokens(cudaStream_t, Reals from, Reals tokens, const std::int64_t* rows, const TokenRows& shape,
                    Reals numbers = {}, Reals numbers_to = {});

/// y = weight of the row * silu(gate) * up; rows of `width`.
void weighted_silu_mul(cudaStream_t, Reals gate, Reals up, Reals weights, Reals y, std::int64_t rows,
                       std::int64_t width);
void weighted_silu_mul_grad(cudaStream_t, Reals dy, Reals gate, Reals up, Reals weights, Reals dgate, Reals dup,
                            Reals dweights, std::int64_t rows, std::int64_t width);
/// y = weight of the row * max(x, 0)^2
void weighted_squared_relu(cudaStream_t, Reals x, Reals weights, Reals y, std::int64_t rows, std::int64_t width);
void weighted_squared_relu_grad(cudaStream_t, Reals dy, Reals x, Reals weights, Reals dx, Reals dweights,
                                std::int64_t rows, std::int64_t width);

/// x [tokens, heads, d], vector [tokens, e], y [tokens, heads, d + e]
struct Appended {
  std::int64_t tokens, heads, d, e;
};
void append(cudaStream_t, Reals x, Reals vector, Reals y, const Appended& shape);
void append_grad(cudaStream_t, Reals dy, Reals dx, Reals dvector, const Appended& shape);

}  // namespace rehearse::cuda
