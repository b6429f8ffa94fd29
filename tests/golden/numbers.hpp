#pragma once
// Comparing two outputs whose numbers may differ a little, as those of a page do when a calibration constant is
// measured again.
//
// Both outputs are read word by word; line breaks and the width of gaps do not count, because a longer number moves
// what follows it. What a word is made of decides how it is compared:
//   a number     "20.52", "153,323", "-3.7", "1e-05": within the tolerance, and one unit of its last decimal more,
//                which is how far rounding goes. A whole number has no decimals: 8 GPUs are never 9.
//   a bar        "#####": its length is a number, give or take one character.
//   a picture    what stands between the two vertical bars of a line, 20 characters or more: characters must be found
//                within the tolerance of the row's length from their places, all but that share of them, as what takes
//                a fraction of a character shows here and not there.
//   anything else, names with digits in them ("gpt3_175b") too: must be the same.

#include "tests/golden/transcript.hpp"

namespace golden {

/// How `obtained` differs from `expected`.
struct NumberComparison {
  bool same_text = true;  ///< All but numbers, bars and pictures are the same.
  Lines outside;          ///< One line for people for each number, bar or picture beyond the tolerance.
  [[nodiscard]] bool alike() const { return same_text && outside.empty(); }
};

/// `tolerance` is relative to the larger of the two numbers: 0.03 is 3 %. Stops at the first text that differs.
///     compare_numbers({"20.52 s"}, {"20.61 s"}, 0.03).alike()  // true
[[nodiscard]] NumberComparison compare_numbers(const Lines& expected, const Lines& obtained, double tolerance);

}  // namespace golden
