#pragma once
// Suggestions where a name is not known.

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.hpp"

namespace rehearse {

/// What somebody may have meant by `word`: the candidates that contain it, shortest first and at most `most`; where
/// none does, or the word has fewer than three letters, the one that did_you_mean finds. May be empty.
[[nodiscard]] std::vector<std::string> near_names(std::string_view word, std::span<const std::string> candidates,
                                                  std::size_t most = 3);
/// "did you mean 'a' or 'b'?", empty for no names.
[[nodiscard]] std::string question_of(std::span<const std::string> names);
/// Error (usage): "unknown KIND 'WORD'", with suggestions and where all are listed ("rehearse list keys") instead of a
/// long list of them.
[[nodiscard]] Error unknown_of_many(std::string_view kind, std::string_view word, std::span<const std::string> valid,
                                    std::string_view listing);

}  // namespace rehearse
