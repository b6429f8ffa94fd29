#pragma once
// What a training sample is made of: the fields that the input of a step brings.

#include <array>
#include <cstdint>
#include <string_view>

namespace rehearse {

/// A field of a sample. `tokens` and `labels` are whole numbers, `image` is read from storage, `noise` is drawn where
/// it is used: what a generator begins with. `token_types` say which sentence of a sample a token belongs to. `other`
/// fields cost what they weigh, and no data source brings them.
enum class SampleField : std::uint8_t { other, tokens, labels, image, noise, token_types };
[[nodiscard]] constexpr std::string_view name_of(SampleField field) {
  constexpr std::array<std::string_view, 6> kNames{"other", "tokens", "labels", "image", "noise", "token_types"};
  return kNames.at(static_cast<std::size_t>(field));
}

}  // namespace rehearse
