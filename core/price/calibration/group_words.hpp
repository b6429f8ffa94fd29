#pragma once
// What groups of constants are called for people.

#include <string>
#include <string_view>

namespace rehearse {

/// "matrix products" of "gemm", "fused attention, cudnn" of "attention_cudnn"; what stands behind the group's name, as
/// " of h100" does, stays. A name that nothing is known of comes back with spaces for underscores.
[[nodiscard]] std::string words_of_group(std::string_view group);

}  // namespace rehearse
