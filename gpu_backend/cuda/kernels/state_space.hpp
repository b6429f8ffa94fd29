#pragma once
// Launchers of the mixer of Mamba-2, as kernels.hpp has them.

#include "gpu_backend/cuda/kernels/kernels.hpp"

namespace rehearse::cuda {

struct StateSpaceShape {
  std::int64_t batch, tokens, heads, head_dim, groups, state, window;
  std::int64_t chunk;  ///< Backward keeps states at the first of so many tokens.
  [[nodiscard]] constexpr std::int64_t rows() const { return batch * tokens; }
  [[nodiscard]] constexpr std::int64_t inner() const { return heads * head_dim; }
  [[nodiscard]] constexpr std::int64_t shared() const { return groups * state; }
  /// Of the convolution: x's, then b's, then c's.
  [[nodiscard]] constexpr std::int64_t channels() const { return inner() + 2 * shared(); }
  /// Elements of one head's state.
  [[nodiscard]] constexpr std::int64_t square() const { return head_dim * state; }
  [[nodiscard]] constexpr std::int64_t group(std::int64_t head) const { return head * groups / heads; }
  /// The first head of a group; of `groups`: how many heads there are.
  [[nodiscard]] constexpr std::int64_t first_head(std::int64_t group) const {
    return (group * heads + groups - 1) / groups;
  }
};
/// Tensors of OpKind::state_space, or their gradients.
struct StateSpaceTensors {
  Reals z, x, b, c, dt, weight, bias, a_log, d, dt_bias;
};
/// Throws Error (unavailable) beyond kMostState.
void state_space(cudaStream_t, const StateSpaceTensors& in, Reals y, const StateSpaceShape& shape, void* scratch);
/// Writes gradients of z, x, b, c and dt; adds to those of weights unless their data are null.
void state_space_grad(cudaStream_t, Reals dy, const StateSpaceTensors& in, const StateSpaceTensors& gradients,
                      const StateSpaceShape& shape, void* scratch);
inline constexpr std::int64_t kMostState = 256;
/// What `scratch` holds.
[[nodiscard]] std::size_t state_space_scratch_bytes(const StateSpaceShape& shape, ElementType type);
[[nodiscard]] std::size_t state_space_grad_scratch_bytes(const StateSpaceShape& shape, ElementType type);

}  // namespace rehearse::cuda
